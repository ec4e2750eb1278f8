"""The order in which questions are raced on, and which are kept apart to confirm the choice.

Order and side follow from a hash of the seed and the question alone, and questions that were raced on before come
first. So more questions never move an earlier one: the race goes on where it stopped, and what holds at any time holds
over all its runs. A question that was raced on is never kept apart, whatever the seed was then.
"""

from collections.abc import Sequence

from ragindex._util.canonical import digest
from ragindex.types import Query
from ragindex_eval.run.holdout import hash_question

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
