"""A tree of summaries folded: its levels, and from the roots down every summary with its size and first words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text
from rich.tree import Tree

from ragindex.cli.console import clean
from ragindex.interfaces import Collection
from ragindex.parts.trees.summary_tree import SUMMARY_KIND

_WORDS = 80  # characters of a summary
_UNFOLDED = 10  # summaries below one


def folded(nodes: Collection) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """`{"levels", "alone"}`, how many nodes each level has and how many leaves no summary is made of; and the roots.

    A root is `{"id", "level", "children", "passages", "text", "below"}`: counts, the first words, the summaries below.
    Roots and what is below them are sorted by size, the largest first, then by id. A summary that several are made of
    is below each.
    """
    rows = [
        row for batch in nodes.scan(("level", "kind", "children", "passage_ids", "text")) for row in batch.to_pylist()
    ]
    by_id = {row["id"]: row for row in rows if row["kind"] == SUMMARY_KIND}
    held = {child for row in by_id.values() for child in row["children"]}
    levels = Counter(int(row["level"]) for row in rows)
    alone = sum(row["id"] not in held and row["id"] not in by_id for row in rows)
    roots = _sorted([_below(id, by_id) for id in by_id if id not in held])
    return {"levels": {str(level): count for level, count in sorted(levels.items())}, "alone": alone}, roots


def _below(id: str, by_id: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    row = by_id[id]
    words = " ".join(row["text"][: 4 * _WORDS].split())
    return {
        "id": id,
        "level": int(row["level"]),
        "children": len(row["children"]),
        "passages": len(row["passage_ids"]),
        "text": words if len(words) <= _WORDS else f"{words[:_WORDS]}…",
        "below": _sorted([_below(child, by_id) for child in row["children"] if child in by_id]),
    }


def _sorted(nodes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(nodes, key=lambda node: (-node["passages"], node["id"]))


# ---------------------------------------------------------------- for a person


def drawn(counts: Mapping[str, Any], roots: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]]) -> Group:
    """The levels in a sentence, then a tree of each of the roots `shown`."""
    told = ", ".join(f"{count:,} on level {level}" for level, count in counts["levels"].items())
    alone = f" No summary is made of {counts['alone']:,} of the leaves." if counts["alone"] else ""
    first = Text(f"Nodes: {told or 'none'}.{alone}")
    more = [Text(f"and {len(roots) - len(shown):,} roots more")] if len(shown) < len(roots) else []
    return Group(first, *(_drawn(root) for root in shown), *more)


def _drawn(node: Mapping[str, Any]) -> Tree:
    tree = Tree(_line(node))
    for below in node["below"][:_UNFOLDED]:
        tree.add(_drawn(below))
    if len(node["below"]) > _UNFOLDED:
        tree.add(f"and {len(node['below']) - _UNFOLDED:,} summaries more")
    return tree


def _line(node: Mapping[str, Any]) -> Text:
    size = f"level {node['level']}, {node['children']:,} children, {node['passages']:,} passages, {node['id']}"
    return Text.assemble((size, "dim"), f"  {clean(node['text'])}")
