"""Questions drafted from documents by rules, for a person to accept, edit or drop.

About half need one passage. The others need two: a name that few documents share is replaced by an unknown in a
sentence of the first passage, and the question asks something about it that only the second passage states.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from ragindex.types import Passage
from ragindex_eval.data.drafting.links import link_passages
from ragindex_eval.data.drafting.reading import Draft, DraftCandidate, ParsedPassage, parse_passages
from ragindex_eval.data.drafting.rules import LOOSE
from ragindex_eval.data.titles import names_title

__all__ = ["FORMULA", "Draft", "make_drafts"]

_MOST_PASSAGES = 5_000  # passages parsed at most: these, or twenty per question if that is more
FORMULA = frozenset("=+-@＝＋－＠\t\r")
"""First characters of cells that a spreadsheet takes for a formula."""
_FEW_DOCUMENTS, _FEW_SHARE = 3, 0.05  # a name is asked for if it answers drafts of so many documents at most
_MAX_PER_DOCUMENT = 12  # questions drafted from one document at most


def make_drafts(
    passages: Sequence[Passage], count: int, seed: int, language: str = "english", *, titles: bool = True
) -> list[Draft]:
    """Return at most `count` drafts, spread over the documents; equal arguments give equal drafts.

    About half need two passages, fewer if few names are shared; the rest need one. Of a large corpus, a sample
    drawn with the seed is parsed, and of a long passage only the beginning; shared names are looked up in the
    whole corpus. In a language other than English, questions are sentences with a gap. Without `titles`, no draft names
    the title of a document that answers it.
    """
    order = list(range(len(passages)))
    random.Random(seed).shuffle(order)  # noqa: S311  # a sample, no secret
    english = language == "english"
    most = max(_MOST_PASSAGES, 20 * count)
    close = parse_passages(passages, order, most, english)
    linked, alone = link_passages(passages, close, english, enough=10 * count), _list_single_drafts(close)
    if not titles:
        named = {passage.doc_id: passage.title for passage in passages}
        bare = [replace(passage, title="") for passage in passages]
        alone = _drop_titled(_list_single_drafts(parse_passages(bare, order, most, english)), named)
        linked = _drop_titled(linked, named)
    used: Counter[str] = Counter()
    two = _choose_drafts(_drop_formulas(linked), count // 2, used)
    documents = len({passage.doc_id for passage in passages})
    single = _choose_drafts(_drop_formulas(_drop_common_answers(alone, documents)), count - len(two), used)
    return single + two


def _drop_titled(candidates: Iterable[DraftCandidate], titles: Mapping[str, str]) -> list[DraftCandidate]:
    """Return the candidates that name no title of their documents and can be understood without; `titles` are by id."""
    return [
        candidate
        for candidate in candidates
        if candidate[0] != LOOSE
        and not names_title(candidate[2].question, (titles.get(id, "") for id in candidate[2].documents))
    ]


def _drop_common_answers(candidates: Sequence[DraftCandidate], documents: int) -> list[DraftCandidate]:
    """Return the candidates without names that answer drafts of many documents, as a product's in its manual."""
    answered: dict[str, set[str]] = {}
    for _, kind, draft in candidates:
        if kind == "name":
            answered.setdefault(draft.answer, set()).update(draft.documents)
    most = max(_FEW_DOCUMENTS, _FEW_SHARE * documents)
    return [
        candidate for candidate in candidates if candidate[1] != "name" or len(answered[candidate[2].answer]) <= most
    ]


def _drop_formulas(candidates: Iterable[DraftCandidate]) -> list[DraftCandidate]:
    """Return the candidates that a spreadsheet shows as text.

    Text that begins like a formula could be run when the file is opened.
    """
    return [candidate for candidate in candidates if not {candidate[2].question[:1], candidate[2].answer[:1]} & FORMULA]


def _list_single_drafts(read: Iterable[ParsedPassage]) -> list[DraftCandidate]:
    """Return a candidate for every question about one passage."""
    return [
        (
            question.form,
            question.kind,
            Draft(
                question.about(question.subject),
                question.answer,
                (each.passage.doc_id,),
                "single",
                (question.sentence,),
            ),
        )
        for each in read
        for question in each.questions
    ]


def _choose_drafts(candidates: Sequence[DraftCandidate], count: int, used: Counter[str]) -> list[Draft]:
    """Choose the best forms from as many documents as possible, with kinds of answers in turn.

    The documents of the chosen drafts are counted in `used`.
    """
    chosen: list[Draft] = []
    taken: set[str] = set()
    ordered = [draft for _, _, draft in _alternate_kinds(candidates)]
    for allowed in range(1, _MAX_PER_DOCUMENT + 1):
        for draft in ordered if len(chosen) < count else ():
            keys = {draft.question.casefold(), draft.source[-1]}
            keys |= {" ".join(sorted(draft.documents))} if len(draft.documents) > 1 else set()
            free = all(used[document] < allowed for document in draft.documents)
            if len(chosen) < count and free and not keys & taken:
                chosen.append(draft)
                taken |= keys
                used.update(draft.documents)
    return chosen


def _alternate_kinds(candidates: Sequence[DraftCandidate]) -> list[DraftCandidate]:
    """Sort candidates by form, and within a form alternate between the kinds of answers."""
    alternated: list[DraftCandidate] = []
    for form in sorted({form for form, _, _ in candidates}):
        of_form = [candidate for candidate in candidates if candidate[0] == form]
        kinds = sorted({kind for _, kind, _ in of_form})
        columns = [[draft for draft in of_form if draft[1] == kind] for kind in kinds]
        alternated += [draft for row in zip_longest(*columns) for draft in row if draft is not None]
    return alternated
