"""Relative-clause splitting (GRIEVER, section 4.2.1): each clause of a question may need a passage of its own."""

from collections.abc import Sequence

import regex

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
