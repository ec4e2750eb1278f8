"""The candidates of a recommendation before they are built: which ones, what each will cost, which ones are not built.

Those of which an estimate breaks a constraint leave, and expensive ones that do not seem able to be the best on a part
of the corpus. Such a drop in a trial is a heuristic, outside the risk of the race, and is labelled so.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

from ragindex.corpus import Corpus
from ragindex.errors import BudgetError, UsageError
from ragindex.estimate import EstimateScope, estimate
from ragindex.index.index import Index
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import Budget
from ragindex.plugins import registry
from ragindex.plugins.registry import PluginSpec
from ragindex.types import Query
from ragindex_eval.choose.recommendation import LARGER_BUDGET, Candidate, Costs, Progress, RecommendRules
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.format import many, percent, short
from ragindex_eval.metrics.retrieval import judgements
from ragindex_eval.run.build_costs import BuildCosts, estimate_building, format_duration, is_small
from ragindex_eval.run.experiment import Experiment, load_experiment
from ragindex_eval.run.latency import LazyRetriever
from ragindex_eval.run.plan import choose_methods, expand_grid
from ragindex_eval.run.scores import ask_scored
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.stats.intervals import SampleArray
from ragindex_eval.stats.paired_tests import paired_interval

DEFAULT: tuple[PluginSpec, ...] = (
    *("bm25", "dense", "hybrid", "hybrid(fusion=convex)", "composed", "links", "evidence", "griever"),
    *("hipporag(mode=facts)", "raptor", "sirerag(ranking=lifted)"),
)
"""Candidates that need no language model, each with the setting that its page recommends."""


_LONG_SECONDS = 60.0  # to build all candidates; what takes less is not worth a word
_SLACK = 2.0
"""An estimate must exceed a limit by this factor before a candidate is dropped unbuilt: small samples mislead."""
PARTS = (0.1, 0.3)
"""Shares of the documents, besides the judged ones, that expensive methods are tried on before the whole corpus."""
_EXPENSIVE_SECONDS = 60.0  # to build; cheaper methods are not worth a trial
TRIAL_QUESTIONS = 60
"""Questions that are asked in a trial."""


def choose_candidates(settings: CompareSettings) -> list[Candidate]:
    """Return the methods of the settings, with grid variants; DEFAULT if none is named.

    Raises UsageError for unknown methods and for fewer than two.
    """
    methods, _ = choose_methods(settings.written_methods() or list(DEFAULT))
    candidates = [Candidate(method.label, method.scheme) for method in expand_grid(methods, settings.grid)]
    if len(candidates) < 2:
        raise UsageError("recommend needs two candidates at least. Name them: --methods bm25,hybrid")
    return candidates


def sort_by_price(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Sort candidates by what they cost, cheapest first.

    Dollars for 1,000 questions come first, then dollars for the index, then its seconds. Unknown dollars come last.
    """

    def price(candidate: Candidate) -> tuple[float, float, float]:
        costs = candidate.costs
        return tuple(
            float("inf") if value is None else value
            for value in (costs.dollars_per_1000 or 0.0, costs.index_dollars, costs.index_seconds)
        )  # type: ignore[return-value]  # three values

    return sorted(candidates, key=price)


# ---------------------------------------------------------------- estimated costs


def price_within_rules(
    candidates: Sequence[Candidate],
    data: Dataset,
    folder: Path,
    settings: CompareSettings,
    rules: RecommendRules,
    progress: Progress,
    budget: Budget | None,
) -> list[Candidate]:
    """Estimate the costs of the candidates; `folder` is that of the index, which need not exist."""
    priced, building = price_candidates(candidates, data.corpus, settings, folder, budget)
    ordered = [drop_broken(candidate, rules) for candidate in sort_by_price(priced)]
    for candidate in ordered:
        if candidate.state == "constraint":
            progress.note(f"{candidate.label} is left out before it is built: {candidate.reason}")
    require_racing(ordered)
    if building is not None:
        _announce_building(
            [candidate.label for candidate in ordered if candidate.remains], building, settings, rules, progress
        )
    return ordered


def _announce_building(
    labels: Sequence[str], building: BuildCosts, settings: CompareSettings, rules: RecommendRules, progress: Progress
) -> None:
    """Say what is left to build if it takes long, and which flags that the command lacks would shorten it."""
    seconds = building.seconds_left(labels)
    if seconds < _LONG_SECONDS:
        return
    left = {label: building.seconds_left([label]) for label in labels}
    longest = max(left, key=lambda label: left[label])
    flags = [
        *(["name fewer with --methods"] if settings.methods is None else []),
        *(["set --max-index-minutes"] if rules.max_index_minutes is None else []),
    ]
    advice = f" To shorten it: {', or '.join(flags)}." if flags else ""
    progress.note(
        f"building {many(len(labels), 'candidate')} takes about {format_duration(seconds)} beyond what the index has, "
        f"{longest} longest with {format_duration(left[longest])}.{advice}"
    )


def price_candidates(
    candidates: Sequence[Candidate],
    corpus: Corpus,
    settings: CompareSettings,
    index_folder: Path | None = None,
    budget: Budget | None = None,
) -> tuple[list[Candidate], BuildCosts | None]:
    """Return the candidates with estimated costs of building them over the whole corpus, and the estimate.

    Seconds and bytes are those of `estimate_building`, within the budget, and dollars those of `ragindex estimate`.
    There is none for a small corpus without a language model: it is built as fast. Raises as `Index.build` does.
    """
    if is_small(corpus.documents) and settings.llm in (None, "offline"):
        return list(candidates), None
    schemes = {candidate.label: candidate.scheme for candidate in candidates}
    building = estimate_building(schemes, corpus.documents, corpus.chunking, settings, index_folder, budget)
    return [
        replace(candidate, costs=_estimate_costs(candidate, building, corpus, settings)) for candidate in candidates
    ], building


def _estimate_costs(candidate: Candidate, building: BuildCosts, corpus: Corpus, settings: CompareSettings) -> Costs:
    parts = building.of(candidate.label)
    return Costs(
        index_seconds=sum(part.seconds for part in parts),
        index_bytes=sum(part.bytes for part in parts),
        index_dollars=_estimate_dollars(candidate, corpus, settings),
        estimated=not all(part.built for part in parts),
    )


def _estimate_dollars(candidate: Candidate, corpus: Corpus, settings: CompareSettings) -> float | None:
    """Return the dollars that building asks of the language model; None if they are unknown."""
    if settings.llm in (None, "offline"):
        return 0.0
    model = registry.llm(settings.llm)
    scope = EstimateScope(language=settings.language)
    estimates = estimate(corpus, [candidate.scheme], model, LLMSettings(), scope)
    return None if any(each.money is None for each in estimates) else sum(each.money or 0.0 for each in estimates)


def broken_constraint(costs: Costs, rules: RecommendRules) -> str | None:
    """Return which constraint the costs break, and by how much; None if they break none for certain.

    Estimated costs must exceed a limit twice over, dollars excepted, which are counted.
    """
    slack = _SLACK if costs.estimated else 1.0
    minutes = None if costs.index_seconds is None else costs.index_seconds / 60
    megabytes = None if costs.index_bytes is None else costs.index_bytes / 1e6
    checks = (
        ("--max-index-minutes", minutes, rules.max_index_minutes, slack, "minutes to index"),
        ("--max-mb", megabytes, rules.max_mb, slack, "MB"),
        ("--max-index-dollars", costs.index_dollars, rules.max_index_dollars, 1.0, "dollars to index"),
        (
            "--max-dollars-per-1000",
            costs.dollars_per_1000,
            rules.max_dollars_per_1000,
            1.0,
            "dollars per 1,000 questions",
        ),
    )
    for flag, value, limit, tolerated, unit in checks:
        if limit is not None and value is not None and value > tolerated * limit:
            about = "about " if costs.estimated else ""
            return f"{flag} {limit:g}: {about}{short(value)} {unit}"
    return None


def drop_broken(candidate: Candidate, rules: RecommendRules) -> Candidate:
    """Return the candidate; a racing one whose costs break a constraint has left."""
    broken = broken_constraint(candidate.costs, rules)
    return candidate if broken is None or candidate.state != "racing" else candidate.leave("constraint", broken)


def require_racing(candidates: Sequence[Candidate]) -> None:
    """Raise BudgetError or UsageError, with the reasons, if no candidate may be chosen."""
    if not any(candidate.remains for candidate in candidates):
        reasons = "; ".join(f"{candidate.label}: {candidate.reason}" for candidate in candidates)
        if any(candidate.state == "budget" for candidate in candidates):
            raise BudgetError(f"No candidate could be judged within the budget. {reasons}. {LARGER_BUDGET}")
        raise UsageError(f"No candidate meets the constraints. {reasons}. Loosen one of them.")


# ---------------------------------------------------------------- trials on a part of the corpus


def try_on_parts(
    candidates: Sequence[Candidate],
    settings: CompareSettings,
    rules: RecommendRules,
    data: Dataset,
    index: Index,
    schemes: Sequence[Scheme],
    queries: Sequence[Query],
    tell: Callable[[str], None],
) -> list[Candidate]:
    """Return the candidates, without expensive ones that do not seem able to beat the best cheap one by delta.

    All are built over all judged documents and a sample of the others, which grows; nothing built is lost, because the
    index grows with it. An expensive candidate goes on as long as the 95 % interval of its difference to the best cheap
    one reaches delta on the first of `queries`, those of the race. Nothing is tried if no candidate is expensive, or
    the index has documents already.
    """
    expensive = [
        candidate
        for candidate in candidates
        if candidate.state == "racing" and (candidate.costs.index_seconds or 0.0) >= _EXPENSIVE_SECONDS
    ]
    cheap = [candidate for candidate in candidates if candidate.state == "racing" and candidate not in expensive]
    if not expensive or not cheap or index.documents.collection.count():
        return list(candidates)
    left, seed = dict[str, Candidate](), settings.seed or 0
    for share in PARTS:
        part = part_of(data, share, seed)
        tell(f"trial on {len(part.corpus.documents):,} of {len(data.corpus.documents):,} documents")
        experiment = load_experiment(settings, part, schemes, index)
        scores = score_candidates([*cheap, *expensive], experiment, rules.metric, queries[:TRIAL_QUESTIONS])
        best = max(cheap, key=lambda candidate: float(scores[candidate.label].mean()))
        for candidate in expensive:
            high = largest_gain(scores[candidate.label], scores[best.label])
            if high < rules.delta:
                reason = _describe_gain(len(part.corpus.documents), high, best)
                left[candidate.label] = candidate.leave("sub-corpus", reason)
                tell(f"{candidate.label} is not built over all documents: {reason}")
        expensive = [candidate for candidate in expensive if candidate.label not in left]
        if not expensive:
            break
    return [left.get(candidate.label, candidate) for candidate in candidates]


def _describe_gain(documents: int, high: float, best: Candidate) -> str:
    least = (
        f"is at least {percent(-high)} points worse than" if high < 0 else f"gains {percent(high)} points at most over"
    )
    return f"on {documents:,} documents it {least} {best.label} (a heuristic)"


def part_of(data: Dataset, share: float, seed: int) -> Dataset:
    """Return the dataset with its gold documents and a share of the others; a larger share contains a smaller one."""
    gold = {id for query in data.queries for id in judgements(data.gold, query.id)}
    ids = {id for of_query in (data.gold or {}).values() for id in of_query.equivalents}
    others = [document for document in data.corpus.documents if document.id not in gold | ids]
    Random(seed).shuffle(others)  # noqa: S311  # a sample, no secret
    sample = {document.id for document in others[: round(share * len(others))]} | gold | ids
    documents = tuple(document for document in data.corpus.documents if document.id in sample)
    return replace(data, corpus=replace(data.corpus, documents=documents))


def score_candidates(
    candidates: Sequence[Candidate], experiment: Experiment, metric: str, queries: Sequence[Query]
) -> dict[str, SampleArray]:
    """Build the candidates and return their scores on the questions, by label."""
    scores = dict[str, SampleArray]()
    for candidate in candidates:
        experiment.index.build(candidate.scheme)
        retriever = LazyRetriever(candidate.scheme, experiment.index)
        scores[candidate.label] = np.array(ask_scored(experiment, candidate.label, retriever, queries, metric).scores)
        retriever.close()
    return scores


def largest_gain(scores: SampleArray, other: SampleArray) -> float:
    """Return the upper end of the 95 % interval of the mean difference, paired by question."""
    return paired_interval(scores - other)[1]
