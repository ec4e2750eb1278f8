"""A summary tree as JSON and as text: nodes per level, and each summary below its roots with size and first words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text
from rich.tree import Tree

from ragindex.cli.console import strip_controls
from ragindex.interfaces import Collection
from ragindex.parts.trees.summary_tree import SUMMARY_KIND

_MAX_TEXT = 80  # characters of a summary
_MAX_BELOW = 10  # summaries shown below one


def summarize_tree(nodes: Collection) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the nodes per level and the number of leaves below no summary, `{"levels", "alone"}`, and the roots.

    A root is `{"id", "level", "children", "passages", "text", "below"}`: counts, first words, and the summaries below.
    Roots and summaries are sorted by size, largest first, then by id. A summary with several parents is below each.
    """
    rows = [
        row for batch in nodes.scan(("level", "kind", "children", "passage_ids", "text")) for row in batch.to_pylist()
    ]
    by_id = {row["id"]: row for row in rows if row["kind"] == SUMMARY_KIND}
    children = {child for row in by_id.values() for child in row["children"]}
    levels = Counter(int(row["level"]) for row in rows)
    alone = sum(row["id"] not in children and row["id"] not in by_id for row in rows)
    roots = _sorted([_below(id, by_id) for id in by_id if id not in children])
    return {"levels": {str(level): count for level, count in sorted(levels.items())}, "alone": alone}, roots


def _below(id: str, by_id: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    row = by_id[id]
    words = " ".join(row["text"][: 4 * _MAX_TEXT].split())
    return {
        "id": id,
        "level": int(row["level"]),
        "children": len(row["children"]),
        "passages": len(row["passage_ids"]),
        "text": words if len(words) <= _MAX_TEXT else f"{words[:_MAX_TEXT]}…",
        "below": _sorted([_below(child, by_id) for child in row["children"] if child in by_id]),
    }


def _sorted(nodes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(nodes, key=lambda node: (-node["passages"], node["id"]))


# ---------------------------------------------------------------- text


def render_tree(
    counts: Mapping[str, Any], roots: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]]
) -> Group:
    """Render the levels in one sentence, then a tree of each of the `shown` roots."""
    levels = ", ".join(f"{count:,} on level {level}" for level, count in counts["levels"].items())
    alone = f" {counts['alone']:,} leaves are below no summary." if counts["alone"] else ""
    first = Text(f"Nodes: {levels or 'none'}.{alone}")
    more = [Text(f"… and {len(roots) - len(shown):,} more roots")] if len(shown) < len(roots) else []
    return Group(first, *(_render(root) for root in shown), *more)


def _render(node: Mapping[str, Any]) -> Tree:
    tree = Tree(_line(node))
    for below in node["below"][:_MAX_BELOW]:
        tree.add(_render(below))
    if len(node["below"]) > _MAX_BELOW:
        tree.add(f"… and {len(node['below']) - _MAX_BELOW:,} more summaries")
    return tree


def _line(node: Mapping[str, Any]) -> Text:
    size = f"level {node['level']}, {node['children']:,} children, {node['passages']:,} passages, {node['id']}"
    return Text.assemble((size, "dim"), f"  {strip_controls(node['text'])}")
