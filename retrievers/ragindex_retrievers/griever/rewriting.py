"""Heuristic rewriting (GRIEVER, section 4.5): entities that were found replace their mentions in the question."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from ragindex.types import Span
from ragindex_retrievers.griever.scoring import ScoredTriple

RewriteOrder: TypeAlias = Literal["triple", "entity"]


def rewrite(
    question: str,
    scored: Sequence[ScoredTriple],
    least_entity: float,
    least_predicate: float,
    most: int,
    order: RewriteOrder = "triple",
) -> str:
    """Return the question with the mention of a matched entity replaced by the other entity of the triple
    (reading V11).

    Triples are used best first (`order=triple`), or those with the best matched entity first (`order=entity`), at
    most `most` of them, if they match with a score of at least `least_entity` and their mentions do not overlap. The
    words that match the predicate with at least `least_predicate` are removed. A triple whose other entity is the
    mention itself (it states an alias) is skipped. Returns the question unchanged if there is no such triple, or if
    nothing would be left to ask.
    """
    mentions: dict[Span, str] = {}
    gone: list[Span] = []
    for one in sorted(scored, key=lambda one: (-one.entity.score if order == "entity" else 0.0, -one.score)):
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
    left = [piece for span in gone for piece in _subtract_spans(span, list(mentions))]
    return _apply_edits(question, [*mentions.items(), *((span, "") for span in _remove_overlaps(left))]) or question


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _subtract_spans(span: Span, taken: Sequence[Span]) -> list[Span]:
    """Return the pieces of a span outside the spans `taken`."""
    left = [span]
    for start, end in taken:
        left = [
            piece
            for low, high in left
            for piece in ((low, min(high, start)), (max(low, end), high))
            if piece[0] < piece[1]
        ]
    return left


def _remove_overlaps(spans: Sequence[Span]) -> list[Span]:
    """Return spans that cover the same characters without overlap."""
    apart: list[Span] = []
    for span in spans:
        apart += _subtract_spans(span, apart)
    return apart


def _apply_edits(question: str, edits: Sequence[tuple[Span, str]]) -> str:
    for (start, end), text in sorted(edits, reverse=True):
        question = question[:start] + text + question[end:]
    return " ".join(question.split())
