"""Output of a summary tree as JSON and text: nodes per level, and the tree of summaries with sizes and first words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text
from rich.tree import Tree

from ragindex._util.text import many
from ragindex.cli.console import strip_controls
from ragindex.interfaces import Collection
from ragindex.parts.trees.summary_tree import SUMMARY_KIND

_MAX_TEXT = 80  # characters of a summary
_MAX_CHILDREN = 10  # summaries shown below one


def summarize_tree(nodes: Collection) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return counts, `{"levels", "alone"}`, and the roots of the tree.

    `levels` has the number of nodes per level, `alone` the number of leaves without a summary. A root is `{"id",
    "level", "children", "passages", "text", "below"}`: counts, first words, and child summaries of the same form. Roots
    and summaries are sorted by number of passages, largest first, then by id. A summary with several parents occurs
    below each.
    """
    rows = [
        row for batch in nodes.scan(("level", "kind", "children", "passage_ids", "text")) for row in batch.to_pylist()
    ]
    by_id = {row["id"]: row for row in rows if row["kind"] == SUMMARY_KIND}
    children = {child for row in by_id.values() for child in row["children"]}
    levels = Counter(int(row["level"]) for row in rows)
    alone = sum(row["id"] not in children and row["id"] not in by_id for row in rows)
    roots = _sort_nodes([_build_node(id, by_id) for id in by_id if id not in children])
    return {"levels": {str(level): count for level, count in sorted(levels.items())}, "alone": alone}, roots


def _build_node(id: str, by_id: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    row = by_id[id]
    words = " ".join(row["text"][: 4 * _MAX_TEXT].split())
    return {
        "id": id,
        "level": int(row["level"]),
        "children": len(row["children"]),
        "passages": len(row["passage_ids"]),
        "text": words if len(words) <= _MAX_TEXT else f"{words[:_MAX_TEXT]}…",
        "below": _sort_nodes([_build_node(child, by_id) for child in row["children"] if child in by_id]),
    }


def _sort_nodes(nodes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(nodes, key=lambda node: (-node["passages"], node["id"]))


# ---------------------------------------------------------------- text


def render_tree(
    counts: Mapping[str, Any], roots: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]]
) -> Group:
    """Render the counts as one sentence, then the tree of each of the `shown` roots."""
    levels = ", ".join(f"{count:,} on level {level}" for level, count in counts["levels"].items())
    alone = f" {many(counts['alone'], 'leaf is', 'leaves are')} below no summary." if counts["alone"] else ""
    first = Text(f"Nodes: {levels or 'none'}.{alone}")
    more = [Text(f"… and {many(len(roots) - len(shown), 'more root')}")] if len(shown) < len(roots) else []
    return Group(first, *(_render_node(root) for root in shown), *more)


def _render_node(node: Mapping[str, Any]) -> Tree:
    tree = Tree(_format_node(node))
    for below in node["below"][:_MAX_CHILDREN]:
        tree.add(_render_node(below))
    if len(node["below"]) > _MAX_CHILDREN:
        tree.add(f"… and {many(len(node['below']) - _MAX_CHILDREN, 'more summary', 'more summaries')}")
    return tree


def _format_node(node: Mapping[str, Any]) -> Text:
    size = f"level {node['level']}, {many(node['children'], 'child', 'children')}, {many(node['passages'], 'passage')}"
    return Text.assemble((f"{size}, {node['id']}", "dim"), f"  {strip_controls(node['text'])}")
