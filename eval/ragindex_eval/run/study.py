"""Studies, which compare the same methods over several corpora, encoders and seeds.

All seeds ask the same questions. If there is a limit, the first seed draws them. So differences between seeds come
only from the randomness of the methods.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

from ragindex._util.workers import use_workers
from ragindex.corpus import Corpus
from ragindex.errors import UsageError
from ragindex.estimate import Estimate
from ragindex.index.index import Index
from ragindex.index.manifest import read_manifest, require_seed
from ragindex.llm.budget import parse_budget
from ragindex_eval.data import datasets
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.published import require_published_data
from ragindex_eval.metrics import answers
from ragindex_eval.results.model import Comparison, MethodResult, Study
from ragindex_eval.run.estimate_comparison import estimate_comparison
from ragindex_eval.run.grid import parse_threshold, require_methods
from ragindex_eval.run.pipeline import default_index, evaluate, folder_name, make_plan
from ragindex_eval.run.settings import CompareSettings, CorpusSettings

WatchStudy: TypeAlias = Callable[[int, str, MethodResult | None], None]
"""A `pipeline.Watch` of each comparison, with its place in the study, from 0."""


def run_study(
    settings: CompareSettings,
    command: str = "",
    watch: WatchStudy | None = None,
    approve: Callable[[Callable[[], Sequence[Estimate]]], None] | None = None,
) -> Study:
    """Run every comparison in the settings, one after the other, with a shared budget; `watch` is told how it goes.

    `approve` gets what estimates all of them before the first one starts; an error that it raises ends the study.
    Methods, labels, grids, thresholds, corpora and seeds are checked before any work. Raises as `evaluate` does.
    """
    _check(settings)
    budget = parse_budget(settings.budget)
    started, clock = datetime.now(UTC).isoformat(timespec="milliseconds"), time.perf_counter()
    with use_workers(settings.workers):
        found = list[Comparison]()
        corpora = settings.all_corpora()
        comparisons: Iterable[tuple[CompareSettings, Dataset | None]] = _list_all(corpora, settings)
        if approve is not None:
            if len(corpora) == 1:  # of several, one after the other is in memory
                comparisons = list(comparisons)
            again = comparisons if len(corpora) == 1 else _list_all(corpora, settings)
            approve(lambda: [estimate for each, data in again for estimate in _estimate(each, data)])
        for comparison, data in comparisons:
            told = None if watch is None else partial(watch, len(found))
            found.append(evaluate(comparison, data, budget=budget, watch=told))
    names = dict.fromkeys(comparison.dataset.name for comparison in found)
    return Study(
        settings.name or ", ".join(names), tuple(found), command, started, round(time.perf_counter() - clock, 3)
    )


def _estimate(settings: CompareSettings, data: Dataset | None) -> list[Estimate]:
    """Return what one comparison may cost before it starts."""
    folder = settings.index or default_index(data.name if data else "")
    schemes = {method.label: method.scheme for method in make_plan(settings).methods}
    return estimate_comparison(settings, data, folder, schemes)


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
    data = None if corpus is None else load_dataset(first)
    if data is not None and first.index is not None and len(settings.all_corpora()) > 1:
        settings = settings.model_copy(update={"index": first.index / folder_name(data.name)})
    for encoder in settings.all_encoders():
        for seed in seeds:
            yield settings.for_one(corpus, encoder, seed), data


def load_dataset(settings: CompareSettings) -> Dataset:
    """Load the documents and questions that the settings of one comparison name."""
    return datasets.read_dataset(
        settings.data or "",
        questions=settings.questions,
        format=settings.format,
        skip_bad=False if settings.strict else settings.skip_bad,
        selection=settings.selected_files(),
        limit=settings.limit,
        seed=settings.seed or 0,
        list_renames=partial(_list_renames, settings),
    )


def _list_renames(settings: CompareSettings, corpus: Corpus) -> dict[str, str]:
    """Return the ids of documents by those that they had before in the index of a comparison, if there is one."""
    folder = settings.index or default_index(corpus.name)
    if read_manifest(folder) is None:
        return {}
    with Index.open(folder, read_only=True) as index:
        return index.renames(corpus)


def _check(settings: CompareSettings) -> None:
    labels = [method.label for method in make_plan(settings).methods]
    thresholds = [parse_threshold(written, settings.k) for written in settings.fail_below]
    require_methods(thresholds, labels)
    for threshold in thresholds:
        if threshold.metric in answers.ANSWER_METRICS and not settings.read:
            raise UsageError(f"--fail-below names {threshold.metric}, which is measured of answers. Add --read.")
    if settings.qa_model and not settings.read:
        raise UsageError("--qa-model measures answers. Add --read.")
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


def _require_different(settings: CompareSettings) -> None:
    """Check the corpora. Raises UsageError if one occurs twice with the same questions."""
    seen: dict[object, str] = {}
    for corpus in filter(None, settings.all_corpora()):
        questions = corpus.questions or settings.questions
        asked = datasets.origin(corpus.data), questions and datasets.origin(questions)
        if asked in seen:
            raise UsageError(
                f"'corpora' must be different. Got {seen[asked]!r} and {corpus.data!r}, which are the same documents "
                "with the same questions. Leave one of them out."
            )
        seen[asked] = corpus.data
