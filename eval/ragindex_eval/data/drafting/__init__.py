"""Questions drafted from documents by rule, for a person to accept, edit or drop.

About half need one passage. The others need two: a name that few documents share stands in a sentence of the first
as an unknown, and the question asks something of it that only the second says.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from ragindex.types import Passage
from ragindex_eval.data.drafting.links import link_passages
from ragindex_eval.data.drafting.reading import Draft, DraftCandidate, ParsedPassage, parse_passages

__all__ = ["FORMULA", "Draft", "drafts"]

_MOST_PASSAGES = 5_000  # read closely: these or twenty for each question, whichever is more
FORMULA = frozenset("=+-@＝＋－＠\t\r")
"""What a cell that a spreadsheet takes for a formula begins with."""
_A_DOCUMENT = 12  # questions drafted from one document, at most


def make_drafts(passages: Sequence[Passage], count: int, seed: int, language: str = "english") -> list[Draft]:
    """At most `count` drafts, spread over the documents, the same for the same arguments.

    About half need two passages, fewer where few names are shared; the rest need one. Of a large corpus a sample drawn
    by the seed is read closely, of a long passage its beginning; names are looked up in all of it. In a language other
    than English, questions are sentences with a gap.
    """
    order = list(range(len(passages)))
    random.Random(seed).shuffle(order)  # noqa: S311  # a sample, no secret
    english = language == "english"
    close = parse_passages(passages, order, max(_MOST_PASSAGES, 20 * count), english)
    used: Counter[str] = Counter()
    two = _chosen(_plain(link_passages(passages, close, english, enough=10 * count)), count // 2, used)
    single = _chosen(_plain(_single(close)), count - len(two), used)
    return single + two


def _plain(candidates: Iterable[DraftCandidate]) -> list[DraftCandidate]:
    """Those that a spreadsheet shows as text: what begins like a formula could be run where the file is opened."""
    return [one for one in candidates if not {one[2].question[:1], one[2].answer[:1]} & FORMULA]


def _single(read: Iterable[ParsedPassage]) -> list[DraftCandidate]:
    """Every question that can be asked."""
    return [
        (
            one.form,
            one.kind,
            Draft(one.about(one.subject), one.answer, (each.passage.doc_id,), "single", (one.sentence,)),
        )
        for each in read
        for one in each.questions
    ]


def _chosen(candidates: Sequence[DraftCandidate], count: int, used: Counter[str]) -> list[Draft]:
    """The best forms from as many documents as there are, kinds of answers in turn; counts what it takes in `used`."""
    chosen: list[Draft] = []
    taken: set[str] = set()
    ordered = [draft for _, _, draft in _in_turn(candidates)]
    for allowed in range(1, _A_DOCUMENT + 1):
        for draft in ordered if len(chosen) < count else ():
            keys = {draft.question.casefold(), draft.source[-1]}
            keys |= {" ".join(sorted(draft.documents))} if len(draft.documents) > 1 else set()
            free = all(used[document] < allowed for document in draft.documents)
            if len(chosen) < count and free and not keys & taken:
                chosen.append(draft)
                taken |= keys
                used.update(draft.documents)
    return chosen


def _in_turn(candidates: Sequence[DraftCandidate]) -> list[DraftCandidate]:
    """By form; within a form one kind of answer after the other."""
    found: list[DraftCandidate] = []
    for form in sorted({form for form, _, _ in candidates}):
        of_form = [one for one in candidates if one[0] == form]
        kinds = sorted({kind for _, kind, _ in of_form})
        columns = [[one for one in of_form if one[1] == kind] for kind in kinds]
        found += [one for row in zip_longest(*columns) for one in row if one is not None]
    return found
