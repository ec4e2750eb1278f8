"""A recommendation, from settings to the decision: price, try on a part of the corpus, build, race, confirm.

The race decides after each block of questions, which come in an order drawn by the seed. Whatever was built and
answered is kept in the index, so the same command goes on where it stopped, with more questions too.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from ragindex._util.time_limit import TimeLimitError, limit_time
from ragindex.accounting import ledger
from ragindex.encoders.paid_vectors import remember_paid_questions
from ragindex.errors import BudgetError, UsageError
from ragindex.estimate import add_up
from ragindex.estimate_left import estimate_left
from ragindex.index.parts import paid_by, tasks_of, uses_encoder
from ragindex.interfaces.llm import PaidPlugin
from ragindex.llm.budget import Budget, parse_budget
from ragindex.plugins import registry
from ragindex.plugins.base import asks_service
from ragindex.types import Query
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.format import many, percent, short
from ragindex_eval.metrics.score import list_judged
from ragindex_eval.recommend.candidates import choose_candidates, sort_by_price
from ragindex_eval.recommend.decide import choose, confirm, describe_changes, find_pareto, more_questions
from ragindex_eval.recommend.prices import broken_constraint, price_candidates
from ragindex_eval.recommend.question_order import split_questions
from ragindex_eval.recommend.rules import RecommendRules
from ragindex_eval.recommend.timing import TIMED, cost_of_answers
from ragindex_eval.recommend.trials import try_on_parts
from ragindex_eval.recommend.values import LARGER_BUDGET, Candidate, Costs, RaceStep, Recommendation, State
from ragindex_eval.results.model import Interval, MethodAnswer
from ragindex_eval.run.answers import part_figures
from ragindex_eval.run.build_costs import BuildCosts, measure_built
from ragindex_eval.run.conclude import describe_dataset
from ragindex_eval.run.estimate_rest import format_duration
from ragindex_eval.run.experiment import Experiment, default_index, load_experiment, prepare_index
from ragindex_eval.run.holdout import (
    Ledger,
    RacedQuestions,
    find_ledger,
    hash_question,
    load_holdout,
    record_race,
    require_usable,
    use_holdout,
)
from ragindex_eval.run.latency import LazyRetriever
from ragindex_eval.run.notes import unknown_documents_notes
from ragindex_eval.run.scores import ask_scored
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.stats.betting_interval import betting_interval, is_below
from ragindex_eval.stats.enough import describe_more_questions
from ragindex_eval.stats.intervals import SampleArray
from ragindex_eval.stats.race import RaceRules, count_level_questions, run_races

Tell = Callable[[str], None]
_LONG_SECONDS = 60.0  # to build all candidates; what takes less is not worth a word


@dataclass(slots=True)
class Progress:
    """Steps of a recommendation, each told as it happens, and the candidates as they stand, by label."""

    tell: Tell
    steps: list[str] = field(default_factory=list)
    standing: dict[str, Candidate] = field(default_factory=dict)

    def note(self, step: str) -> None:
        """Add a step."""
        self.steps.append(step)
        self.tell(step)

    def stand(self, candidates: Iterable[Candidate]) -> None:
        """Take note of how candidates stand."""
        self.standing.update({candidate.label: candidate for candidate in candidates})


def recommend(settings: CompareSettings, rules: RecommendRules, data: Dataset, progress: Progress) -> Recommendation:
    """Find a method within `rules.delta` of the best candidate that meets the constraints, the cheapest of these.

    `progress` is told each step, and has what is known if the work is interrupted. Of 200 questions or more, a third is
    kept apart to confirm the choice, unless there is a holdout of other questions.

    Raises UsageError without judged questions or if no candidate meets the constraints, and the errors of
    `ragindex_eval.run.study.evaluate`.
    """
    with ledger.record_calls(paid_only=True) as paid:
        found = _recommend(settings, rules, data, progress)
    return replace(found, paid=paid.spent)


def _recommend(settings: CompareSettings, rules: RecommendRules, data: Dataset, progress: Progress) -> Recommendation:
    rules.require_metric(settings.k)
    chosen_from = choose_candidates(settings)
    folder = settings.index or default_index(data.name)
    labels = [one.label for one in chosen_from]
    require_usable(data, settings.holdout, folder, labels, reuse=settings.reuse_holdout)
    uses = find_ledger(settings.questions, data, folder)
    racing, kept = _split(data, uses, settings, rules)
    _tell_of_questions(len(racing), rules, progress)
    budget = parse_budget(settings.budget)
    candidates = _price(chosen_from, data, folder, settings, rules, progress, budget)
    schemes = [candidate.scheme for candidate in candidates]
    timed = (query.text for query in racing[:TIMED])
    with prepare_index(settings, data, None, budget) as index, remember_paid_questions(timed):
        raced = tuple(hash_question(query.text) for query in racing)
        new = not uses.path.exists()
        record_race(uses, RacedQuestions(datetime.now(UTC).isoformat(timespec="seconds"), data.questions_file, raced))
        if new:
            progress.tell(
                f"{uses.path} keeps which questions were raced on, so that none of these confirms a choice later"
            )
        candidates = try_on_parts(candidates, settings, rules, data, index, schemes, racing, progress.note)
        experiment = load_experiment(settings, data, schemes, index)
        sealed = load_holdout(experiment, settings.holdout)
        built = _build(candidates, experiment, rules, racing[: rules.block], progress)
        entered = _cost_answers(built, experiment, rules, racing, progress)
        values, racers, race = _race(entered, experiment, rules, racing, progress)
        found = _conclude(racers, values, experiment, rules, (racing, kept), progress)
        found = replace(found, race=race)
        if sealed is not None:
            sealed_uses = find_ledger(settings.holdout, data, index.folder)
            return _use_sealed(found, sealed, rules, sealed_uses, progress, reuse=settings.reuse_holdout)
        return _confirm(found, experiment, rules, kept, uses)


def _use_sealed(
    recommendation: Recommendation,
    sealed: Experiment,
    rules: RecommendRules,
    ledger: Ledger,
    progress: Progress,
    *,
    reuse: bool,
) -> Recommendation:
    """Return the recommendation with the choice and its rival on the holdout; an undecided one leaves it sealed."""
    if recommendation.rival is None:
        return recommendation
    if not recommendation.decided:
        progress.tell(f"{sealed.dataset.questions_file} stays sealed, to confirm a choice once one is made")
        return recommendation
    chosen, rival = (
        (label, recommendation.candidate(label).scheme) for label in (recommendation.chosen, recommendation.rival)
    )
    return replace(
        recommendation, holdout=use_holdout(sealed, chosen, rival, rules.metric, "recommend", ledger, reuse=reuse)
    )


def _confirm(
    recommendation: Recommendation,
    experiment: Experiment,
    rules: RecommendRules,
    queries: Sequence[Query],
    uses: Ledger,
) -> Recommendation:
    """Return the recommendation with the choice on the questions kept apart; an undecided one leaves them unasked."""
    if not queries or not recommendation.decided or recommendation.rival is None:
        return recommendation
    chosen, rival = recommendation.candidate(recommendation.chosen), recommendation.candidate(recommendation.rival)
    return replace(recommendation, confirmation=confirm(chosen, rival, experiment, queries, rules, uses))


def _split(
    data: Dataset, uses: Ledger, settings: CompareSettings, rules: RecommendRules
) -> tuple[list[Query], list[Query]]:
    """Return the questions to race on and those kept apart. Raises UsageError if no question is judged."""
    judged = list_judged(data)
    if not judged:
        raise UsageError(
            "recommend needs questions with gold documents: --questions FILE.csv (question,answer,documents)"
        )
    # Statements about exactly these questions need an order that is random among all of them.
    appended = rules.estimand == "population"
    return split_questions(judged, settings.seed or 0, uses.raced(), keep=settings.holdout is None, appended=appended)


# ---------------------------------------------------------------- price and build


def _price(
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
    found = [_drop_broken(one, rules) for one in sort_by_price(priced)]
    for one in found:
        if one.state == "constraint":
            progress.note(f"{one.label} is left out before it is built: {one.reason}")
    _require_racing(found)
    if building is not None:
        _announce_building([one.label for one in found if one.remains], building, settings, rules, progress)
    return found


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


def _tell_of_questions(questions: int, rules: RecommendRules, progress: Progress) -> None:
    """Say before anything is built if the questions are too few to show that a method is good enough."""
    needed = count_level_questions(rules.delta, rules.alpha)
    if rules.estimand == "population" and questions < needed:
        progress.note(
            f"{many(questions, 'question')} show large differences only, so that the race is likely to end undecided; "
            "then the last lines say about how many more would tell"
        )


def _drop_broken(candidate: Candidate, rules: RecommendRules) -> Candidate:
    broken = broken_constraint(candidate.costs, rules)
    return candidate if broken is None or candidate.state != "racing" else candidate.leave("constraint", broken)


def _require_racing(candidates: Sequence[Candidate]) -> None:
    if not any(candidate.remains for candidate in candidates):
        reasons = "; ".join(f"{candidate.label}: {candidate.reason}" for candidate in candidates)
        if any(candidate.state == "budget" for candidate in candidates):
            raise BudgetError(f"No candidate could be judged within the budget. {reasons}. {LARGER_BUDGET}")
        raise UsageError(f"No candidate meets the constraints. {reasons}. Loosen one of them.")


def _build(
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

    def leave(one: Candidate, reason: str, said: str, state: State = "constraint") -> None:
        built.append(one.leave(state, reason))
        progress.note(f"{one.label} is left out{said}")

    for one in candidates:
        if one.state != "racing":
            built.append(one)
            continue
        parts_of_one = _list_parts(experiment, one)
        refusal = _find_refusal(experiment, one, parts_of_one, broken)
        if refusal is not None:
            state, reason = refusal
            leave(one, reason, f" before it is built: {reason}", state)
            continue
        try:
            with ledger.attribute_calls(method=one.label), limit_time(_seconds_left(experiment, one, rules)):
                experiment.index.build(one.scheme)
        except BudgetError as error:
            reason = f"not built within the budget: {error}"
            leave(one, reason, ": the budget does not reach for its index", "budget")
            continue
        except TimeLimitError as error:
            reason = f"--max-index-minutes {rules.max_index_minutes:g}: its build takes longer"
            leave(one, reason, f" while it is built: {reason}")
            broken.append((f"{reason}; so do the parts of {one.label} alone", frozenset(error.parts)))
            continue
        parts = part_figures(experiment.index, one.scheme).values()
        money = [part.usage.money for part in parts]
        costs = Costs(
            index_seconds=sum(part.seconds for part in parts),
            index_bytes=sum(part.bytes for part in parts),
            index_dollars=None if None in money else sum(each or 0.0 for each in money),
        )
        measured = _drop_broken(replace(one, costs=costs), rules)
        said = f" and left out: {measured.reason}" if measured.state == "constraint" else ""
        progress.note(f"{one.label} is built in {short(costs.index_seconds or 0)} s{said}")
        built.append(measured)
        progress.stand([measured if said else _ask_first(measured, experiment, rules, first)])
        if said:
            broken.append((f"{measured.reason} of the parts of {measured.label} alone", parts_of_one))
    progress.stand(one for one in built if not one.remains)
    _require_racing(built)
    return sort_by_price(built)


def _find_refusal(
    experiment: Experiment,
    candidate: Candidate,
    parts: frozenset[str],
    broken: Sequence[tuple[str, frozenset[str]]],
) -> tuple[State, str] | None:
    """Return why a candidate with these parts is not built, if it is not: parts of it are too dear, or the budget is.

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
        llm=index.model.plugin,
        encoder=index.encoders.plugin,
        language=index.language,
        seed=index.seed,
        keep_calls=index.model.keep_calls,
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


def _cost_answers(
    candidates: Sequence[Candidate],
    experiment: Experiment,
    rules: RecommendRules,
    queries: Sequence[Query],
    progress: Progress,
) -> list[Candidate]:
    """Return the candidates with the costs of first answers; those that are too slow or too dear leave the race.

    If the budget does not suffice, those leave that pay for answers.
    """
    try:
        found = cost_of_answers(candidates, experiment, queries, rules)
    except BudgetError as error:
        reason = f"not asked within the budget: {error}"
        left = [
            one.leave("budget", reason) if one.state == "racing" and _pays(one, experiment) else one
            for one in candidates
        ]
        _require_racing(left)
        found = cost_of_answers(left, experiment, queries, rules)
    for before, after in zip(candidates, found, strict=True):
        if before.state != after.state:
            progress.note(f"{after.label} is left out: {after.reason}")
    progress.stand(one for one in found if not one.remains)
    _require_racing(found)
    return sort_by_price(found)


def _pays(candidate: Candidate, experiment: Experiment) -> bool:
    """Return whether asking a candidate costs money."""
    index, parts = experiment.index, experiment.index.all_parts(candidate.scheme)
    asks = bool(tasks_of(candidate.scheme)) and isinstance(index.model.plugin, PaidPlugin)
    encodes = isinstance(index.encoders.plugin, PaidPlugin) and any(map(uses_encoder, parts))
    return asks or encodes or any(paid_by(candidate.scheme))


# ---------------------------------------------------------------- race


def _race(
    candidates: Sequence[Candidate],
    experiment: Experiment,
    rules: RecommendRules,
    queries: Sequence[Query],
    progress: Progress,
) -> tuple[SampleArray, list[Candidate], tuple[RaceStep, ...]]:
    """Ask the candidates block by block until the cheapest remaining one is accepted, or the questions end.

    A candidate that nothing races against is asked all questions, or until its recall is known if `min_recall` is set.
    Returns the scores of shape (questions asked, racers), NaN where a method was not asked, the candidates, racers
    first, and the race after each block.
    """
    racers = [candidate for candidate in candidates if candidate.state == "racing"]
    others = [candidate for candidate in candidates if candidate.state != "racing"]
    retrievers = [LazyRetriever(racer.scheme, experiment.index) for racer in racers]
    race = RaceRules(
        rules.delta, rules.alpha, len(queries) if rules.estimand == "questions" else None, block=rules.block
    )
    values = np.full((0, len(racers)), math.nan)
    answers: dict[str, list[MethodAnswer]] = {racer.label: [] for racer in racers}
    steps = list[RaceStep]()
    alone = len(racers) == 1 and rules.min_recall is None
    for start in range(0, len(queries), rules.block):
        block = queries[start : start + rules.block]
        rows = np.full((len(block), len(racers)), math.nan)
        for at, racer in enumerate(racers):
            if not racer.remains:
                continue
            try:
                scored = ask_scored(experiment, racer.label, retrievers[at], block, rules.metric)
            except BudgetError as error:
                racers[at] = replace(racer, asked=len(values)).leave(
                    "budget", f"not asked further within the budget: {error}"
                )
                progress.note(f"{racer.label} is left out after {many(len(values), 'question')}: the budget is spent")
                continue
            rows[:, at] = scored.scores
            answers[racer.label] += scored.answers
        values = np.vstack([values, rows])
        racers = _leave_below(racers, values, rules, race.population, progress)
        _require_racing(racers)
        racers, ended = _decide(racers, values, race, progress, alone=all(one.state != "budget" for one in others))
        progress.stand(racers)
        asked_all = {
            racer.label: racer.score for racer in racers if racer.asked == len(values) and racer.score is not None
        }
        steps.append(RaceStep(len(values), asked_all, sum(racer.remains for racer in racers)))
        if ended and not alone and _is_recall_known(racers, values, rules, race.population):
            break
    for note in unknown_documents_notes(answers):
        progress.note(note)
    return values, [*racers, *others], tuple(steps)


def _leave_below(
    racers: Sequence[Candidate],
    values: SampleArray,
    rules: RecommendRules,
    population: int | None,
    progress: Progress,
) -> list[Candidate]:
    """Return the racers; those whose recall is shown to be below `min_recall` have left.

    All bets on recall have a risk of alpha of their own, which the racers share. The statements of the race stay true
    without those that left: whatever is more than delta worse than one that is below the bound is below it, too.
    """
    if rules.min_recall is None:
        return list(racers)
    found = list[Candidate]()
    for at, one in enumerate(racers):
        seen = values[~np.isnan(values[:, at]), at]
        if one.remains and is_below(seen, rules.min_recall, rules.alpha / len(racers) / 2, population):
            one = replace(one, asked=len(seen), score=float(seen.mean())).leave(
                "constraint", f"--min-recall {rules.min_recall:g}: {rules.metric} is below it for certain"
            )
            progress.note(
                f"{one.label} is left out after {many(one.asked, 'question')}: "
                f"{rules.metric} {percent(one.score or 0)} is below --min-recall {rules.min_recall:g} for certain"
            )
        found.append(one)
    return found


def _is_recall_known(
    racers: Sequence[Candidate], values: SampleArray, rules: RecommendRules, population: int | None
) -> bool:
    """Return whether it is shown that the cheapest remaining racer has the least recall allowed, if one is set."""
    if rules.min_recall is None:
        return True
    first = next(at for at, racer in enumerate(racers) if racer.remains)
    return _recall_interval(values[:, first], rules, len(racers), population)[0] >= rules.min_recall


def _recall_interval(scores: SampleArray, rules: RecommendRules, racers: int, population: int | None) -> Interval:
    """Return the interval of a racer's mean; those of all `racers` hold together, at any time."""
    low, high = betting_interval(scores[~np.isnan(scores)], rules.alpha / racers, population)
    return max(0.0, low), min(1.0, high)


def _decide(
    racers: Sequence[Candidate], values: SampleArray, race: RaceRules, progress: Progress, *, alone: bool
) -> tuple[list[Candidate], bool]:
    """Return the racers with what the race says of them after these scores, and whether it is over.

    A single racer is accepted if it is `alone`, because all others break a constraint or are worse.
    """
    left = np.array([racer.asked or -1 if racer.state in ("constraint", "budget") else 0 for racer in racers])
    races = run_races(np.nan_to_num(values)[None], np.arange(len(racers)), race, left)
    decided = list[Candidate]()
    for at, racer in enumerate(racers):
        seen = values[~np.isnan(values[:, at]), at]
        updated = replace(racer, asked=len(seen), score=float(seen.mean()) if len(seen) else None)
        dropped, accepted = int(races.dropped[0, at]), int(races.accepted[0, at])
        if racer.state in ("constraint", "budget"):
            updated = racer
        elif dropped and racer.state != "dropped":
            updated = updated.leave("dropped", f"more than {percent(race.delta)} points worse than another")
            progress.note(f"{racer.label} is dropped after {many(dropped, 'question')}: {percent(updated.score or 0)}")
        elif len(racers) == 1:
            updated = updated.leave("accepted", "no other meets the constraints") if alone else updated
        elif accepted and racer.state == "racing":
            updated = updated.leave("accepted", f"within {percent(race.delta)} points of the best")
            progress.note(
                f"{racer.label} is within {percent(race.delta)} points of the best, after {many(accepted, 'question')}"
            )
        decided.append(updated)
    return decided, bool(races.ended[0])


# ---------------------------------------------------------------- conclude


def _conclude(
    candidates: Sequence[Candidate],
    values: SampleArray,
    experiment: Experiment,
    rules: RecommendRules,
    questions: tuple[Sequence[Query], Sequence[Query]],
    progress: Progress,
) -> Recommendation:
    racing, kept = questions
    racers = list(candidates[: values.shape[1]])
    choice = choose(racers)
    chosen, rival = racers[choice.chosen], None if choice.rival is None else racers[choice.rival]
    population = len(racing) if rules.estimand == "questions" else None
    difference: Interval | None = None
    recall: Interval | None = None
    if choice.rival is not None:
        both = values[:, choice.chosen] - values[:, choice.rival]
        difference = betting_interval(both[~np.isnan(both)], rules.alpha, population)
    if rules.min_recall is not None and chosen.asked:
        recall = _recall_interval(values[:, choice.chosen], rules, len(racers), population)
    everyone = [*racers, *candidates[values.shape[1] :]]
    return Recommendation(
        chosen=chosen.label,
        decided=choice.accepted and not any(one.state == "budget" for one in everyone),
        rival=None if rival is None else rival.label,
        difference=difference,
        cheaper=tuple(racers[at].label for at in choice.cheaper),
        more_questions={racers[at].label: count for at, count in more_questions(values, racers, choice, rules).items()},
        questions=len(racing),
        candidates=tuple(everyone),
        pareto=find_pareto(racers),
        kept=len(kept),
        questions_asked=sum(one.asked for one in everyone),
        full=len(everyone) * len(racing),
        steps=tuple(progress.steps),
        would_change=describe_changes(everyone, chosen),
        rules=rules.model_dump(mode="json"),
        dataset=describe_dataset(experiment.index, experiment.dataset),
        encoder=registry.label(experiment.index.encoders.plugin),
        recall=recall,
        tells_more=_describe_more(racers, values),
    )


def _describe_more(racers: Sequence[Candidate], values: SampleArray) -> str:
    """Say how many more questions would tell the best of the remaining racers from the others, as `compare` says it."""
    remaining = [at for at, racer in enumerate(racers) if racer.remains]
    best = max(remaining, key=lambda at: racers[at].score or 0.0)
    gaps = {racers[at].label: values[:, best] - values[:, at] for at in remaining if at != best}
    rivals = {label: gap[~np.isnan(gap)].tolist() for label, gap in gaps.items()}
    return describe_more_questions(racers[best].label, rivals, len(racers))
