"""What building the candidates and their first answers cost, and which candidates that rules out."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragindex._util.time_limit import TimeLimitError, limit_time
from ragindex.accounting import ledger
from ragindex.errors import BudgetError
from ragindex.estimate import add_up
from ragindex.estimate_left import BuildPlan, estimate_left
from ragindex.index.parts import paid_by, tasks_of, uses_encoder
from ragindex.interfaces.llm import PaidPlugin
from ragindex.plugins import registry
from ragindex.plugins.base import asks_service
from ragindex.types import Query
from ragindex_eval.choose.candidates import broken_constraint, drop_broken, require_racing, sort_by_price
from ragindex_eval.choose.recommendation import Candidate, Costs, Progress, RecommendRules, State
from ragindex_eval.format import short
from ragindex_eval.run import latency
from ragindex_eval.run.answers import part_figures
from ragindex_eval.run.answers_file import answers_fingerprint
from ragindex_eval.run.build_costs import measure_built
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.latency import LazyRetriever, Timing
from ragindex_eval.run.scores import ask_scored
from ragindex_eval.stats.intervals import percentile_bounds

TIMED = 60
"""Questions that are timed; fewer than 59 have no upper bound of the 95th percentile."""
P95_RISK = 0.05
"""The risk that a bound of the 95th percentile is wrong."""


# ---------------------------------------------------------------- build


def build_candidates(
    candidates: Sequence[Candidate],
    experiment: Experiment,
    rules: RecommendRules,
    first: Sequence[Query],
    progress: Progress,
) -> list[Candidate]:
    """Build the candidates over the whole corpus, cheapest first; one that exceeds the budget leaves the race.

    So does one that takes longer than the constraints allow, and one that holds all parts of a candidate whose index
    took more than they allow: it is not built. Each is asked the `first` questions at once, which the race asks anyway,
    so that something is known if the builds are interrupted.
    """
    built = list[Candidate]()
    broken = list[tuple[str, frozenset[str]]]()  # why a method with all these parts leaves
    progress.stand(candidates)

    def leave(candidate: Candidate, reason: str, remark: str, state: State = "constraint") -> None:
        built.append(candidate.leave(state, reason))
        progress.note(f"{candidate.label} is left out{remark}")

    for candidate in candidates:
        if candidate.state != "racing":
            built.append(candidate)
            continue
        parts_of_one = _list_parts(experiment, candidate)
        refusal = _find_refusal(experiment, candidate, parts_of_one, broken)
        if refusal is not None:
            state, reason = refusal
            leave(candidate, reason, f" before it is built: {reason}", state)
            continue
        try:
            with (
                ledger.attribute_calls(method=candidate.label),
                limit_time(_seconds_left(experiment, candidate, rules)),
            ):
                experiment.index.build(candidate.scheme)
        except BudgetError as error:
            reason = f"not built within the budget: {error}"
            leave(candidate, reason, ": the budget does not reach for its index", "budget")
            continue
        except TimeLimitError as error:
            reason = f"--max-index-minutes {rules.max_index_minutes:g}: its build takes longer"
            leave(candidate, reason, f" while it is built: {reason}")
            broken.append((f"{reason}; so do the parts of {candidate.label} alone", frozenset(error.parts)))
            continue
        parts = part_figures(experiment.index, candidate.scheme).values()
        money = [part.usage.money for part in parts]
        costs = Costs(
            index_seconds=sum(part.seconds for part in parts),
            index_bytes=sum(part.bytes for part in parts),
            index_dollars=None if None in money else sum(each or 0.0 for each in money),
        )
        measured = drop_broken(replace(candidate, costs=costs), rules)
        remark = f" and left out: {measured.reason}" if measured.state == "constraint" else ""
        progress.note(f"{candidate.label} is built in {short(costs.index_seconds or 0)} s{remark}")
        built.append(measured)
        progress.stand([measured if remark else _ask_first(measured, experiment, rules, first)])
        if remark:
            broken.append((f"{measured.reason} of the parts of {measured.label} alone", parts_of_one))
    progress.stand(candidate for candidate in built if not candidate.remains)
    require_racing(built)
    return sort_by_price(built)


def _find_refusal(
    experiment: Experiment,
    candidate: Candidate,
    parts: frozenset[str],
    broken: Sequence[tuple[str, frozenset[str]]],
) -> tuple[State, str] | None:
    """Return why a candidate with these parts is not built, if it is not: for its parts, or for the budget.

    `broken` are the reasons for which a method leaves that has all these parts.
    """
    reason = next((reason for reason, others in broken if others <= parts), None)
    if reason is not None:
        return "constraint", reason
    reason = _exceeds_budget(experiment, candidate)
    return None if reason is None else ("budget", reason)


def _exceeds_budget(experiment: Experiment, candidate: Candidate) -> str | None:
    """Return why building a candidate is not begun: what is left to pay exceeds the budget for certain; else None."""
    index = experiment.index
    budget = index.model.setting.budget
    if budget is None:
        return None
    estimates = estimate_left(
        index.folder,
        experiment.dataset.corpus,
        {candidate.label: candidate.scheme},
        index.model.setting,
        BuildPlan(
            llm=index.model.plugin,
            encoder=index.encoders.plugin,
            language=index.language,
            seed=index.seed,
            keep_calls=index.model.keep_calls,
        ),
    )
    total = add_up(estimates)
    if total.low <= budget.left:
        return None
    return f"not built, as its index costs ${total.low:.4f} at least, and ${budget.left:.4f} of the budget is left"


def _seconds_left(experiment: Experiment, candidate: Candidate, rules: RecommendRules) -> float | None:
    """Return how long building a candidate may take, of which it has some parts; None without a limit."""
    if rules.max_index_minutes is None:
        return None
    has = measure_built(experiment.index, [candidate.scheme])
    return max(0.0, 60 * rules.max_index_minutes - sum(part.seconds for part in has.values()))


def _ask_first(
    candidate: Candidate, experiment: Experiment, rules: RecommendRules, first: Sequence[Query]
) -> Candidate:
    """Return a candidate with its score on the first questions; one that asks a model or a service is not asked yet."""
    if tasks_of(candidate.scheme) or asks_service(candidate.scheme):
        return candidate
    retriever = LazyRetriever(candidate.scheme, experiment.index)
    scores = ask_scored(experiment, candidate.label, retriever, first, rules.metric).scores
    retriever.close()
    return replace(candidate, asked=len(scores), score=float(np.mean(scores)))


def _list_parts(experiment: Experiment, candidate: Candidate) -> frozenset[str]:
    return frozenset(registry.label(part) for part in experiment.index.all_parts(candidate.scheme))


# ---------------------------------------------------------------- first answers


def time_candidates(
    candidates: Sequence[Candidate],
    experiment: Experiment,
    rules: RecommendRules,
    queries: Sequence[Query],
    progress: Progress,
) -> list[Candidate]:
    """Return the candidates with the costs of first answers; those that are too slow or too expensive leave the race.

    If the budget does not suffice, those leave that pay for answers.
    """
    try:
        timed = cost_of_answers(candidates, experiment, queries, rules)
    except BudgetError as error:
        reason = f"not asked within the budget: {error}"
        left = [
            candidate.leave("budget", reason)
            if candidate.state == "racing" and _pays(candidate, experiment)
            else candidate
            for candidate in candidates
        ]
        require_racing(left)
        timed = cost_of_answers(left, experiment, queries, rules)
    for before, after in zip(candidates, timed, strict=True):
        if before.state != after.state:
            progress.note(f"{after.label} is left out: {after.reason}")
    progress.stand(candidate for candidate in timed if not candidate.remains)
    require_racing(timed)
    return sort_by_price(timed)


def _pays(candidate: Candidate, experiment: Experiment) -> bool:
    """Return whether asking a candidate costs money."""
    index, parts = experiment.index, experiment.index.all_parts(candidate.scheme)
    asks = bool(tasks_of(candidate.scheme)) and isinstance(index.model.plugin, PaidPlugin)
    encodes = isinstance(index.encoders.plugin, PaidPlugin) and any(map(uses_encoder, parts))
    return asks or encodes or any(paid_by(candidate.scheme))


def cost_of_answers(
    candidates: Sequence[Candidate], experiment: Experiment, queries: Sequence[Query], rules: RecommendRules
) -> list[Candidate]:
    """Return the racing candidates with p95 and dollars of first questions, without those that break a constraint.

    A candidate is too slow if its 95th percentile exceeds the limit for certain: the lower bound from order
    statistics does, at a risk of 5 %. Candidates are timed together, question by question.
    """
    racing = [candidate for candidate in candidates if candidate.state == "racing"]
    times = _time(racing, experiment, queries[:TIMED])
    by_label = dict[str, Candidate]()
    for racer, milliseconds in zip(racing, times, strict=True):
        scored = ask_scored(
            experiment, racer.label, LazyRetriever(racer.scheme, experiment.index), queries[: rules.block], rules.metric
        )
        dollars = None if scored.dollars is None else 1000 * scored.dollars / len(scored.scores)
        p95 = float(np.percentile(milliseconds, 95)) if len(milliseconds) else None
        bounds = percentile_bounds(milliseconds, 95, P95_RISK)
        costed = replace(racer, costs=replace(racer.costs, p95_ms=p95, p95_bounds=bounds, dollars_per_1000=dollars))
        broken = _too_slow(costed.costs, rules) or broken_constraint(costed.costs, rules)
        by_label[racer.label] = costed if broken is None else costed.leave("constraint", broken)
    return [by_label.get(candidate.label, candidate) for candidate in candidates]


def _too_slow(costs: Costs, rules: RecommendRules) -> str | None:
    low = costs.p95_bounds[0]
    if rules.max_p95_ms is None or low is None or low <= rules.max_p95_ms:
        return None
    return f"--max-p95-ms {rules.max_p95_ms:g}: the 95th percentile is above {short(low)} ms"


def _time(candidates: Sequence[Candidate], experiment: Experiment, queries: Sequence[Query]) -> list[list[float]]:
    """Return the milliseconds of each question, for each candidate."""
    index, gold, k = experiment.index, experiment.dataset.gold, experiment.ks[-1]
    timings = [
        Timing(
            candidate.label,
            LazyRetriever(candidate.scheme, index),
            index.folder
            / "runs"
            / answers_fingerprint(index, candidate.scheme, queries, gold)
            / f"first-{latency.latency_file_name(k)}",
        )
        for candidate in candidates
    ]
    measured = latency.measure_latency(timings, list(queries), k, index.seed)
    return [list(times.latency.per_query.values()) for times in measured]
