"""Views of single parts for `ragindex parts`: merged aliases, and summary trees."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rich.console import RenderableType

from ragindex.cli import show_tree
from ragindex.cli.console import text_table
from ragindex.interfaces import Collection

_ALIAS_FIELDS = ("evidence", "aliases", "passage_ids", "score", "text")


@dataclass(frozen=True, slots=True)
class Sample:
    """The rows that a view shows: the first `limit`, or `size` rows drawn at random with `seed`."""

    limit: int
    size: int | None
    seed: int


@dataclass(frozen=True, slots=True)
class RenderedPart:
    """A view as a JSON value and as text."""

    value: Any
    text: RenderableType


PartView: TypeAlias = Callable[[Any, Sample], RenderedPart]
"""A function that renders the opened object of a part."""


def view_aliases(records: Collection, sample: Sample) -> RenderedPart:
    """Render the pairs of names that same_as or judged_same_as merged, the weakest evidence first."""
    rows = [row for batch in records.scan(_ALIAS_FIELDS) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["score"], row["text"], row["id"]))
    chosen = _choose(rows, sample)
    value = {"pairs": len(rows), "shown": [{key: row[key] for key in ("id", *_ALIAS_FIELDS)} for row in chosen]}
    cells = [
        (row["text"], row["evidence"], f"{row['score']:.2f}", str(len(row["passage_ids"])), row["passage_ids"][0])
        for row in chosen
    ]
    return RenderedPart(value, text_table(("names", "evidence", "score", "passages", "first passage"), cells))


def view_tree(nodes: Collection, sample: Sample) -> RenderedPart:
    """Render the levels of a summary tree, and its roots with the summaries below them."""
    counts, roots = show_tree.summarize_tree(nodes)
    chosen = _choose(roots, sample)
    value = {**counts, "roots": len(roots), "shown": chosen}
    return RenderedPart(value, show_tree.render_tree(counts, roots, chosen))


def _choose(rows: Sequence[dict[str, Any]], sample: Sample) -> list[dict[str, Any]]:
    if sample.size is None:
        return list(rows[: sample.limit])
    positions = random.Random(sample.seed).sample(range(len(rows)), min(sample.size, len(rows)))  # noqa: S311
    return [rows[position] for position in sorted(positions)]


VIEWS: Mapping[tuple[str, str], PartView] = {
    ("same_as", "audit"): view_aliases,
    ("judged_same_as", "audit"): view_aliases,
    ("summary_tree", "show"): view_tree,
}
"""The views by part and flag. To add a view, add a function, an entry here, and a flag of `parts`."""
