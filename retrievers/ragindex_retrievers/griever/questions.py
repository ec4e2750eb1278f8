"""What is done to the text of a question: it is split into sub-queries (section 4.2.1), and rewritten (section 4.5)."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import regex

from ragindex.types import Span
from ragindex_retrievers.griever.matching import ScoredTriple

CONNECTORS = ("who", "whom", "whose", "which", "that", "where", "when")
"""English connectors. The paper shows `where` and `who`, and gives no list (reading V3)."""

_FEWEST_WORDS = 2
_WORD = regex.compile(r"\w+")


def split_question(question: str, connectors: Sequence[str], *, whole: bool, most: int) -> list[str]:
    """Return at most `most` sub-queries: the question if `whole`, and the text from each connector to the end.

    A connector stays in its clause and matches in any case. The first word never splits, and a rest of one word
    is no clause. A question without clauses is its own sub-query.
    """
    wanted = {connector.casefold() for connector in connectors}
    words = list(_WORD.finditer(question))
    starts = [
        word.start()
        for place, word in enumerate(words)
        if 0 < place <= len(words) - _FEWEST_WORDS and word[0].casefold() in wanted
    ]
    clauses = [question[start:].strip() for start in starts]
    return ([question, *clauses] if whole or not clauses else clauses)[:most]


# ---------------------------------------------------------------- rewriting


_LEAST_PREDICATE = 0.5
"""Score from which a predicate counts as matched in rewriting."""
RewriteOrder: TypeAlias = Literal["triple", "entity"]


def rewrite(
    question: str,
    scored: Sequence[ScoredTriple],
    least_entity: float,
    most: int,
    order: RewriteOrder = "triple",
) -> str:
    """Return the question with the mention of a matched entity replaced by the other entity of the triple
    (reading V11).

    Triples are used best first (`order=triple`), or those with the best matched entity first (`order=entity`), at
    most `most` of them, if they match with a score of at least `least_entity` and their mentions do not overlap. The
    words that match the predicate with at least 0.5 are removed. A triple whose other entity is the
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
        if one.predicate.span is not None and one.predicate.score >= _LEAST_PREDICATE:
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
