"""Lookahead in the chunks of a sentence, over a bounded number of chunks (except `read_brackets`)."""

from collections.abc import Sequence

from ragindex.english.phrases import PHRASES, Chunk
from ragindex.english.words import ONLY_PARTICIPLES

_MAX_CLAUSE, _MAX_LIST, _MAX_SUBJECT = 8, 40, 12
_SUBJECT_KINDS = PHRASES | {"preposition", "adverb", "open", "close"}


def kind_at(chunks: Sequence[Chunk], position: int) -> str:
    """Return the kind of the chunk at `position`, or "stop" beyond the end."""
    return chunks[position].kind if position < len(chunks) else "stop"


def clause_follows(chunks: Sequence[Chunk], position: int) -> bool:
    """Return whether a noun phrase, with its prepositional phrases, and a finite verb begin at `position`."""
    for place in range(position, min(len(chunks), position + _MAX_CLAUSE)):
        chunk = chunks[place]
        if chunk.kind == "verb":
            return place > position and not chunk.text.startswith("to ") and not _is_participle(chunks, place)
        if chunk.kind not in _SUBJECT_KINDS:
            return False
    return False


def _is_participle(chunks: Sequence[Chunk], place: int) -> bool:
    verb = chunks[place]
    by = place + 1 < len(chunks) and chunks[place + 1].text == "by"
    return verb.bare and (by or verb.text.endswith("ing") or verb.text.split()[-1] in ONLY_PARTICIPLES)


def is_reduced_clause(chunks: Sequence[Chunk], position: int) -> bool:
    """Return whether the verb before `position` describes a noun ("the film directed by Scott") and a verb follows."""
    verb = chunks[position - 1]
    by = position < len(chunks) and chunks[position].text == "by"
    ahead = chunks[position : position + _MAX_LIST]
    return verb.bare and (by or verb.text.endswith("ing")) and any(later.kind == "verb" for later in ahead)


def list_continues(chunks: Sequence[Chunk], position: int) -> bool:
    """Return whether a list continues at `position`: "and" and a phrase follow, possibly after more phrases."""
    for place in range(position, position + _MAX_LIST):
        kind = kind_at(chunks, place)
        if kind == "and":
            return kind_at(chunks, place + 1) in PHRASES
        if kind not in PHRASES and kind != "comma":
            return False
    return False


def of_follows(chunks: Sequence[Chunk], position: int) -> bool:
    """Return whether "of" and a noun phrase begin at `position`."""
    return position < len(chunks) and chunks[position].text == "of" and kind_at(chunks, position + 1) in PHRASES


def find_main_subject(chunks: Sequence[Chunk], position: int, title: str) -> str:
    """Return the subject of the main clause after an initial participle ("Born in Paris, Smith …"), else `title`."""
    after_comma = False
    for chunk in chunks[position : position + _MAX_SUBJECT]:
        if after_comma and chunk.kind in PHRASES:
            return chunk.name or (title if chunk.definite else chunk.text)
        after_comma = chunk.kind == "comma"
    return title


def read_brackets(chunks: Sequence[Chunk], position: int) -> tuple[Sequence[Chunk], int]:
    """Return the chunks up to the bracket that closes the one before `position`, and the position after it."""
    start, depth = position, 1
    while position < len(chunks) and depth:
        depth += {"open": 1, "close": -1}.get(chunks[position].kind, 0)
        position += 1
    return chunks[start : position if depth else position - 1], position
