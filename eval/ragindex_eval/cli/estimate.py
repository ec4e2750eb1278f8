"""The command `estimate`, which predicts the costs of indexing, of asking questions and of reading answers."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ragindex.cli.console import (
    command_spending,
    escape_markup,
    format_dollars,
    print_note,
    stdout,
    text_table,
    write_result,
)
from ragindex.cli.documents import select_files
from ragindex.cli.options import (
    BudgetOption,
    EncoderOption,
    EncodingOption,
    ExcludeOption,
    FormatOption,
    IncludeOption,
    JsonOption,
    LanguageOption,
    MaxFileOption,
    OcrOption,
    RowsOption,
    SkipBadOption,
)
from ragindex.corpus import describe_left_out, read_selected
from ragindex.corpus.local_files import MAX_FILE_MB
from ragindex.estimate import Estimate, estimate, estimate_encoding, estimate_questions
from ragindex.index.manifest import require_apart
from ragindex.index.models import CALLS
from ragindex.index.parts import tasks_of
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.answer_question import DEFAULT_TOKENS
from ragindex.llm.budget import parse_budget
from ragindex.llm.cache import NoCache, SQLiteCache
from ragindex.plugins import registry
from ragindex.plugins.specs import parse_many
from ragindex_eval.data import datasets
from ragindex_eval.run.methods import ALL, choose_methods


def estimate_command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Documents: a folder, a file or world:1k.")],
    methods: Annotated[str, typer.Option(metavar="a,b", help=f"The methods to be built, or {ALL}.")],
    llm: Annotated[str, typer.Option(metavar="openai:MODEL", help="The language model to be asked.")],
    encoder: EncoderOption = None,
    sample: Annotated[int, typer.Option(metavar="N", min=0, help="Pay for N documents, to know the answers.")] = 0,
    index: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the answers of the sample are kept: nothing is paid twice."),
    ] = None,
    budget: BudgetOption = None,
    format: FormatOption = None,
    skip_bad: SkipBadOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    encoding: EncodingOption = None,
    max_file_mb: MaxFileOption = MAX_FILE_MB,
    ocr: OcrOption = False,
    rows: RowsOption = None,
    language: LanguageOption = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Draws the sample.")] = 0,
    read_answers: Annotated[
        bool, typer.Option("--read", help="Also answers to the questions, a row a method.")
    ] = False,
    questions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also what asking costs: a .csv, .jsonl or .txt.")
    ] = None,
    reader_tokens: Annotated[int, typer.Option(metavar="N", min=1, help="As compare has it.")] = DEFAULT_TOKENS,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="So many questions, drawn by the seed.")] = None,
    json: JsonOption = None,
) -> None:
    """Say what indexing would cost in tokens and money. Without --sample nothing is asked and nothing is spent.

    With --questions, also what the methods ask a model for each question; with --read, what `compare --read` would
    spend on answers; with --encoder, what a paid encoder costs.

    Example: ragindex estimate my-documents/ --methods 'bm25(over=triples)' --llm openai:gpt-4o-mini --sample 20
    """
    reading: dict[str, Any] = {
        "format": format,
        "skip_bad": skip_bad,
        "selection": select_files(include, exclude, encoding, max_file_mb, ocr, rows),
    }
    asking: dict[str, Any] = {"questions": questions, "limit": limit, "seed": seed}
    dataset = datasets.read_dataset(data, **reading, **asking) if read_answers or questions else None
    corpus = read_selected(data, **reading) if dataset is None else dataset.corpus
    for sentence in describe_left_out(corpus.skipped):
        print_note(sentence)
    labelled = _choose_schemes(methods)
    if index is not None:
        require_apart(index, data, corpus)
        index.mkdir(parents=True, exist_ok=True)
    cache = NoCache() if index is None else SQLiteCache(index / CALLS)
    setting = LLMSettings(cache=cache, budget=parse_budget(budget), seed=seed)
    model = registry.llm(llm)
    found = estimate(corpus, list(labelled.values()), model, setting, sample=sample, seed=seed, language=language)
    queries = () if dataset is None else dataset.queries
    if queries:
        given = {"reader_tokens": reader_tokens, "sample": sample, "seed": seed, "language": language}
        found += estimate_questions(corpus, labelled, model, setting, queries, reads=read_answers, **given)  # type: ignore[arg-type]
    if encoder is not None:
        plugin = registry.encoder(encoder)
        found += estimate_encoding(corpus, labelled, plugin, setting.prices, queries=queries, language=language)
    money = None if any(one.money is None for one in found) else sum(one.money or 0.0 for one in found)
    asks = [label for label, scheme in labelled.items() if tasks_of(scheme)]
    value = {"tasks": [_as_json(one) for one in found], "money": money, "spent": command_spending()}

    def show() -> None:
        _show(found, money, sample, llm, batched=model.batches())
        if asks and not queries:
            said = f"A model is asked for each question, too, by {', '.join(asks)}: --questions FILE counts that."
            stdout().print(escape_markup(said), soft_wrap=True)

    write_result(value, json, show)


def _choose_schemes(methods: str) -> dict[str, Scheme]:
    """Return the schemes of the methods by label, and say which of all could not be used and why."""
    chosen, left_out = choose_methods(parse_many(methods))
    for reason in left_out:
        print_note(f"left out: {reason}")
    return {method.label: method.scheme for method in chosen}


def _as_json(one: Estimate) -> dict[str, object]:
    names = ("task", "calls", "input_tokens", "output_tokens", "money", "sampled", "counted", "price_source")
    return {name: getattr(one, name) for name in names}


def _show(estimates: list[Estimate], money: float | None, sample: int, llm: str, *, batched: bool) -> None:
    if not estimates:
        stdout().print("Indexing makes no paid calls.")
        return
    rows = [
        (one.task, f"{one.calls:,}", f"{one.input_tokens:,}", f"{one.output_tokens:,}", format_dollars(one.money))
        for one in estimates
    ]
    stdout().print(text_table(("task", "calls", "tokens in", "tokens out", "$"), rows))
    if money is not None:
        priced = (
            "with indexing at the price of batches, without discounts of the service for cached tokens"
            if batched
            else "without discounts of the service for batches or cached tokens"
        )
        stdout().print(f"Total: ${money:.4f}, {priced}.")
        for source in dict.fromkeys(one.price_source for one in estimates if one.price_source):
            stdout().print(escape_markup(f"Price: {source}"), soft_wrap=True)
    else:
        stdout().print(f"No price of {llm} is known. Set it in a price file named by RAGINDEX_PRICES.")
    if not all(one.counted for one in estimates):
        stdout().print("The model's tokenizer is not available: tokens are estimated from the number of characters.")
    if not sample:
        stdout().print(
            "Answers are taken to be as long as those of rules. --sample 20 pays for 20 documents and measures."
        )
