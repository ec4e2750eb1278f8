"""Pipeline of one comparison, from settings to conclusions: load, build, ask, score, time, conclude.

Every stage takes values and returns a value. Only the stages load, score and conclude read gold, and so do the reader's
bounds. Answers and latency are saved in the folder `runs` of the index, under a hash of the questions and of
`Index.result_fingerprint`, which covers everything else that the figures depend on. Nothing else is written here.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import regex

from ragindex._util import canonical
from ragindex._util.text import first_names, many
from ragindex.accounting import ledger
from ragindex.corpus import Corpus
from ragindex.encoders.vector_cache import remember_paid_questions
from ragindex.errors import (
    BrokenPluginError,
    ContractError,
    MissingExtraError,
    QuestionError,
    RagindexError,
    UsageError,
)
from ragindex.index.documents import DocumentChanges, Removals
from ragindex.index.figures import PartFigures
from ragindex.index.index import Index
from ragindex.index.manifest import require_apart
from ragindex.index.notes import format_changes
from ragindex.index.parts import TRIPLES, broken_plugin, require_reader
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import Budget, parse_budget
from ragindex.mlflow_tracing import trace_if_enabled
from ragindex.plugins import code_fingerprint, registry
from ragindex.plugins.plugin_errors import is_of_plugin
from ragindex_eval.data import datasets
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.published import require_published_data
from ragindex_eval.metrics import retrieval
from ragindex_eval.metrics.evidence import TokensToRecall
from ragindex_eval.metrics.extractive_qa import open_span_model
from ragindex_eval.metrics.long_answers import add_disambiguated_rouge
from ragindex_eval.results.model import (
    NO_USAGE,
    Comparison,
    MethodAnswer,
    MethodResult,
    describe_failed,
)
from ragindex_eval.run import latency, read_answers
from ragindex_eval.run.answers_file import EarlierAnswers, earlier_answers
from ragindex_eval.run.ask import answer_all, failure
from ragindex_eval.run.ask_scored import answers_folder
from ragindex_eval.run.batching import batching_for
from ragindex_eval.run.conclude import conclude
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.fingerprints import answer_keys, answers_fingerprint
from ragindex_eval.run.grid import expand_grid
from ragindex_eval.run.holdout import load_holdout, require_usable, use_holdout
from ragindex_eval.run.latency import LazyRetriever, MethodTimes, Timing
from ragindex_eval.run.methods import Method, add_reranked, choose_methods
from ragindex_eval.run.own_documents import without_own_documents
from ragindex_eval.run.question_uses import find_ledger
from ragindex_eval.run.score import Metrics, count_tokens_to_recall, score
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.stats.published import compare_published

_log = logging.getLogger(__name__)

Watch: TypeAlias = Callable[[str, MethodResult | None], None]
"""Is told that a comparison begins, with the name of its data set and None, and then of each method that answered.

Latency, intervals and tests are missing: they need all methods. Methods that failed on every question are not told.
"""


def evaluate(
    settings: CompareSettings,
    data: Dataset | None = None,
    *,
    index: Index | None = None,
    budget: Budget | None = None,
    watch: Watch | None = None,
) -> Comparison:
    """Build the methods over `data`, ask its questions and measure the results; `settings` describe one comparison.

    Without `data`, the documents in the index are searched. `index` is an open index; its encoder, store, language,
    seed, LLM, budget and call cache are used instead of those of the settings. `budget` is shared by several
    comparisons. `watch` is told of each method as soon as its answers are measured.

    Raises UsageError, DataError, WorkspaceError, StoreError, ServiceError and BudgetError, because errors of settings,
    services or the engine say nothing about a method. Raises ContractError if hits break the contract of a retriever.
    A question on which a method raises anything else counts as unanswered and scores 0, or raises QuestionError with
    `strict`. A method that fails on every question is listed in `failed` and not compared; if every method fails,
    QuestionError is raised. A broken method that was not named explicitly is left out.
    """
    plan = make_plan(settings)
    with prepare_index(settings, data, index, budget) as opened:
        experiment = load_experiment(settings, data, plan, opened)
        require_usable(
            experiment.dataset,
            settings.holdout,
            opened.folder,
            [method.label for method in plan.methods],
            reuse=settings.reuse_holdout,
        )
        sealed = load_holdout(experiment, settings.holdout)
        timed = latency.sample(experiment.dataset.queries, opened.seed)
        with remember_paid_questions(query.text for query in timed), ledger.record_calls(paid_only=True) as paid:
            comparison = _measure(experiment, plan, watch)
            comparison = _add_holdout(_add_published(comparison, settings), experiment, plan, sealed, settings)
        return replace(comparison, paid=paid.spent)


def _measure(experiment: Experiment, plan: "Plan", watch: Watch | None) -> Comparison:
    """Build the methods, ask the questions, time them and draw the conclusions."""
    outcomes = list(_measure_answers(experiment, plan, watch))
    scored = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    failed = _failed_results(scored)
    measured = [(one, metrics) for one, metrics in scored if not _fails(one, metrics)]
    times = _measure_latency(experiment, [one for one, _ in measured])
    results = [
        _result(one, metrics, time, _count_tokens(experiment, one))
        for (one, metrics), time in zip(measured, times, strict=True)
    ]
    bounds = _read_bounds(experiment)
    earlier = {one.label: one.earlier for one, _ in scored if one.earlier}
    left_out = [*plan.left_out, *(outcome for outcome in outcomes if isinstance(outcome, str))]
    return conclude(experiment, plan.methods, results, failed, bounds, earlier, left_out)


def _add_published(comparison: Comparison, settings: CompareSettings) -> Comparison:
    """Add the published figures on the data set, or a note if the settings do not say which data set it is."""
    table, data = settings.published, settings.published_data
    if table is None:
        return comparison
    if data is None:
        names = ", ".join(table.data)
        note = f"the figures of {table.source} are left out: name this data set with --published-data ({names})"
        return replace(comparison, notes=(*comparison.notes, note))
    return replace(comparison, published=compare_published(comparison, table, data))


# ---------------------------------------------------------------- plan


@dataclass(frozen=True, slots=True)
class Plan:
    """Methods to compare, and the reasons why others are left out."""

    methods: tuple[Method, ...]
    left_out: tuple[str, ...]


def make_plan(settings: CompareSettings) -> Plan:
    """Choose the methods, with grid variants and reranked twins. Raises UsageError for invalid settings of these."""
    require_published_data(settings.published, settings.published_data)
    methods, left_out = choose_methods(settings.written_methods())
    methods = add_reranked(expand_grid(methods, settings.grid), settings.rerank_with())
    if settings.triples is not None:
        require_reader(method.scheme for method in methods)
    return Plan(tuple(methods), tuple(left_out))


# ---------------------------------------------------------------- load


@contextmanager
def prepare_index(
    settings: CompareSettings, data: Dataset | None, index: Index | None, budget: Budget | None
) -> Iterator[Index]:
    """Open the index of the settings, or yield the open one. Raises UsageError if neither data nor index is named."""
    if index is None and settings.index is None and data is None:
        raise UsageError("compare needs DATA, or --index with documents and --questions FILE.")
    folder = index.folder if index is not None else settings.index or default_index(data.name if data else "")
    if data is not None:
        require_apart(folder, data.source, data.corpus)
    if index is not None:
        yield index
        return
    with Index.open(
        folder,
        **settings.opened_with(),
        chunking="default" if data is None else data.corpus.chunking,
        llm_settings=LLMSettings(budget=budget or parse_budget(settings.budget)),
        keep_calls=not settings.no_cache,
        create=True,
    ) as opened:
        yield opened


def default_index(dataset: str) -> Path:
    """Return the default folder of a dataset's index: ragindex-workspaces/NAME."""
    return Path("ragindex-workspaces", folder_name(dataset))


def folder_name(name: str) -> str:
    """Return a name with the characters that are unsafe in a folder name replaced."""
    return str(regex.sub(r"[^\w.+-]", "-", name)).strip(".") or "data"


def load_experiment(settings: CompareSettings, data: Dataset | None, plan: Plan, index: Index) -> Experiment:
    """Load the documents into the index, and the dataset as the index holds it."""
    if data is None:
        dataset = _indexed_documents(index, settings)
    else:
        _warn_of_changes(index, index.replace(data.corpus, announce=partial(_announce_leaving, index)))
        dataset = datasets.match_index(data, index)
    if not dataset.queries:
        raise UsageError(
            f"The dataset {dataset.name} has no questions. Give some: --questions FILE.csv (question,answer,documents) "
            "or FILE.txt (one a line)."
        )
    if settings.triples is not None:
        index.import_part(TRIPLES, settings.triples)
    index.require_prices([method.scheme for method in plan.methods], reads=settings.read)
    made = (index, settings.reader_tokens, settings.reader_prompt, dataset.gold)
    reader = read_answers.make_reader(*made) if settings.read else None
    name = settings.qa_model if settings.read and settings.qa_model else ""
    spans = open_span_model(name) if name else None
    return Experiment(index, dataset, settings.k, reader, settings.strict, settings.fresh, spans, name)


def _announce_leaving(index: Index, removals: Removals) -> None:
    """Say which documents leave an index before they do: a pattern such as --exclude may be of another command.

    Raises UsageError if they are so many that a source may be incomplete.
    """
    if removals.renamed == len(removals.ids):
        return
    leave = many(len(removals.ids), "document leaves", "documents leave")
    if removals.suspicious:
        raise UsageError(
            f"{leave} {index.folder}, of {removals.documents:,} of the source {removals.source}, as this command does "
            f"not read them: {first_names(removals.ids)}. Nothing was done. To keep them: other --include and "
            "--exclude, or --index ANOTHER. To remove them, run: "
            f"{index.command('index', 'DATA', '--allow-removals')}"
        )
    _log.warning(
        "%s %s, as this command does not read them: %s. Retrievers exported from it are refused until they are "
        "exported again. To keep them: other --include and --exclude, or --index ANOTHER",
        leave,
        index.folder,
        first_names(removals.ids),
    )


def _warn_of_changes(index: Index, changed: DocumentChanges) -> None:
    """Say how the documents of an index that had some have changed: another command may have left files out."""
    if changed.changed or changed.removed or changed.renamed or (changed.added and changed.unchanged):
        _log.warning("the documents of %s were others until now: %s", index.folder, format_changes(changed))


def _indexed_documents(index: Index, settings: CompareSettings) -> Dataset:
    """Make a dataset of the documents in the index and questions from a file."""
    if settings.questions is None:
        raise UsageError("compare needs DATA, or --questions FILE beside --index.")
    documents = tuple(sorted(index.documents, key=lambda document: document.id))
    corpus = Corpus(index.folder.name, "workspace", documents, 0, (), index.chunking is None)
    return datasets.add_questions(
        corpus,
        settings.questions,
        skip_bad=settings.skip_bad,
        limit=settings.limit,
        seed=index.seed,
        list_renames=index.renames,
    )


# ---------------------------------------------------------------- holdout


def _add_holdout(
    comparison: Comparison, experiment: Experiment, plan: Plan, sealed: Experiment | None, settings: CompareSettings
) -> Comparison:
    """Confirm the best method against the next by the first metric on the holdout, if there are two."""
    if sealed is None or len(comparison.methods) < 2:
        return comparison
    schemes = {method.label: method.scheme for method in plan.methods}
    best, rival = ((method.label, schemes[method.label]) for method in comparison.methods[:2])
    metric = f"R@{experiment.ks[0]}"
    ledger = find_ledger(settings.holdout, experiment.dataset, experiment.index.folder)
    return replace(
        comparison, holdout=use_holdout(sealed, best, rival, metric, "compare", ledger, reuse=settings.reuse_holdout)
    )


# ---------------------------------------------------------------- build and ask


@dataclass(frozen=True, slots=True)
class AnsweredMethod:
    """Built method with its answers by k; only at the largest k, unless its first hits depend on k.

    `folder` holds its times, and `files` are the answer files. `earlier` counts the answers reused from an
    earlier run. `searches` is how its parts are searched when nothing else is in memory. `paid` is the cost of building
    and asking, which took `seconds` in this run.
    """

    label: str
    scheme: Scheme
    fingerprint: str
    folder: Path
    answers: Mapping[int, tuple[MethodAnswer, ...]]
    parts: Mapping[str, PartFigures]
    files: frozenset[Path]
    earlier: EarlierAnswers | None
    searches: tuple[str, ...]
    paid: ledger.Tally
    seconds: float


def _measure_answers(
    experiment: Experiment, plan: Plan, watch: Watch | None
) -> Iterator[tuple[AnsweredMethod, Metrics] | str]:
    """Yield the methods with their metrics, each as soon as it has answered, and why others were left out."""
    name = experiment.dataset.name
    if watch is not None:
        watch(name, None)
    done = frozenset[Path]()
    for method in plan.methods:
        one = _try_method(experiment, method, done)
        if isinstance(one, str):
            yield one
            continue
        done |= one.files
        metrics = _score(experiment, one)
        if watch is not None and not _fails(one, metrics):
            watch(name, _result(one, metrics, MethodTimes(), {}))
        yield one, metrics


def _try_method(experiment: Experiment, method: Method, done: frozenset[Path]) -> AnsweredMethod | str:
    """Build and ask a method alone, so that it can use the whole memory budget; return why if it is left out.

    A method that was not named explicitly is left out if an extra is missing or its plugin is broken.
    """
    try:
        return _answer_method(experiment, method, done)
    except (MissingExtraError, BrokenPluginError, ContractError) as error:
        return _leave_out(method, error)
    except Exception as error:
        ours = code_fingerprint.of(type(method.scheme)) is None
        if ours or isinstance(error, OSError) or not is_of_plugin(error, method.scheme):
            raise
        return _leave_out(method, broken_plugin(method.label, error, method.scheme))
    finally:
        experiment.index.close()


def _leave_out(method: Method, reason: RagindexError) -> str:
    """Return why a method is left out. Raises `reason` if the method was named explicitly."""
    if method.asked_for:
        raise reason
    return f"{method.label}: {reason}"


def _answer_method(experiment: Experiment, method: Method, done: frozenset[Path]) -> AnsweredMethod:
    """Build a method and ask it all questions; an equal method of this comparison has filled the files in `done`."""
    index, scheme, dataset, ks = experiment.index, method.scheme, experiment.dataset, experiment.ks
    queries, start = dataset.queries, time.perf_counter()
    with ledger.attribute_calls(method=method.label), ledger.record_calls() as paid:
        index.build(scheme)
        fingerprint = answers_fingerprint(index, scheme, queries, dataset.gold)
        keys = answer_keys(queries, dataset.gold)
        kept = answers_folder(index, scheme)
        files = {k: _answers_file(kept, k, experiment) for k in (ks if scheme.depends_on_k(ks[-1]) else ks[-1:])}
        again = {k for k, path in files.items() if experiment.fresh and path not in done}
        earlier = [earlier_answers(path, keys) for k, path in files.items() if k not in again and path not in done]
        retriever, folder = LazyRetriever(scheme, index), index.folder / "runs" / fingerprint
        for k in again:  # latencies of earlier runs are not reused either
            (folder / latency.latency_file_name(k)).unlink(missing_ok=True)
        answers = {k: _ask(experiment, method, retriever, k, path, keys, k in again) for k, path in files.items()}
    return AnsweredMethod(
        method.label,
        scheme,
        fingerprint if experiment.reader is None else canonical.digest([fingerprint, experiment.reader.id]),
        folder,
        answers,
        part_figures(index, scheme),
        frozenset(files.values()),
        next((one for one in reversed(earlier) if one), None),
        tuple(retriever.searches()),
        paid,
        time.perf_counter() - start,
    )


def _answers_file(folder: Path, k: int, experiment: Experiment) -> Path:
    """Return the path of the answers at k; at the largest k it depends on the reader, which reads these hits."""
    reads = experiment.reader if k == experiment.ks[-1] else None
    return folder / (f"answers-{k}.jsonl" if reads is None else f"answers-{k}-{reads.id}.jsonl")


def _ask(
    experiment: Experiment,
    method: Method,
    retriever: LazyRetriever,
    k: int,
    kept: Path,
    keys: Mapping[str, str],
    fresh: bool,
) -> tuple[MethodAnswer, ...]:
    """Ask all questions at k; with `fresh`, answers of earlier runs are not reused."""
    reads = experiment.reader if k == experiment.ks[-1] else None
    return answer_all(
        without_own_documents(
            trace_if_enabled(retriever, method.label),  # latency is measured without tracing
            experiment.dataset.gold,
        ),
        experiment.dataset.queries,
        k,
        kept,
        method.label,
        keys=keys,
        strict=experiment.strict,
        batching=batching_for(experiment.index, method.scheme),
        reader=None if reads is None else reads.read,
        known={document.id for document in experiment.dataset.corpus.documents},
        fresh=fresh,
        positions=experiment.index.positions(method.scheme),
    )


def part_figures(index: Index, scheme: Scheme) -> Mapping[str, PartFigures]:
    """Return the figures of all parts by name, and of the fit of the encoder.

    Parts that share a name are listed by their labels.
    """
    parts = index.all_parts(scheme)
    figures = [index.figures(part) for part in parts]
    names = [figure.name for figure in figures]
    labels = [registry.label(part) if names.count(name) > 1 else name for part, name in zip(parts, names, strict=True)]
    fit = index.fit_figures() if any("encoder" in part.uses for part in parts) else None
    return dict(zip(labels, figures, strict=True)) | ({fit.name: fit} if fit else {})


# ---------------------------------------------------------------- score and time


def _score(experiment: Experiment, method: AnsweredMethod) -> Metrics:
    gold, reads = experiment.dataset.gold, experiment.reader is not None
    return score(method.answers, gold, experiment.ks, read=reads, find_spans=experiment.find_spans)


def _fails(method: AnsweredMethod, metrics: Metrics) -> bool:
    """Return whether a method failed on every scored question at some k, so that its figures mean nothing."""
    counting = [
        [each for each in answers if not metrics or each.query_id in metrics] for answers in method.answers.values()
    ]
    return any(all(failure(each) is not None for each in answers) for answers in counting)


def _measure_latency(experiment: Experiment, methods: Sequence[AnsweredMethod]) -> list[MethodTimes]:
    k, seed = experiment.ks[-1], experiment.index.seed
    timings = [
        Timing(
            method.label,
            LazyRetriever(method.scheme, experiment.index),
            method.folder / latency.latency_file_name(k),
            {answer.query_id for answer in method.answers[k] if answer.error is not None},
            method.searches,
        )
        for method in methods
    ]
    return latency.measure_latency(timings, latency.sample(experiment.dataset.queries, seed), k, seed)


# ---------------------------------------------------------------- the results of methods


def _failed_results(scored: Sequence[tuple[AnsweredMethod, Metrics]]) -> list[MethodResult]:
    """Return the methods that failed on every question, without metrics. Raises QuestionError if all failed."""
    failed = [_result(one, {}, MethodTimes(), {}) for one, metrics in scored if _fails(one, metrics)]
    if failed and len(failed) == len(scored):
        raise QuestionError(f"No method answered any question. {describe_failed(failed)}")
    return failed


def _count_tokens(experiment: Experiment, method: AnsweredMethod) -> dict[str, TokensToRecall]:
    return count_tokens_to_recall(method.answers[experiment.ks[-1]], experiment.dataset.gold, experiment.index.seed)


def _result(
    method: AnsweredMethod, metrics: Metrics, times: MethodTimes, tokens: Mapping[str, TokensToRecall]
) -> MethodResult:
    described = registry.describe(method.scheme)
    tallies = [method.paid, *times.paid]
    return MethodResult(
        name=described["name"],
        label=method.label,
        params=described["params"],
        fingerprint=method.fingerprint,
        answers=method.answers,
        per_query=metrics,
        metrics=add_disambiguated_rouge(retrieval.means(list(metrics.values()))),
        latency=times.latency,
        parts=method.parts,
        spent=replace(sum((tally.spent for tally in tallies), NO_USAGE), seconds=method.seconds),
        stages=_add_stages(tallies),
        tokens_to_recall=tokens,
    )


def _add_stages(tallies: Sequence[ledger.Tally]) -> dict[str, Counter[str]]:
    """Add up how LLM outputs were parsed, by task, over all tallies."""
    added: dict[str, Counter[str]] = {}
    for tally in tallies:
        for task, counts in tally.stages.items():
            added.setdefault(task, Counter()).update(counts)
    return added


def _read_bounds(experiment: Experiment) -> list[MethodResult]:
    """Compute the reader's bounds, without passages and from the gold documents; [] if there is no reader."""
    index, reader, k = experiment.index, experiment.reader, experiment.ks[-1]
    if reader is None:
        return []
    fresh, spans, runs = experiment.fresh, experiment.find_spans, index.folder / "runs"
    return read_answers.bounds(reader, experiment.dataset, index.chunking, k, runs, fresh=fresh, find_spans=spans)
