"""The command `parts`: what a workspace is made of, and views into single parts."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from ragindex.cli import show_tree
from ragindex.cli.console import EncoderOption, JsonOption, WorkspaceOption, emit, existing, out, table
from ragindex.errors import MissingPartError, RagindexError, UnknownNameError, UsageError
from ragindex.interfaces import Collection, Part
from ragindex.plugins import registry
from ragindex.plugins.specs import parse
from ragindex.workspace.disk_usage import Disk
from ragindex.workspace.manifest import PartRecord
from ragindex.workspace.part_keys import checked, in_order
from ragindex.workspace.workspace import Workspace

_SHOWN = 50
_TOLD = 50_000
_AUDITED = ("evidence", "aliases", "passage_ids", "score", "text")


@dataclass(frozen=True, slots=True)
class Asked:
    """How much of a part to show: the first `limit`, or `sample` drawn with `seed`."""

    limit: int
    sample: int | None
    seed: int


@dataclass(frozen=True, slots=True)
class Shown:
    """What a view found: as JSON, and as a person reads it."""

    value: Any
    text: RenderableType


View = Callable[[Any, Asked], Shown]
"""Takes what the part opens to."""


def parts(
    workspace: WorkspaceOption,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A part, as same_as or same_as(by=embedding).")
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="same_as, judged_same_as: what was joined and why, the weakest first.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="summary_tree: the tree, folded, the largest roots first.")
    ] = False,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Show so many of them; 50.")] = None,
    sample: Annotated[int | None, typer.Option(metavar="N", min=1, help="Show so many, drawn at random.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="With --sample: the seed of the draw; 0.")] = None,
    encoder: EncoderOption = None,
    json: JsonOption = None,
) -> None:
    """List the parts of a workspace, with records, bytes and seconds, and its sources; or look into one part.

    Example: ragindex parts same_as --index my-index --audit --sample 20
    """
    view = _view(name, {"audit": audit, "show": show})
    if view is None and (limit, sample, seed) != (None, None, None):
        raise UsageError("--limit, --sample and --seed say how much a view shows. Name one: --audit, --show.")
    with Workspace.open(existing(workspace), encoder=encoder) as opened:
        if view is None or name is None:
            _list(opened, name, json)
            return
        shown = view(_open(opened, name), Asked(limit or _SHOWN, sample, seed or 0))
    emit(shown.value, json, lambda: out().print(shown.text))


def _view(name: str | None, flags: Mapping[str, bool]) -> View | None:
    """The view that a flag asks of a part; None where no flag is set."""
    flag = next((flag for flag, given in flags.items() if given), None)
    if flag is None:
        return None
    if name is None or (parse(name).name, flag) not in VIEWS:
        able = ", ".join(part for part, known in VIEWS if known == flag)
        raise UsageError(f"--{flag} shows one of these parts: {able}. Got {name or 'no part'} instead.")
    return VIEWS[parse(name).name, flag]


# ---------------------------------------------------------------- the list


def _list(opened: Workspace, name: str | None, json: str | None) -> None:
    wanted = None if name is None else parse(name).name
    held = [(key, one) for key, one in opened.manifest.parts.items() if wanted in (None, one.name)]
    if name is not None and not held:
        raise _missing(opened, name)
    rows = sorted((_row(opened, key, one) for key, one in held), key=lambda row: (row["part"], row["id"]))
    sources = [] if name is not None else opened.sources()

    def show() -> None:
        columns = ("part", "encoder", "records", "MB", "seconds")
        shown = [
            (
                row["part"],
                row["encoder"] or "",
                _counted(row["records"]),
                f"{row['bytes'] / 1e6:.1f}",
                f"{row['seconds']:.1f}",
            )
            for row in rows
        ]
        out().print(table(columns, shown) if rows else _NOTHING)
        if sources:
            out().print(_source_table(sources))
        out().print(table(("on disk", "MB"), _sizes(taken)))

    taken = opened.disk()
    on_disk = {"serving": dict(taken.serving), "apart": dict(taken.apart)}
    emit({"parts": rows, "disk": on_disk} | ({} if name is not None else {"sources": sources}), json, show)


def _source_table(sources: Sequence[Mapping[str, str | int]]) -> RenderableType:
    columns = ("source", "documents", "ids begin with", "format", "from")
    names = ("name", "documents", "prefix", "format", "root")
    return table(columns, [tuple(str(one[name]) for name in names) for one in sources])


def _sizes(taken: Disk) -> list[tuple[str, str]]:
    """What serves, then what else lies in the folder and takes a tenth of a megabyte or more."""
    lines = [*taken.serving.items(), ("serving", taken.served)]
    lines += [(name, size) for name, size in taken.apart.items() if size >= _TOLD]
    return [(name, f"{size / 1e6:.1f}") for name, size in [*lines, ("the whole folder", taken.whole)]]


_NOTHING = "No part is built. Run: ragindex index --index DIR --methods METHOD"


def _row(opened: Workspace, key: str, one: PartRecord) -> dict[str, Any]:
    counts = {name: opened.store.open(f"{key}.{name}", version).count() for name, version in one.collections.items()}
    value = {"part": _label(one), "id": key, "encoder": one.encoder_name, "records": counts}
    return value | {"bytes": one.bytes, "seconds": one.seconds, "notes": list(one.notes)}


def _counted(records: Mapping[str, int]) -> str:
    """The number of records; where there is more than one collection, of each."""
    if len(records) == 1:
        return f"{next(iter(records.values())):,}"
    return ", ".join(f"{count:,} {name}" for name, count in sorted(records.items()))


def _label(one: PartRecord) -> str:
    try:
        return registry.label(registry.part(one.part))
    except UnknownNameError:  # its package is not installed any more
        return one.name


# ---------------------------------------------------------------- one part


def _open(opened: Workspace, name: str) -> Any:
    part = _chosen(opened, name)
    try:
        return opened.open_part(part)
    except MissingPartError as error:
        raise _missing(opened, name) from error


def _chosen(opened: Workspace, name: str) -> Part[Any]:
    """The part as it is written; a bare name is the only part of that name, else the one with default parameters."""
    part = registry.part(name)
    held = {_label(one): one for one in opened.manifest.parts.values() if one.name == registry.name_of(part)}
    if parse(name).params or registry.label(part) in held or not held:
        return part
    if len(held) > 1:
        raise UsageError(f"There are several parts {name}: {', '.join(sorted(held))}. Name one of them.")
    return registry.part(next(iter(held.values())).part)


def _missing(opened: Workspace, name: str) -> MissingPartError:
    wanted = registry.part(name)  # a name that no part has is a mistake of another kind
    methods = _methods_with(lambda part: part == wanted) or _methods_with(lambda part: isinstance(part, type(wanted)))
    builds = f"Run: ragindex index --index {opened.folder} --methods {methods[0]}" if methods else "No method uses it."
    return MissingPartError(f"The workspace {opened.folder} holds no part {name} for its encoder and seed. {builds}")


def _methods_with(wanted: Callable[[Part[Any]], bool]) -> list[str]:
    """The methods that build a part that is wanted, with their default parameters."""
    found = []
    for method in registry.names("schemes"):
        try:
            parts = in_order(checked(registry.scheme(method)).parts())
        except RagindexError:  # what cannot be made builds nothing
            continue
        if any(map(wanted, parts)):
            found.append(method)
    return found


# ---------------------------------------------------------------- views


def _aliases(records: Collection, asked: Asked) -> Shown:
    """What same_as or judged_same_as joined, the weakest evidence first."""
    rows = [row for batch in records.scan(_AUDITED) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["score"], row["text"], row["id"]))
    chosen = _drawn(rows, asked)
    value = {"pairs": len(rows), "shown": [{key: row[key] for key in ("id", *_AUDITED)} for row in chosen]}
    cells = [
        (row["text"], row["evidence"], f"{row['score']:.2f}", str(len(row["passage_ids"])), row["passage_ids"][0])
        for row in chosen
    ]
    return Shown(value, table(("names", "evidence", "score", "passages", "the first"), cells))


def _tree(nodes: Collection, asked: Asked) -> Shown:
    """The levels of a tree of summaries, and its roots with what is below them."""
    counts, roots = show_tree.folded(nodes)
    chosen = _drawn(roots, asked)
    value = {**counts, "roots": len(roots), "shown": chosen}
    return Shown(value, show_tree.drawn(counts, roots, chosen))


def _drawn(rows: Sequence[dict[str, Any]], asked: Asked) -> list[dict[str, Any]]:
    """The first rows, or some drawn at random, in their order."""
    if asked.sample is None:
        return list(rows[: asked.limit])
    places = random.Random(asked.seed).sample(range(len(rows)), min(asked.sample, len(rows)))  # noqa: S311
    return [rows[place] for place in sorted(places)]


VIEWS: Mapping[tuple[str, str], View] = {
    ("same_as", "audit"): _aliases,
    ("judged_same_as", "audit"): _aliases,
    ("summary_tree", "show"): _tree,
}
"""By part and flag. Another view is a line here, a function, and a flag of `parts`."""
