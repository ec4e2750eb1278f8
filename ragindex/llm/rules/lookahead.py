"""What stands ahead in a sentence of chunks: each looks a bounded number of chunks far."""

from collections.abc import Sequence

from ragindex.llm.rules.phrases import PHRASES, Chunk
from ragindex.llm.rules.words import ONLY_PARTICIPLES

_A_CLAUSE, _A_LIST, _A_SUBJECT = 8, 40, 12
_WITHIN = PHRASES | {"preposition", "adverb", "open", "close"}


def kind_at(chunks: Sequence[Chunk], position: int) -> str:
    """The kind of the chunk there; beyond the end it is "stop"."""
    return chunks[position].kind if position < len(chunks) else "stop"


def clause_follows(chunks: Sequence[Chunk], position: int) -> bool:
    """Whether a noun phrase with its prepositions, and then a verb of its own, stand at `position`."""
    for place in range(position, min(len(chunks), position + _A_CLAUSE)):
        chunk = chunks[place]
        if chunk.kind == "verb":
            return place > position and not chunk.text.startswith("to ") and not _participle(chunks, place)
        if chunk.kind not in _WITHIN:
            return False
    return False


def _participle(chunks: Sequence[Chunk], place: int) -> bool:
    verb = chunks[place]
    by = place + 1 < len(chunks) and chunks[place + 1].text == "by"
    return verb.bare and (by or verb.text.endswith("ing") or verb.text.split()[-1] in ONLY_PARTICIPLES)


def is_reduced_clause(chunks: Sequence[Chunk], position: int) -> bool:
    """Whether the verb before `position` describes a noun, "the film directed by Scott", and another one follows."""
    verb = chunks[position - 1]
    by = position < len(chunks) and chunks[position].text == "by"
    ahead = chunks[position : position + _A_LIST]
    return verb.bare and (by or verb.text.endswith("ing")) and any(later.kind == "verb" for later in ahead)


def list_continues(chunks: Sequence[Chunk], position: int) -> bool:
    """Whether "and" and a phrase follow, after more phrases perhaps: what stands before is an item of a list."""
    for place in range(position, position + _A_LIST):
        kind = kind_at(chunks, place)
        if kind == "and":
            return kind_at(chunks, place + 1) in PHRASES
        if kind not in PHRASES and kind != "comma":
            return False
    return False


def of_follows(chunks: Sequence[Chunk], position: int) -> bool:
    """Whether "of" and a noun phrase stand at `position`."""
    return position < len(chunks) and chunks[position].text == "of" and kind_at(chunks, position + 1) in PHRASES


def find_main_subject(chunks: Sequence[Chunk], position: int, title: str) -> str:
    """The subject of the main clause after a participle that opens the sentence: "Born in Paris, Smith …"."""
    after_comma = False
    for chunk in chunks[position : position + _A_SUBJECT]:
        if after_comma and chunk.kind in PHRASES:
            return chunk.name or (title if chunk.definite else chunk.text)
        after_comma = chunk.kind == "comma"
    return title


def read_brackets(chunks: Sequence[Chunk], position: int) -> tuple[Sequence[Chunk], int]:
    """The chunks up to the bracket that closes the one before `position`, and where reading goes on."""
    start, depth = position, 1
    while position < len(chunks) and depth:
        depth += {"open": 1, "close": -1}.get(chunks[position].kind, 0)
        position += 1
    return chunks[start : position if depth else position - 1], position
