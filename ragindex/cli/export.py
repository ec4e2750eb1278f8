"""The command `export`: write a built method as a retriever that applications load."""

from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from ragindex.cli.console import escape_markup, print_note, quote_argument, require_writable, stdout, write_result
from ragindex.cli.hits import make_not_built_error
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import EncoderOption, JsonOption, LlmOption, SeedOption, StoreOption
from ragindex.errors import MissingPartError, UsageError
from ragindex.export.export_retriever import Export, export_retriever
from ragindex.export.retriever_file import RETRIEVER_FILE
from ragindex.index.index import Index
from ragindex.plugins import registry


@dataclass(frozen=True, slots=True)
class BuiltWithOptions:
    """What the method was built with."""

    encoder: EncoderOption = None
    llm: LlmOption = None
    store: StoreOption = None
    seed: SeedOption = None


@with_groups
def export(
    models: Annotated[BuiltWithOptions, group_of(BuiltWithOptions, "Index and models")],
    folder: Annotated[Path | None, typer.Argument(metavar="INDEX", help="Folder of the index, as --index.")] = None,
    index: Annotated[Path | None, typer.Option("--index", metavar="DIR", help="Folder of the index.")] = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="Method to export. Default with --results: the best one.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="PATH", help="Folder, or file with --pack, to write.")] = Path(
        "retriever"
    ),
    pack: Annotated[bool, typer.Option("--pack", help="Write one file that needs no index.")] = False,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="DIR", help="Results of a comparison, whose figures become the evidence."),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Export a built method with its evidence, for `ragindex.load` in an application.

    Example: ragindex export --index my-index --method hybrid --out retriever/
    """
    if (folder is None) == (index is None):
        raise UsageError("export needs the folder of one index: ragindex export --index my-index --method hybrid")
    place = index or folder or Path()
    require_writable(out.absolute().parent)
    load_options: dict[str, Any] = asdict(models)
    compared: Any = None
    if results is not None:  # the framework does not import the evaluation
        (evaluation,) = entry_points(group="ragindex.evaluation", name="evidence")
        compared = evaluation.load()(results, method)
    if compared is not None:
        load_options = {
            **compared.opened_with,
            **{name: value for name, value in load_options.items() if value is not None},
        }
    elif method is None:
        raise UsageError("Name the method: --method hybrid. Or give the results of a comparison, for its best method.")
    scheme = registry.scheme(compared.method if compared is not None else method or "")
    with Index.open(place, **load_options) as workspace:
        try:
            evidence = None if compared is None else compared.evidence_for(workspace, scheme)
            result = export_retriever(workspace, scheme, out, pack=pack, evidence=evidence)
        except MissingPartError as error:
            raise make_not_built_error(workspace, scheme) from error
    if result.replaced:
        print_note(f"{result.describe_replaced()} To keep both: --out ANOTHER.")
    values = result.retriever.model_dump(mode="json", exclude_none=True, exclude={"files"})
    about = {"path": str(result.path), "bytes": result.bytes, "sha256": result.retriever.sha256}
    write_result({**about, **values}, json, lambda: _print(result))


def _print(result: Export) -> None:
    retriever = result.retriever
    encoder = "" if retriever.encoder is None else f"encoder {retriever.encoder.label}, "
    what = f"{retriever.method.label}, {encoder}{retriever.index.documents} documents"
    reads = "needs no index" if retriever.packed else f"refers to the index {retriever.index.path}"
    place = result.path if retriever.packed else result.path / RETRIEVER_FILE
    lines = [f"{place}: {what}, {result.bytes:,} bytes; {reads}"]
    if retriever.evidence is not None:
        metrics = ", ".join(f"{name} {100 * value:.1f}" for name, value in list(retriever.evidence.metrics.items())[:3])
        lines.append(f"  measured        {metrics}, {retriever.evidence.judged} questions")
    path = str(result.path)
    if not retriever.packed:
        lines.append("  if it changes   load refuses it: export again, or load(…, follow=True); --pack keeps a copy")
    arguments, flags = result.consent.write_arguments(), result.consent.write_flags()
    lines.append(
        f'  load it         import ragindex; retriever = ragindex.load({path!r}{arguments}); retriever.search("…")'
    )
    lines.append(f'  try it          ragindex search "…" --retriever {quote_argument(path)}{flags}')
    stdout().print(escape_markup("\n".join(lines)), soft_wrap=True)
