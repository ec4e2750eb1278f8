"""The command `search`: print the hits of one method for one question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ragindex import filters
from ragindex._util.text import NAMES_COMPARED, describe_near, find_near_names, first_names
from ragindex.cli.console import (
    command_spending,
    parse_filters,
    print_note,
    require_question,
    stdout,
    strip_controls,
    text_table,
    write_result,
)
from ragindex.cli.hits import QuestionOptions, describe_question_words, open_retriever, print_hits, truncate
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import JsonOption
from ragindex.errors import UsageError
from ragindex.index.explanation import FILTER, INDEX, PART, DocumentExplanation, format_rank
from ragindex.index.index import Index
from ragindex.interfaces import Retriever, Scheme
from ragindex.plugins import registry
from ragindex.plugins.registry import label
from ragindex.retrieval.formatting import retrieval_to_json
from ragindex.retrieval.token_budget import fit_hits
from ragindex.stores.metered import MeteredCollection
from ragindex.types import Query, Retrieval

_QUERY_LENGTH = 60
"""Characters of what a stage searched for that are shown."""


@dataclass(frozen=True, slots=True)
class ShownOptions:
    """What is printed of the hits, and explained of the search."""

    max_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Most tokens of all hits: the best first, in whole sentences."),
    ] = None
    full: Annotated[bool, typer.Option("--full", help="Show whole passages, not only the part that matches.")] = False
    explain: Annotated[bool, typer.Option("--explain", help="Show each step of the retrieval.")] = False
    expect: Annotated[
        str | None,
        typer.Option("--expect", metavar="DOC", help="Show at which stage this document or passage was lost."),
    ] = None


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The exported retriever that searches, and what it may reach."""

    retriever: Annotated[
        Path | None, typer.Option("--retriever", metavar="PATH", help="Search with an exported retriever instead.")
    ] = None
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="Host that the retriever may contact. Repeatable.")
    ] = None
    allow_folder: Annotated[
        list[str] | None, typer.Option(metavar="DIR", help="Folder of a model that it may load. Repeatable.")
    ] = None
    follow: Annotated[bool, typer.Option("--follow", help="Search what the retriever's index holds now.")] = False


@dataclass(frozen=True, slots=True)
class SearchOutput:
    """The hits of a search, by which method, and where it lost the document that `--expect` names."""

    question: str
    retrieval: Retrieval
    method: str
    encoder: str | None
    language: str
    explanation: DocumentExplanation | None

    def fit(self, max_tokens: int | None, counted_by: str) -> "SearchOutput":
        """Keep the hits within `max_tokens`, if there is such a limit, and print a note on what was cut."""
        if max_tokens is None:
            return self
        fit = fit_hits(self.retrieval.hits, max_tokens, counted_by)
        if fit.truncated:
            print_note(f"Cut to {fit.tokens} tokens: {fit.left_out} hits left out, {len(fit.shortened)} shortened.")
        explanation = self.explanation and self.explanation.keep_first(len(fit.hits), "--max-tokens")
        return replace(self, retrieval=replace(self.retrieval, hits=fit.hits), explanation=explanation)


@with_groups
def search(
    question: Annotated[str, typer.Argument(help="The question or keywords.")],
    shown: Annotated[ShownOptions, group_of(ShownOptions, "Output")],
    models: Annotated[QuestionOptions, group_of(QuestionOptions, "Index and models")],
    export: Annotated[ExportOptions, group_of(ExportOptions, "Exported retriever")],
    folder: Annotated[Path | None, typer.Option("--index", metavar="DIR", help="Folder of the index.")] = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="Method that searches. Default: hybrid.")] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Number of hits.")] = 5,
    filter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Search only documents with this metadata. Repeat a key for either value."
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Search an index with one method and print the part of each hit that matches.

    Example: ragindex search "Who wrote the report?" --index my-index --method hybrid -k 3
    """
    filter_values = parse_filters(filter or [])
    where = filters.All(tuple(_one_of(key, values) for key, values in filter_values.items())) if filter_values else None
    require_question(question)
    query = Query("question", question, where)
    if export.retriever is not None:
        models.refuse_for_export(method)
        from ragindex.export.load import load_retriever  # takes long to import

        with load_retriever(
            export.retriever,
            index=folder,
            allow_hosts=export.allow_host or (),
            allow_folders=export.allow_folder or (),
            follow=export.follow,
            budget=models.budget,
            cache=models.cache,
        ) as loaded:
            scheme = registry.scheme(loaded.method)
            output = _search(loaded.index, scheme, loaded, query, k, shown.expect).fit(shown.max_tokens, "")
            _note_unknown_filters(loaded.index, scheme, filter_values)
        _write(output, shown, json)
        return
    if folder is None:
        raise UsageError(
            "search needs --index DIR, or --retriever PATH for an exported retriever. Run: ragindex search --help"
        )
    scheme = registry.scheme(method or "hybrid")
    with models.open_index(scheme, folder) as index:
        index.require_prices([scheme])
        output = _search(index, scheme, open_retriever(index, scheme), query, k, shown.expect)
        (located,) = index.positions(scheme).locate([output.retrieval])
        _note_unknown_filters(index, scheme, filter_values)
        note = describe_question_words(index, scheme, question)
        if note:
            print_note(note)
        output = replace(output, retrieval=located).fit(shown.max_tokens, index.tokens_counted_by)
    _write(output, shown, json)


def _search(
    index: Index, scheme: Scheme, retriever: Retriever, query: Query, k: int, expected: str | None
) -> SearchOutput:
    """Search once, and explain where the expected document was lost, if there is one."""
    explanation = None
    if expected is None:
        (retrieval,) = retriever.retrieve([query], k)
    else:
        retrieval, explanation = index.explainer(scheme, retriever).search(query, k, expected)
    encoder, language = index.encoder_of(scheme), index.language
    return SearchOutput(query.text, retrieval, label(scheme), encoder, language, explanation)


def _write(output: SearchOutput, shown: ShownOptions, json: str | None) -> None:
    def show() -> None:
        searcher = output.method if output.encoder is None else f"{output.method} (encoder {output.encoder})"
        print_hits(output.question, output.retrieval, searcher, output.language, full=shown.full, explain=shown.explain)
        if output.explanation is not None:
            _print_explanation(output.explanation)

    value = retrieval_to_json(output.question, output.retrieval)
    if output.explanation is not None:
        value["expected"] = output.explanation.to_json()
    write_result(value | {"encoder": output.encoder, "spent": command_spending()}, json, show)


def _print_explanation(explanation: DocumentExplanation) -> None:
    """Print where the expected document was lost, and its rank at each stage if one of them could have it."""
    stdout().print()
    for line in (explanation.reason, *explanation.notes):
        stdout().print(Text(strip_controls(line)))
    if explanation.lost_at in (INDEX, PART, FILTER):
        return
    rows = [
        (stage.stage, format_rank(stage), f"{stage.passed:,}", truncate(stage.query, _QUERY_LENGTH))
        for stage in explanation.stages
    ]
    stdout().print(text_table(("stage", f"rank of {explanation.document}", "go on", "searched for"), rows))


def _one_of(key: str, values: Sequence[str]) -> filters.Filter:
    """Return the filter for documents whose metadata key has one of the values, as they are typed or spelled."""
    return filters.meta(key, *(term for value in values for term in filters.list_typed_terms(value)))


def _note_unknown_filters(index: Index, scheme: Scheme, filter_values: Mapping[str, Sequence[str]]) -> None:
    """Print a note for each metadata key that no document has, and for each value of a key that none has.

    `filter_values` maps keys to values as they are typed.
    """
    by_field: dict[str, MeteredCollection] = {}
    for part in index.open_collections(scheme).values() if filter_values else ():
        by_field |= dict.fromkeys(part.fields(), part)
    field_names = sorted(name.removeprefix("meta.") for name in by_field if name.startswith("meta."))
    for key, values in filter_values.items() if by_field else ():
        collection = by_field.get(f"meta.{key}")
        if collection is None:
            print_note(f"No document has the metadata key {key!r}. Available: {', '.join(field_names) or 'none'}.")
            continue
        for value in values:
            if not any(len(batch) for batch in collection.scan((), _one_of(key, [value]))):
                print_note(_describe_unknown_value(collection, key, value))


def _describe_unknown_value(collection: MeteredCollection, key: str, value: str) -> str:
    field = f"meta.{key}"
    columns = (batch.column(field).to_pylist() for batch in collection.scan((field,)))
    values = dict.fromkeys(term for column in columns for cell in column for term in filters.list_terms(cell))
    known = list(islice(values, NAMES_COMPARED))
    among = describe_near(find_near_names(value, known)) or f"values: {first_names(sorted(known))}"
    return f"No document has the value {value!r} of the metadata key {key!r} ({among})."
