"""The command `parts`: list the parts of an index with their sizes, its sources, and show single parts."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from ragindex.cli.console import stdout, text_table, write_result
from ragindex.cli.options import EncoderOption, IndexOption, JsonOption
from ragindex.cli.part_views import VIEWS, PartView, Sample
from ragindex.errors import MissingPartError, UnknownNameError, UsageError
from ragindex.index.figures import Disk
from ragindex.index.index import Index
from ragindex.index.manifest import PartRecord
from ragindex.index.parts import list_working_methods
from ragindex.interfaces import Part
from ragindex.plugins import registry
from ragindex.plugins.specs import parse_spec

_DEFAULT_LIMIT = 50
_MIN_BYTES = 50_000  # smaller entries of the disk's table round to 0.0 MB


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
        rendered = view(_open_part(index, name), Sample(limit or _DEFAULT_LIMIT, sample, seed or 0))
    write_result(rendered.value, json, lambda: stdout().print(rendered.text))


def _select_view(name: str | None, flags: Mapping[str, bool]) -> PartView | None:
    """Return the view of the flag that is set; None if no flag is set. Raises UsageError if the part has no view."""
    flag = next((flag for flag, given in flags.items() if given), None)
    if flag is None:
        return None
    if name is None or (parse_spec(name).name, flag) not in VIEWS:
        able = ", ".join(part for part, known in VIEWS if known == flag)
        raise UsageError(f"--{flag} needs one of these parts: {able}. Got {name or 'no part'} instead.")
    return VIEWS[parse_spec(name).name, flag]


# ---------------------------------------------------------------- the list


def _list_parts(index: Index, name: str | None, json: str | None) -> None:
    wanted = None if name is None else parse_spec(name).name
    records = [(key, record) for key, record in index.manifest.parts.items() if wanted in (None, record.name)]
    if name is not None and not records:
        raise _make_missing_error(index, name)
    rows = sorted((_build_row(index, key, record) for key, record in records), key=lambda row: (row["part"], row["id"]))
    sources = [] if name is not None else index.sources()
    disk = index.disk()
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
        columns = ("part", "encoder", "records", "MB", "seconds")
        stdout().print(text_table(columns, cells) if rows else none)
        if sources:
            fields = ("name", "documents", "prefix", "format", "root")
            source_cells = [tuple(str(source[field]) for field in fields) for source in sources]
            stdout().print(text_table(("source", "documents", "ids begin with", "format", "from"), source_cells))
        stdout().print(text_table(("on disk", "MB"), _build_disk_rows(disk)))

    value = {"parts": rows, "disk": {"serving": dict(disk.serving), "apart": dict(disk.apart)}}
    write_result(value | ({} if name is not None else {"sources": sources}), json, show)


def _build_disk_rows(disk: Disk) -> list[tuple[str, str]]:
    """Return name and megabytes of the files that searches use, of other large contents, and of the whole folder."""
    rows = [*disk.serving.items(), ("together, what searches use", disk.served)]
    rows += [(name, size) for name, size in disk.apart.items() if size >= _MIN_BYTES]
    return [(name, f"{size / 1e6:.1f}") for name, size in [*rows, ("the whole folder", disk.whole)]]


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


def _find_methods(wanted: Callable[[Part[Any]], bool]) -> list[str]:
    """Return the methods that build a wanted part with default parameters."""
    return [method for method, parts in list_working_methods().items() if any(map(wanted, parts))]
