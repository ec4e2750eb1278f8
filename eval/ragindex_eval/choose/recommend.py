"""A recommendation, from settings to the decision: price, try on a part of the corpus, build, race, confirm.

The race decides after each block of questions, which come in an order drawn by the seed. Whatever was built and
answered is kept in the index, so the same command goes on where it stopped, with more questions too.

Some questions are kept apart from the race and confirm its choice. Order and side of a question follow from a hash of
the seed and the question alone, and questions that were raced on before come first. So more questions never move an
earlier one: the race goes on where it stopped, and what holds at any time holds over all its runs. A question that was
raced on is never kept apart, whatever the seed was then.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from ragindex._util.canonical import digest
from ragindex.accounting import ledger
from ragindex.encoders.paid_vectors import remember_paid_questions
from ragindex.errors import UsageError
from ragindex.llm.budget import parse_budget
from ragindex.plugins import registry
from ragindex.types import Query
from ragindex_eval.choose.candidates import choose_candidates, price_within_rules, try_on_parts
from ragindex_eval.choose.costs import TIMED, build_candidates, time_candidates
from ragindex_eval.choose.race import choose, find_pareto, more_questions, race_candidates, recall_interval
from ragindex_eval.choose.recommendation import (
    Candidate,
    Confirmation,
    ConfirmationVerdict,
    Progress,
    Recommendation,
    RecommendRules,
)
from ragindex_eval.conclusions.questions import describe_more_questions
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.format import many, percent, short
from ragindex_eval.metrics.retrieval import list_judged
from ragindex_eval.run.conclude import describe_dataset
from ragindex_eval.run.experiment import Experiment, load_experiment, prepare_index
from ragindex_eval.run.holdout import (
    HoldoutUse,
    Ledger,
    RacedQuestions,
    find_ledger,
    hash_question,
    load_holdout,
    record_race,
    record_use,
    require_usable,
    use_holdout,
)
from ragindex_eval.run.scores import compare_scores
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.stats.intervals import LEVEL, Interval, SampleArray
from ragindex_eval.stats.race import betting_interval, count_level_questions

KEPT_FROM = 200
"""With fewer questions than these, all are raced on."""
_KEPT_SHARE = 3  # of so many questions, one is kept apart


def split_questions(
    judged: Sequence[Query], seed: int, raced: Sequence[str], *, keep: bool = True, appended: bool = True
) -> tuple[list[Query], list[Query]]:
    """Return the questions to race on, in their order, and those that are kept apart.

    `raced` are the hashes of the questions that were raced on before, in their order. Of the others, a third is kept
    apart, unless there are fewer than KEPT_FROM in all or `keep` is not set. Unless they are `appended`, the order is
    that of the hashes alone, which is a random order of all.
    """
    places = {hash: place for place, hash in enumerate(raced)}
    hashes = {query.id: hash_question(query.text) for query in judged}

    def place(query: Query) -> tuple[int, str]:
        hash = hashes[query.id]
        return places.get(hash, len(places)) if appended else 0, digest(["order", seed, hash])

    def is_kept(query: Query) -> bool:
        hash = hashes[query.id]
        return hash not in places and int(digest(["kept", seed, hash]), 16) % _KEPT_SHARE == 0

    ordered = sorted(judged, key=place)
    apart = {query.id for query in ordered if is_kept(query)} if keep and len(judged) >= KEPT_FROM else set()
    return [query for query in ordered if query.id not in apart], [query for query in ordered if query.id in apart]


def confirm(
    chosen: Candidate,
    rival: Candidate,
    experiment: Experiment,
    queries: Sequence[Query],
    rules: RecommendRules,
    ledger: Ledger,
) -> Confirmation:
    """Ask the chosen method and its rival the questions that were kept apart, and write the use down before.

    Raises StoreError if the ledger cannot be read or written.
    """
    hashes = tuple(hash_question(query.text) for query in queries)
    methods = (chosen.scheme, rival.scheme)
    use = HoldoutUse(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        command="recommend",
        file=experiment.dataset.questions_file or experiment.dataset.name,
        chosen=chosen.label,
        rival=rival.label,
        metric=rules.metric,
        asked=digest(
            [rules.metric, *(experiment.index.result_fingerprint(method) for method in methods), sorted(hashes)]
        ),
        questions=hashes,
        reused=False,
    )
    earlier = len(record_use(ledger, use, counts=True))
    level = confirmation_level(earlier)
    own, other = (chosen.label, chosen.scheme), (rival.label, rival.scheme)
    score, rival_score, difference = compare_scores(experiment, own, other, queries, rules.metric, level)
    return Confirmation(
        judge_confirmation(difference, rules.delta), len(queries), score, rival_score, difference, 1 - level, earlier
    )


def confirmation_level(earlier: int) -> float:
    """Return the risk of a confirmation after so many earlier ones by any of its questions.

    The first has 2.5 %, the next 0.8 %, and all together 5 %, however often a choice is made with more questions.
    """
    return LEVEL / ((earlier + 1) * (earlier + 2))


def judge_confirmation(difference: Interval, margin: float) -> ConfirmationVerdict:
    """Return what the interval of chosen minus rival says of the claim that the chosen one is within the margin."""
    low, high = difference
    return "confirmed" if low >= -margin else "contradicted" if high < -margin else "open"


# ---------------------------------------------------------------- the recommendation


def recommend(settings: CompareSettings, rules: RecommendRules, data: Dataset, progress: Progress) -> Recommendation:
    """Find a method within `rules.delta` of the best candidate that meets the constraints, the cheapest of these.

    `progress` gets each step, and has what is known if the work is interrupted. Of 200 questions or more, a third is
    kept apart to confirm the choice, unless there is a holdout of other questions.

    Raises UsageError without judged questions or if no candidate meets the constraints, and the errors of
    `ragindex_eval.run.study.evaluate`.
    """
    with ledger.record_calls(paid_only=True) as paid:
        recommendation = _recommend(settings, rules, data, progress)
    return replace(recommendation, paid=paid.spent)


def _recommend(settings: CompareSettings, rules: RecommendRules, data: Dataset, progress: Progress) -> Recommendation:
    rules.require_metric(settings.k)
    chosen_from = choose_candidates(settings)
    folder = settings.index_folder(data.name)
    labels = [method.label for method in chosen_from]
    require_usable(data, settings.holdout, folder, labels, reuse=settings.reuse_holdout)
    uses = find_ledger(settings.questions, data, folder)
    racing, apart = _split(data, uses, settings, rules)
    _tell_of_questions(len(racing), rules, progress)
    budget = parse_budget(settings.budget)
    candidates = price_within_rules(chosen_from, data, folder, settings, rules, progress, budget)
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
        built = build_candidates(candidates, experiment, rules, racing[: rules.block], progress)
        entered = time_candidates(built, experiment, rules, racing, progress)
        values, racers, race = race_candidates(entered, experiment, rules, racing, progress)
        recommendation = _conclude(racers, values, experiment, rules, (racing, apart), progress)
        recommendation = replace(recommendation, race=race)
        if sealed is not None:
            sealed_uses = find_ledger(settings.holdout, data, index.folder)
            return _use_sealed(recommendation, sealed, rules, sealed_uses, progress, reuse=settings.reuse_holdout)
        return _confirm(recommendation, experiment, rules, apart, uses)


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


def _tell_of_questions(questions: int, rules: RecommendRules, progress: Progress) -> None:
    """Say before anything is built if the questions are too few to show that a method is good enough."""
    needed = count_level_questions(rules.delta, rules.alpha)
    if rules.estimand == "population" and questions < needed:
        progress.note(
            f"{many(questions, 'question')} show large differences only, so that the race is likely to end undecided; "
            "then the last lines say about how many more would tell"
        )


# ---------------------------------------------------------------- conclude


def _conclude(
    candidates: Sequence[Candidate],
    values: SampleArray,
    experiment: Experiment,
    rules: RecommendRules,
    questions: tuple[Sequence[Query], Sequence[Query]],
    progress: Progress,
) -> Recommendation:
    racing, apart = questions
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
        recall = recall_interval(values[:, choice.chosen], rules, len(racers), population)
    everyone = [*racers, *candidates[values.shape[1] :]]
    return Recommendation(
        chosen=chosen.label,
        decided=choice.accepted and not any(candidate.state == "budget" for candidate in everyone),
        rival=None if rival is None else rival.label,
        difference=difference,
        cheaper=tuple(racers[at].label for at in choice.cheaper),
        more_questions={racers[at].label: count for at, count in more_questions(values, racers, choice, rules).items()},
        questions=len(racing),
        candidates=tuple(everyone),
        pareto=find_pareto(racers),
        kept=len(apart),
        questions_asked=sum(candidate.asked for candidate in everyone),
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


def describe_changes(candidates: Sequence[Candidate], chosen: Candidate) -> tuple[str, ...]:
    """Say which other rules would let another candidate be chosen."""
    changes = [
        f"{candidate.label} may enter without {candidate.reason}"
        for candidate in candidates
        if candidate.state == "constraint"
    ]
    changes += [
        f"{candidate.label} was left out on a part of the corpus: {candidate.reason}"
        for candidate in candidates
        if candidate.state == "sub-corpus"
    ]
    changes += [
        f"{candidate.label} may be chosen with a larger --budget: {candidate.reason}"
        for candidate in candidates
        if candidate.state == "budget"
    ]
    better = [
        candidate
        for candidate in candidates
        if candidate.label != chosen.label and candidate.remains and (candidate.score or 0.0) > (chosen.score or 0.0)
    ]
    for rival in better:
        gap = (rival.score or 0.0) - (chosen.score or 0.0)
        changes.append(
            f"{rival.label} scores {percent(gap)} points more so far: a --delta below {short(gap)} may prefer it"
        )
    return tuple(changes)
