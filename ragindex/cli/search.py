"""The command `search`: print the hits of one method for one question."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ragindex import filters
from ragindex._util.text import NAMES_COMPARED, describe_near, find_near_names, first_names
from ragindex.cli.approval import limit_question
from ragindex.cli.console import (
    command_spending,
    parse_filters,
    print_note,
    require_question,
    write_result,
)
from ragindex.cli.hits import describe_question_words, open_retriever, print_hits
from ragindex.cli.options import (
    BudgetOption,
    CacheOption,
    EncoderOption,
    JsonOption,
    LlmOption,
    SeedOption,
    StoreOption,
    YesOption,
)
from ragindex.errors import UsageError
from ragindex.index.index import Index
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.plugins import registry
from ragindex.plugins.registry import label
from ragindex.retrieval.formatting import retrieval_to_json
from ragindex.retrieval.token_budget import fit_hits
from ragindex.stores.metered import MeteredCollection
from ragindex.types import Query, Retrieval


def search(
    question: Annotated[str, typer.Argument(help="The question or keywords.")],
    folder: Annotated[Path | None, typer.Option("--index", metavar="DIR", help="Folder of the index.")] = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="Method that searches. Default: hybrid.")] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Number of hits.")] = 5,
    filter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Search only documents with this metadata. Repeat a key for either value."
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Most tokens of all hits: the best first, in whole sentences."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show whole passages, not only the part that matches.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show each step of the retrieval.")] = False,
    encoder: EncoderOption = None,
    llm: LlmOption = None,
    budget: BudgetOption = None,
    yes: YesOption = False,
    cache: CacheOption = None,
    store: StoreOption = None,
    seed: SeedOption = None,
    exported: Annotated[
        Path | None, typer.Option("--retriever", metavar="PATH", help="Search with an exported retriever instead.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="Host that the retriever may contact. Repeatable.")
    ] = None,
    allow_folder: Annotated[
        list[str] | None, typer.Option(metavar="DIR", help="Folder of a model that it may load. Repeatable.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Search what the retriever's index holds now.")] = False,
    json: JsonOption = None,
) -> None:
    """Search an index with one method and print the part of each hit that matches.

    Example: ragindex search "Who wrote the report?" --index my-index --method hybrid -k 3
    """
    wanted = parse_filters(filter or [])
    where = filters.All(tuple(_one_of(key, values) for key, values in wanted.items())) if wanted else None
    require_question(question)
    if exported is not None:
        _refuse_settings(method=method, encoder=encoder, llm=llm, store=store, seed=seed)
        from ragindex.export.load import load_retriever  # takes long to import

        how: dict[str, Any] = {"index": folder, "allow_hosts": allow_host or (), "allow_folders": allow_folder or ()}
        with load_retriever(exported, follow=follow, budget=budget, cache=cache, **how) as loaded:
            (retrieval,) = loaded.retrieve([Query("question", question, where)], k)
            retrieval = _fit(retrieval, max_tokens, "")
            named = registry.scheme(loaded.method)
            language, encoder = loaded.index.language, loaded.index.encoder_of(named)
            _note_unknown_filters(loaded.index, named, wanted)
        _write(question, retrieval, loaded.method, encoder, language, json, full=full, explain=explain)
        return
    if folder is None:
        raise UsageError(
            "search needs --index DIR, or --retriever PATH for an exported retriever. Run: ragindex search --help"
        )
    scheme = registry.scheme(method or "hybrid")
    with Index.open(
        folder,
        encoder=encoder,
        llm=llm,
        store=store,
        seed=seed,
        llm_settings=LLMSettings(budget=limit_question(scheme, folder, llm, encoder, budget, yes)),
        cache=cache,
    ) as index:
        index.require_prices([scheme])
        retriever = open_retriever(index, scheme)
        (retrieval,) = index.positions(scheme).locate(retriever.retrieve([Query("question", question, where)], k))
        _note_unknown_filters(index, scheme, wanted)
        note = describe_question_words(index, scheme, question)
        if note:
            print_note(note)
        retrieval = _fit(retrieval, max_tokens, index.tokens_counted_by)
        encoder, language = index.encoder_of(scheme), index.language
    _write(question, retrieval, label(scheme), encoder, language, json, full=full, explain=explain)


def _fit(retrieval: Retrieval, max_tokens: int | None, counted_by: str) -> Retrieval:
    """Keep the hits within `max_tokens`, if there is such a limit, and say what was cut."""
    if max_tokens is None:
        return retrieval
    fit = fit_hits(retrieval.hits, max_tokens, counted_by)
    if fit.truncated:
        print_note(f"Cut to {fit.tokens} tokens: {fit.left_out} hits left out, {len(fit.shortened)} shortened.")
    return replace(retrieval, hits=fit.hits)


def _write(
    question: str,
    retrieval: Retrieval,
    method: str,
    encoder: str | None,
    language: str,
    json: str | None,
    *,
    full: bool,
    explain: bool,
) -> None:
    def show() -> None:
        searcher = method if encoder is None else f"{method} (encoder {encoder})"
        print_hits(question, retrieval, searcher, language, full=full, explain=explain)

    value = retrieval_to_json(question, retrieval)
    write_result(value | {"encoder": encoder, "spent": command_spending()}, json, show)


def _refuse_settings(**given: object) -> None:
    """Raise UsageError if a setting is given that an exported retriever has fixed."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"An exported retriever has its own {name}. Leave out --{name}, or --retriever.")


def _one_of(key: str, values: Sequence[str]) -> filters.Filter:
    """Return the filter for documents whose metadata key has one of the values, as they are typed or spelled."""
    return filters.meta(key, *(term for value in values for term in filters.list_typed_terms(value)))


def _note_unknown_filters(index: Index, scheme: Scheme, wanted: Mapping[str, Sequence[str]]) -> None:
    """Print a note for each metadata key that no document has, and for each value of a key that none has.

    `wanted` maps keys to values as they are typed.
    """
    parts = (index.open_part(part) for part in index.all_parts(scheme)) if wanted else ()
    by_field: dict[str, MeteredCollection] = {}
    for part in parts:
        if isinstance(part, MeteredCollection):
            by_field |= dict.fromkeys(part.fields(), part)
    known = sorted(name.removeprefix("meta.") for name in by_field if name.startswith("meta."))
    for key, values in wanted.items() if by_field else ():
        collection = by_field.get(f"meta.{key}")
        if collection is None:
            print_note(f"No document has the metadata key {key!r}. Available: {', '.join(known) or 'none'}.")
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
