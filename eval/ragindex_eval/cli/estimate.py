"""The command `estimate`, which predicts the costs of indexing, of asking questions and of reading answers."""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from ragindex.cli.approval import approve, estimates_to_json, render_estimates
from ragindex.cli.console import (
    command_spending,
    escape_markup,
    explain_stop,
    print_estimate,
    print_note,
    stdout,
    write_result,
)
from ragindex.cli.option_groups import with_groups
from ragindex.cli.options import Approval, JsonOption, YesOption
from ragindex.corpus import describe_left_out, read_selected
from ragindex.estimate import require_model
from ragindex.index.manifest import require_apart
from ragindex.index.models import CALLS
from ragindex.index.parts import tasks_of
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import parse_budget
from ragindex.llm.cache import NoCache, SQLiteCache
from ragindex.plugins import registry
from ragindex_eval.cli.settings_options import READING, settings_group
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.run.estimate_comparison import estimate_comparison, require_keys_before_reading
from ragindex_eval.run.experiment import choose_selection, load_dataset, split_documents
from ragindex_eval.run.plan import choose_methods
from ragindex_eval.run.settings import ALL, CompareSettings, MethodSettings


@with_groups
def estimate_command(
    settings: Annotated[
        CompareSettings,
        settings_group(
            *("encoder", "budget", "limit", "read", "reader_llm", "reader_tokens", "reader_passages", "reader_input"),
            *("reader_prompt", "chunking", *READING),
            data=Annotated[str, typer.Argument(metavar="DATA", help="Documents: a folder, a file or world:1k.")],
            methods=Annotated[str, typer.Option(metavar="a,b", help=f"The methods to be built, or {ALL}.")],
            llm=Annotated[str, typer.Option(metavar="openai:MODEL", help="The language model to be asked.")],
            index=Annotated[
                Path | None,
                typer.Option(metavar="DIR", help="Where the answers of the sample are kept: nothing is paid twice."),
            ],
            seed=Annotated[int | None, typer.Option(metavar="S", help="Draws the sample.")],
            questions=Annotated[
                Path | None, typer.Option(metavar="FILE", help="Also what asking costs: a .csv, .jsonl or .txt.")
            ],
        ),
    ],
    sample: Annotated[int, typer.Option(metavar="N", min=0, help="Pay for N documents, to know the answers.")] = 0,
    yes: YesOption = False,
    json: JsonOption = None,
) -> None:
    """Say what indexing would cost in tokens and money. Without --sample nothing is asked and nothing is spent.

    With --questions, also what the methods ask a model for each question; with --read, what `compare --read` would
    spend on answers; with --encoder, what a paid encoder costs.

    Example: ragindex estimate my-documents/ --methods 'bm25(over=triples)' --llm openai:gpt-4o-mini --sample 20
    """
    data, index, seed = settings.data or "", settings.index, settings.seed or 0
    schemes, model = _choose_schemes(settings), registry.llm(settings.llm or "")
    require_model(registry.llm(settings.reader_llm) if settings.read and settings.reader_llm else model)
    require_keys_before_reading(settings, schemes, thorough=not sample)
    dataset = None
    if settings.read or settings.questions:
        dataset = load_dataset(settings, seed, index)
        corpus = dataset.corpus
    else:
        corpus = read_selected(
            data, format=settings.format, skip_bad=settings.skip_bad, selection=choose_selection(settings, index)
        )
        corpus = split_documents(corpus, settings.chunking)
    for sentence in describe_left_out(corpus.skipped):
        print_note(sentence)
    if index is not None:
        require_apart(index, data, corpus)
        index.mkdir(parents=True, exist_ok=True)
    cache = NoCache() if index is None else SQLiteCache(index / CALLS)
    setting = LLMSettings(cache=cache, budget=parse_budget(settings.budget), seed=seed)
    settings = settings.model_copy(update={"seed": seed, "index": None})
    questioned = dataset or Dataset(corpus.name, corpus, (), None, "")
    with tempfile.TemporaryDirectory() as nowhere:
        folder = index or Path(nowhere)
        estimating = partial(
            estimate_comparison, settings, settings, _draw(questioned, sample, seed), schemes, folder=folder
        )
        approve(estimating if sample else list, Approval(yes, settings.budget, json=json))
        with explain_stop(_describe_stop(sample, index)):
            estimates = estimate_comparison(
                settings, settings, questioned, schemes, folder=folder, setting=setting, sample=sample, thorough=True
            )
    queries = questioned.queries
    asks = [label for label, scheme in schemes.items() if tasks_of(scheme)]
    value = {**estimates_to_json(estimates), "spent": command_spending()}

    def show() -> None:
        print_estimate(render_estimates(estimates), stderr=False)
        if not sample and estimates:
            stdout().print("--sample 20 pays for 20 documents and questions, and measures.")
        if model.batches():
            stdout().print("Indexing is at the price of batches; nothing is at a discount for cached tokens.")
        if asks and not queries:
            advice = f"A model is asked for each question, too, by {', '.join(asks)}: --questions FILE counts that."
            stdout().print(escape_markup(advice), soft_wrap=True)

    write_result(value, json, show)


def _describe_stop(sample: int, index: Path | None) -> str:
    """Return what is true of an estimate that was stopped: the answers of a sample are kept in an index alone."""
    if not sample:
        return "Stopped. An estimate keeps nothing, and has paid for nothing."
    if index is None:
        return "Stopped. The answers of the sample are not kept: --index DIR keeps them."
    return "Stopped. The answers of the sample are kept. Run the same command to resume."


def _draw(data: Dataset, sample: int, seed: int) -> Dataset:
    """Return as many documents and questions as a sample pays for: those documents, and other questions."""
    documents, rng = data.corpus.documents, Random(seed)  # noqa: S311  # no secret
    drawn = rng.sample(documents, min(sample, len(documents)))
    return replace(data, corpus=replace(data.corpus, documents=tuple(drawn)), queries=data.queries[:sample])


def _choose_schemes(settings: MethodSettings) -> dict[str, Scheme]:
    """Return the schemes of the methods by label, and say which of all could not be used and why."""
    chosen, left_out = choose_methods(settings.written_methods())
    for reason in left_out:
        print_note(f"left out: {reason}")
    return {method.label: method.scheme for method in chosen}
