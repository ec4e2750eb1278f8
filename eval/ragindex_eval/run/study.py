"""A comparison from its plan to its conclusions, and studies of several comparisons.

A study compares the same methods over several corpora, encoders and seeds. All seeds ask the same questions. If there
is a limit, the first seed draws them. So differences between seeds come only from the randomness of the methods.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import product
from typing import TypeAlias

from ragindex._util.workers import use_workers
from ragindex.accounting import ledger
from ragindex.encoders.paid_vectors import remember_paid_questions
from ragindex.errors import UsageError
from ragindex.estimate import Estimate
from ragindex.index.index import Index
from ragindex.index.manifest import require_seed
from ragindex.llm.budget import Budget, parse_budget
from ragindex_eval.data import datasets
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.published import require_published_data
from ragindex_eval.metrics import answers
from ragindex_eval.results.files import folder_name
from ragindex_eval.results.model import Comparison, Study
from ragindex_eval.run import latency
from ragindex_eval.run.answers import answer_methods
from ragindex_eval.run.bounds import read_bounds
from ragindex_eval.run.conclude import conclude, make_results, require_compared
from ragindex_eval.run.estimate_comparison import estimate_comparison, require_keys_before_reading
from ragindex_eval.run.experiment import load_dataset, load_experiment, prepare_index
from ragindex_eval.run.holdout import confirm_best, load_holdout, require_usable
from ragindex_eval.run.plan import Plan, make_plan
from ragindex_eval.run.scores import ScoredMethod, Watch, score_methods
from ragindex_eval.run.settings import CompareSettings, CorpusSettings, DataSettings, ReaderSettings
from ragindex_eval.run.thresholds import parse_threshold, require_methods

WatchStudy: TypeAlias = Callable[[int, str, ScoredMethod | None], None]
"""A `scores.Watch` of each comparison, with its place in the study, from 0."""


def evaluate(
    plan: Plan,
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
    comparisons. `watch` gets the scores of each method as soon as it has answered.

    Every stage takes values and returns a value. Only the stages load, score and conclude read gold, and so do the
    reader's bounds.

    Raises UsageError, DataError, WorkspaceError, StoreError, ServiceError and BudgetError, because errors of settings,
    services or the engine say nothing about a method. Raises ContractError if hits break the contract of a retriever.
    A question on which a method raises anything else counts as unanswered and scores 0, or raises QuestionError with
    `strict`. A method that fails on every question is listed in `failed` and not compared; if every method fails,
    QuestionError is raised. A broken method that was not named explicitly is left out.
    """
    with prepare_index(settings, data, index, budget) as opened:
        experiment = load_experiment(settings, data, plan.schemes.values(), opened)
        dataset, reuse = experiment.dataset, settings.reuse_holdout
        require_usable(dataset, settings.holdout, opened.folder, plan.labels, reuse=reuse)
        sealed = load_holdout(experiment, settings.holdout)
        sample = latency.sample(dataset.queries, opened.seed)
        if watch is not None:
            watch(dataset.name, None)
        with remember_paid_questions(query.text for query in sample), ledger.record_calls(paid_only=True) as paid:
            scores = score_methods(experiment, answer_methods(experiment, plan.methods), watch)
            require_compared(scores)
            k = experiment.ks[-1]
            timings = [method.answers.timing(opened, k) for method in scores.compared]
            times = latency.measure_latency(timings, sample, k, opened.seed)
            results = make_results(experiment, scores, times)
            bounds = read_bounds(experiment)
            holdout = confirm_best(results, plan.schemes, sealed, experiment, settings.holdout, reuse=reuse)
            return conclude(experiment, plan, scores, results, bounds, holdout, settings, paid)


def run_study(
    settings: CompareSettings,
    command: str = "",
    watch: WatchStudy | None = None,
    approve: Callable[[Callable[[], Sequence[Estimate]]], None] | None = None,
    *,
    thorough: bool = False,
) -> Study:
    """Run every comparison in the settings, one after the other, with a shared budget. `watch` gets the scores.

    `approve` gets what estimates all of them before the first one starts, as `estimate_comparison` does (`thorough`);
    an error that it raises ends the study.
    Methods, labels, grids, thresholds, corpora and seeds are checked before any work. Raises as `evaluate` does.
    """
    plan = _make_checked_plan(settings)
    budget = parse_budget(settings.budget)
    started, clock = datetime.now(UTC).isoformat(timespec="milliseconds"), time.perf_counter()
    with use_workers(settings.workers):
        done = list[Comparison]()
        corpora = settings.all_corpora()
        comparisons: Iterable[tuple[CompareSettings, Dataset | None]] = _list_all(corpora, settings)
        if approve is not None:
            for corpus, encoder in product(corpora, settings.all_encoders()):
                of_one = settings.for_one(corpus, encoder, None)
                require_keys_before_reading(of_one, plan.schemes, thorough=thorough)
            if len(corpora) == 1:  # of several, one after the other is in memory
                comparisons = list(comparisons)
            again = comparisons if len(corpora) == 1 else _list_all(corpora, settings)
            approve(partial(_estimate_all, plan, again, thorough=thorough))
        for comparison, data in comparisons:
            watch_one = None if watch is None else partial(watch, len(done))
            done.append(evaluate(plan, comparison, data, budget=budget, watch=watch_one))
    names = dict.fromkeys(comparison.dataset.name for comparison in done)
    return Study(
        settings.name or ", ".join(names), tuple(done), command, started, round(time.perf_counter() - clock, 3)
    )


def estimate_study(settings: CompareSettings) -> list[Estimate]:
    """Estimate what every comparison in the settings may still cost: everything is counted, and no key is needed.

    Raises as `run_study` does before it starts.
    """
    return _estimate_all(_make_checked_plan(settings), _list_all(settings.all_corpora(), settings), thorough=True)


def _estimate_all(
    plan: Plan, comparisons: Iterable[tuple[CompareSettings, Dataset | None]], *, thorough: bool
) -> list[Estimate]:
    return [
        estimate
        for settings, data in comparisons
        for estimate in estimate_comparison(settings, settings, data, plan.schemes, thorough=thorough)
    ]


def _list_all(
    corpora: Sequence[CorpusSettings | None], settings: CompareSettings
) -> Iterator[tuple[CompareSettings, Dataset | None]]:
    for corpus in corpora:
        yield from _list_comparisons(corpus, settings)


def _list_comparisons(
    corpus: CorpusSettings | None, settings: CompareSettings
) -> Iterator[tuple[CompareSettings, Dataset | None]]:
    """Yield the settings and the data of the comparisons over one corpus, for every encoder and seed."""
    seeds = [settings.seed] if settings.seeds is None else settings.seeds
    first = settings.for_one(corpus, settings.encoder, seeds[0])
    data = None if corpus is None else load_dataset(first, first.seed, first.index)
    if data is not None and first.index is not None and len(settings.all_corpora()) > 1:
        settings = settings.model_copy(update={"index": first.index / folder_name(data.name)})
    for encoder in settings.all_encoders():
        for seed in seeds:
            yield settings.for_one(corpus, encoder, seed), data


def _make_checked_plan(settings: CompareSettings) -> Plan:
    """Return the plan of all comparisons. Raises UsageError for settings that do not fit one another."""
    plan = make_plan(settings)
    thresholds = [parse_threshold(written, settings.k) for written in settings.fail_below]
    require_methods(thresholds, plan.labels)
    for threshold in thresholds:
        if threshold.metric in answers.ANSWER_METRICS and not settings.read:
            raise UsageError(f"--fail-below names {threshold.metric}, which is measured of answers. Add --read.")
    _require_reading(settings)
    several = [len(settings.all_corpora()), len(settings.all_encoders()), len(settings.seeds or ())]
    if settings.holdout is not None and max(several) > 1:
        raise UsageError("--holdout confirms one choice: one corpus, one encoder and one seed.")
    _require_different(settings)
    for corpus in filter(None, settings.all_corpora()):
        require_published_data(settings.published, corpus.published_data)
    for seed in (*(settings.seeds or ()), settings.seed or 0):
        require_seed(seed)
    if settings.seeds is not None and len(set(settings.seeds)) < len(settings.seeds):
        raise UsageError(f"'seeds' must be different. Got {settings.seeds}.")
    return plan


def _require_reading(settings: ReaderSettings) -> None:
    """Check that models that answers need are not named without --read. Raises UsageError."""
    if settings.qa_model and not settings.read:
        raise UsageError("--qa-model measures answers. Add --read.")
    if settings.reader_llm is not None and not settings.read:
        raise UsageError("--reader-llm reads answers. Add --read.")


def _require_different(settings: DataSettings) -> None:
    """Check the corpora. Raises UsageError if one occurs twice with the same questions."""
    seen: dict[object, str] = {}
    for corpus in filter(None, settings.all_corpora()):
        questions = corpus.questions or settings.questions
        sources = datasets.origin(corpus.data), questions and datasets.origin(questions)
        if sources in seen:
            raise UsageError(
                f"'corpora' must be different. Got {seen[sources]!r} and {corpus.data!r}, which are the same documents "
                "with the same questions. Leave one of them out."
            )
        seen[sources] = corpus.data
