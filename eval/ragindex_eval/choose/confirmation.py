"""The questions that are kept apart from a race, and the confirmation of its choice by them.

Order and side of a question follow from a hash of the seed and the question alone, and questions that were raced on
before come first. So more questions never move an earlier one: the race goes on where it stopped, and what holds at any
time holds over all its runs. A question that was raced on is never kept apart, whatever the seed was then.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from ragindex._util.canonical import digest
from ragindex.types import Query
from ragindex_eval.choose.recommendation import Candidate, Confirmation, ConfirmationVerdict, RecommendRules
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.holdout import (
    HoldoutUse,
    Ledger,
    hash_question,
    record_use,
)
from ragindex_eval.run.scores import compare_scores
from ragindex_eval.stats.intervals import LEVEL, Interval

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
    kept = {query.id for query in ordered if is_kept(query)} if keep and len(judged) >= KEPT_FROM else set()
    return [query for query in ordered if query.id not in kept], [query for query in ordered if query.id in kept]


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
