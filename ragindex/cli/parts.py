"""The command `parts`: list the parts of an index with their sizes, its sources, and show single parts."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from ragindex._util.text import many
from ragindex.cli.console import escape_markup, stdout, strip_controls, text_table, write_result
from ragindex.cli.options import EncoderOption, IndexOption, JsonOption
from ragindex.errors import MissingPartError, UnknownNameError, UsageError
from ragindex.index.figures import Disk
from ragindex.index.index import Index
from ragindex.index.manifest import PartRecord
from ragindex.index.notes import describe_fit, describe_readers, describe_unknown_passages
from ragindex.index.parts import list_working_methods
from ragindex.index.updating import read_outcome
from ragindex.interfaces import Collection, Part
from ragindex.parts.trees.summary_tree import SUMMARY_KIND
from ragindex.plugins import registry
from ragindex.plugins.specs import parse_spec

_DEFAULT_LIMIT = 50
_MIN_BYTES = 50_000  # smaller entries of the disk's table round to 0.0 MB
_ALIAS_FIELDS = ("evidence", "aliases", "passage_ids", "score", "text")
_MAX_TEXT = 80  # characters of a summary
_MAX_CHILDREN = 10  # summaries shown below one


@dataclass(frozen=True, slots=True)
class _Sample:
    """The rows that a view shows: the first `limit`, or `size` rows drawn at random with `seed`."""

    limit: int
    size: int | None
    seed: int


_PartView: TypeAlias = Callable[[Any, _Sample], tuple[Any, RenderableType]]
"""A function that renders the opened object of a part as a JSON value and as text."""


def parts(
    folder: IndexOption,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A part, e.g. same_as or same_as(by=embedding).")
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="same_as, judged_same_as: list merged names, the weakest evidence first.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="summary_tree: print the tree, the largest roots first.")
    ] = False,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Show the first N rows. Default: 50.")] = None,
    sample: Annotated[int | None, typer.Option(metavar="N", min=1, help="Show N rows drawn at random.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Seed of --sample. Default: 0.")] = None,
    encoder: EncoderOption = None,
    json: JsonOption = None,
) -> None:
    """List the parts of an index with records, bytes and seconds, and its sources; or show one part.

    Example: ragindex parts same_as --index my-index --audit --sample 20
    """
    view = _select_view(name, {"audit": audit, "show": show})
    if view is None and (limit, sample, seed) != (None, None, None):
        raise UsageError("--limit, --sample and --seed need a view. Add --audit or --show.")
    with Index.open(folder, encoder=encoder) as index:
        if view is None or name is None:
            _list_parts(index, name, json)
            return
        value, text = view(_open_part(index, name), _Sample(limit or _DEFAULT_LIMIT, sample, seed or 0))
    write_result(value, json, lambda: stdout().print(text))


def _select_view(name: str | None, flags: Mapping[str, bool]) -> _PartView | None:
    """Return the view of the flag that is set; None if no flag is set. Raises UsageError if the part has no view."""
    flag = next((flag for flag, is_given in flags.items() if is_given), None)
    if flag is None:
        return None
    if name is None or (parse_spec(name).name, flag) not in _VIEWS:
        able = ", ".join(part for part, known in _VIEWS if known == flag)
        raise UsageError(f"--{flag} needs one of these parts: {able}. Got {name or 'no part'} instead.")
    return _VIEWS[parse_spec(name).name, flag]


# ---------------------------------------------------------------- the list


def _list_parts(index: Index, name: str | None, json: str | None) -> None:
    part_name = None if name is None else parse_spec(name).name
    records = [(key, record) for key, record in index.manifest.parts.items() if part_name in (None, record.name)]
    if name is not None and not records:
        raise _make_missing_error(index, name)
    rows = sorted((_build_row(index, key, record) for key, record in records), key=lambda row: (row["part"], row["id"]))
    sources = [] if name is not None else index.sources()
    outcome = None if name is not None else read_outcome(index.folder)
    disk, fit = index.disk(), index.fit_state()
    fit_sentences = [] if fit is None else [*filter(None, (describe_fit(fit), describe_unknown_passages(index)))]
    readers = describe_readers(index)
    none = f"No part is built. Run: {index.command('index', '--methods', 'hybrid')}"

    def show() -> None:
        cells = [
            (
                row["part"],
                row["encoder"] or "",
                _format_counts(row["records"]),
                f"{row['bytes'] / 1e6:.1f}",
                f"{row['seconds']:.1f}",
            )
            for row in rows
        ]
        part_columns = ("part", "encoder", "records", "MB", "seconds")
        stdout().print(text_table(part_columns, cells) if rows else none)
        if sources:
            columns = {"name": "source", "documents": "documents", "prefix": "ids begin with", "format": "format"}
            columns |= {"root": "from"} | ({"options": "read with"} if any(each["options"] for each in sources) else {})
            source_cells = [tuple(str(source[field]) for field in columns) for source in sources]
            stdout().print(text_table(tuple(columns.values()), source_cells))
        if outcome and outcome.failure:
            failed = f"the last update failed ({outcome.finished}): {outcome.failure}"
            stdout().print(Text(strip_controls(failed)), soft_wrap=True)
        stdout().print(text_table(("on disk", "MB"), _build_disk_rows(disk)))
        if readers:
            reader_cells = [
                tuple(row[field] or "" for field in ("reader", "since", "reads", "advice")) for row in readers
            ]
            stdout().print(text_table(("open in", "since", "reads", ""), reader_cells))
        for sentence in fit_sentences:
            stdout().print(escape_markup(sentence), soft_wrap=True)

    value = {
        "parts": rows,
        "fit": fit and fit.as_json(),
        "disk": {"serving": dict(disk.serving), "apart": dict(disk.apart)},
        "readers": readers,
    }
    value |= {} if outcome is None else {"last_update": asdict(outcome)}
    write_result(value | ({} if name is not None else {"sources": sources}), json, show)


def _build_disk_rows(disk: Disk) -> list[tuple[str, str]]:
    """Return name and megabytes of the files that searches use, of other large contents, and of the whole folder."""
    rows = [*disk.serving.items(), ("together, what searches use", disk.served)]
    rows += [(name, size) for name, size in disk.apart.items() if size >= _MIN_BYTES]
    return [(name, f"{size / 1e6:.1f}") for name, size in [*rows, ("the whole folder", disk.total)]]


def _build_row(index: Index, key: str, record: PartRecord) -> dict[str, Any]:
    counts = {name: index.store.open(f"{key}.{name}", version).count() for name, version in record.collections.items()}
    value = {"part": _get_label(record), "id": key, "encoder": record.encoder_name, "records": counts}
    return value | {"bytes": record.bytes, "seconds": record.seconds, "notes": [*record.notes, *record.details]}


def _format_counts(records: Mapping[str, int]) -> str:
    """Format the number of records, per collection if there are several."""
    if len(records) == 1:
        return f"{next(iter(records.values())):,}"
    return ", ".join(f"{count:,} {name}" for name, count in sorted(records.items()))


def _get_label(record: PartRecord) -> str:
    try:
        return registry.label(registry.part(record.part))
    except UnknownNameError:  # its package was uninstalled
        return record.name


# ---------------------------------------------------------------- one part


def _open_part(index: Index, name: str) -> Any:
    part = _find_part(index, name)
    try:
        return index.open_part(part)
    except MissingPartError as error:
        raise _make_missing_error(index, name) from error


def _find_part(index: Index, name: str) -> Part[Any]:
    """Return the part that `name` specifies; a bare name means the default parameters if built, else the only part.

    Raises UsageError if several parts have that name.
    """
    part = registry.part(name)
    records = {_get_label(r): r for r in index.manifest.parts.values() if r.name == registry.name_of(part)}
    if parse_spec(name).params or registry.label(part) in records or not records:
        return part
    if len(records) > 1:
        raise UsageError(f"Several parts are called {name}. Name one of them: {', '.join(sorted(records))}.")
    return registry.part(next(iter(records.values())).part)


def _make_missing_error(index: Index, name: str) -> MissingPartError:
    wanted = registry.part(name)  # raises UnknownNameError if no such part is installed
    methods = _find_methods(lambda part: part == wanted) or _find_methods(lambda part: isinstance(part, type(wanted)))
    hint = f"Run: {index.command('index', '--methods', methods[0])}" if methods else "No method uses it."
    return MissingPartError(f"The index {index.folder} has no part {name} for its encoder and seed. {hint}")


def _find_methods(matches: Callable[[Part[Any]], bool]) -> list[str]:
    """Return the methods that build a wanted part with default parameters."""
    return [method for method, parts in list_working_methods().items() if any(map(matches, parts))]


# ---------------------------------------------------------------- views


def _view_aliases(records: Collection, sample: _Sample) -> tuple[dict[str, Any], RenderableType]:
    """Render the pairs of names that same_as or judged_same_as merged, the weakest evidence first."""
    rows = [row for batch in records.scan(_ALIAS_FIELDS) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["score"], row["text"], row["id"]))
    chosen = _choose(rows, sample)
    value = {"pairs": len(rows), "shown": [{key: row[key] for key in ("id", *_ALIAS_FIELDS)} for row in chosen]}
    cells = [
        (row["text"], row["evidence"], f"{row['score']:.2f}", str(len(row["passage_ids"])), row["passage_ids"][0])
        for row in chosen
    ]
    return value, text_table(("names", "evidence", "score", "passages", "first passage"), cells)


def _view_tree(nodes: Collection, sample: _Sample) -> tuple[dict[str, Any], RenderableType]:
    """Render the levels of a summary tree, and its roots with the summaries below them."""
    counts, roots = summarize_tree(nodes)
    chosen = _choose(roots, sample)
    return {**counts, "roots": len(roots), "shown": chosen}, render_tree(counts, roots, chosen)


def _choose(rows: Sequence[dict[str, Any]], sample: _Sample) -> list[dict[str, Any]]:
    if sample.size is None:
        return list(rows[: sample.limit])
    positions = random.Random(sample.seed).sample(range(len(rows)), min(sample.size, len(rows)))  # noqa: S311
    return [rows[position] for position in sorted(positions)]


_VIEWS: Mapping[tuple[str, str], _PartView] = {
    ("same_as", "audit"): _view_aliases,
    ("judged_same_as", "audit"): _view_aliases,
    ("summary_tree", "show"): _view_tree,
}
"""The views by part and flag. To add a view, add a function, an entry here, and a flag of `parts`."""


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


def render_tree(
    counts: Mapping[str, Any], roots: Sequence[Mapping[str, Any]], chosen: Sequence[Mapping[str, Any]]
) -> Group:
    """Render the counts as one sentence, then the tree of each of the `chosen` roots."""
    levels = ", ".join(f"{count:,} on level {level}" for level, count in counts["levels"].items())
    alone = f" {many(counts['alone'], 'leaf is', 'leaves are')} below no summary." if counts["alone"] else ""
    first = Text(f"Nodes: {levels or 'none'}.{alone}")
    more = [Text(f"… and {many(len(roots) - len(chosen), 'more root')}")] if len(chosen) < len(roots) else []
    return Group(first, *(_render_node(root) for root in chosen), *more)


def _render_node(node: Mapping[str, Any]) -> Tree:
    size = f"level {node['level']}, {many(node['children'], 'child', 'children')}, {many(node['passages'], 'passage')}"
    tree = Tree(Text.assemble((f"{size}, {node['id']}", "dim"), f"  {strip_controls(node['text'])}"))
    for below in node["below"][:_MAX_CHILDREN]:
        tree.add(_render_node(below))
    if len(node["below"]) > _MAX_CHILDREN:
        tree.add(f"… and {many(len(node['below']) - _MAX_CHILDREN, 'more summary', 'more summaries')}")
    return tree
