"""Heuristic rewriting (GRIEVER, section 4.5): what was found takes the place of what the question named."""

from collections.abc import Sequence

from ragindex_retrievers.griever.matching import Span
from ragindex_retrievers.griever.scoring import ScoredTriple


def rewrite(
    question: str, scored: Sequence[ScoredTriple], least_entity: float, least_predicate: float, most: int
) -> str:
    """The question with the mention of a matched entity replaced by the other entity of its triple.

    The best triples come first, `most` of them with mentions that do not overlap, each with a match of at least
    `least_entity`; the words that match its predicate by at least `least_predicate` go (reading V11). Unchanged where
    there is no such triple, or nothing would be left to ask. A triple whose other entity is the mention itself (an
    alias stated) says nothing new.
    """
    mentions: dict[Span, str] = {}
    gone: list[Span] = []
    for one in sorted(scored, key=lambda one: -one.score):
        if len(mentions) == most:
            break
        mention = one.entity.span
        if mention is None or one.entity.score < least_entity or any(_overlap(mention, span) for span in mentions):
            continue
        if one.other_name.casefold() == question[slice(*mention)].casefold():
            continue
        mentions[mention] = one.other_name
        if one.predicate.span is not None and one.predicate.score >= least_predicate:
            gone.append(one.predicate.span)
    left = [piece for span in gone for piece in _without(span, list(mentions))]
    return _edited(question, [*mentions.items(), *((span, "") for span in _apart(left))]) or question


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _without(span: Span, taken: Sequence[Span]) -> list[Span]:
    """What is left of a span outside those that are taken."""
    left = [span]
    for start, end in taken:
        left = [
            piece
            for low, high in left
            for piece in ((low, min(high, start)), (max(low, end), high))
            if piece[0] < piece[1]
        ]
    return left


def _apart(spans: Sequence[Span]) -> list[Span]:
    """The same characters, none twice."""
    apart: list[Span] = []
    for span in spans:
        apart += _without(span, apart)
    return apart


def _edited(question: str, edits: Sequence[tuple[Span, str]]) -> str:
    for (start, end), text in sorted(edits, reverse=True):
        question = question[:start] + text + question[end:]
    return " ".join(question.split())
