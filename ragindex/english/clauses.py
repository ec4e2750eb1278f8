"""A clause that is being read: its state, the triples of its noun phrases, and lookahead over its next chunks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ragindex.english.phrases import PHRASES, Chunk, is_demonym
from ragindex.english.words import ADJECTIVE_ENDINGS, GROUP_NOUNS, ONLY_PARTICIPLES, PERSON_NOUNS, THING_NOUNS
from ragindex.types import Triple

LONGEST_PREDICATE = 9
"""Words of a predicate beyond which its object is left out of it."""

_MOST_WORDS = 13  # of a predicate
_MAX_CLAUSE, _MAX_LIST, _MAX_SUBJECT = 8, 40, 12  # chunks that are looked ahead
_TITLE_NOUNS = PERSON_NOUNS | GROUP_NOUNS | THING_NOUNS
_SUBJECT_KINDS = PHRASES | {"preposition", "adverb", "open", "close"}


@dataclass(slots=True)
class ClauseState:
    """State of a clause: the parts that have been read so far."""

    subject: str = ""
    others: list[str] = field(default_factory=list)  # subjects joined to the first by "and"
    lead: str = ""  # "current editor", if the subject is what the editor belongs to
    opened: bool = False  # whether a subject was read, even if it is unknown
    verb: str = ""
    copula: bool = False
    object: str = ""  # the direct object, which a later preposition continues
    chain: str = ""  # "on the banks", if "of" continues it
    preposition: str = ""  # the preposition whose noun phrase has not been read yet
    predicate: str = ""  # predicate of the last triple, for the next item of a list
    phrase: str = ""  # verb and first object, for phrases in front of the clause
    fronted: list[tuple[str, Chunk]] = field(default_factory=list)
    referent: str = ""  # referent of "that" or "which", which may turn out to be the object
    apposed: bool = False
    outer: "ClauseState | None" = None

    @property
    def base(self) -> str:
        """Words before a preposition: lead, verb and direct object, which is left out if it is too long."""
        words = f"{self.lead} {self.verb} {self.object}".split()
        if len(words) > LONGEST_PREDICATE:
            words = f"{self.lead} {self.verb}".split()
        return " ".join(words)


# ---------------------------------------------------------------- triples


def make_triple(subject: str, predicate: str, object: str) -> Iterator[Triple]:
    """Yield the triple, unless a part is empty, both sides are equal, or the predicate has too many words."""
    subject, predicate, object = (" ".join(part.split()).strip(' ,;"') for part in (subject, predicate, object))
    differ = subject and object and subject.casefold() != object.casefold()
    if differ and predicate and len(predicate.split()) <= _MOST_WORDS:
        yield Triple(subject, predicate, object)


def describe_name(chunk: Chunk) -> Iterator[Triple]:
    """Yield the triples of the words before a name: "filmmaker Ridley Scott", "Scott's film Alien"."""
    noun = chunk.described.rpartition(" ")[2]
    if chunk.owner:
        yield from make_triple(chunk.owner, f"has {chunk.described}", chunk.name)
    elif noun in _TITLE_NOUNS:
        yield from make_triple(chunk.name, "is", chunk.described)


def object_triples(
    subject: str, chunk: Chunk, predicate: str, base: str, preposition: str, quantities: bool
) -> Iterator[Triple]:
    """Yield the triples with a noun phrase as the object of `predicate`, which is `base` plus `preposition`."""
    if chunk.kind == "name":
        yield from make_triple(subject, predicate, chunk.name)
    elif chunk.kind == "quantity" and quantities:
        yield from make_triple(subject, predicate, chunk.text)
    elif chunk.kind == "quantity" and preposition and base:
        yield from make_triple(subject, base, f"{preposition} {chunk.full}")
    elif chunk.kind == "quantity":
        before, _, last = predicate.rpartition(" ")
        participle = last == "born" or last.endswith("ed")
        yield from make_triple(subject, before or ("was" if participle else ""), f"{last} {chunk.full}")
    elif chunk.kind == "common" and chunk.owner and chunk.owner != subject:
        yield from make_triple(subject, f"{predicate} {chunk.text} of", chunk.owner)
    elif chunk.kind == "common":
        yield from _common_triples(subject, predicate, chunk)


def _common_triples(subject: str, predicate: str, chunk: Chunk) -> Iterator[Triple]:
    """Yield triples of a common noun. "a Warner Bros. film" is a film, and a film of Warner Bros."""
    noun = chunk.text
    adjective = " " not in noun and noun.endswith(ADJECTIVE_ENDINGS) and noun not in _TITLE_NOUNS
    if chunk.full == noun or not adjective:  # "an administrative and commercial centre" is not "administrative"
        yield from make_triple(subject, predicate, noun)
    for name in chunk.inner:
        head = noun.partition(name)[2].strip(" -")
        if not is_demonym(name):
            yield from make_triple(subject, f"{predicate} {head} of", name)


def life_triples(subject: str, dates: Sequence[str], quantities: bool) -> Iterator[Triple]:
    """Yield birth and death from the dates after a person's name: "(3 May 1950 - 4 June 2000)"."""
    if len(dates) != 2:
        return
    for verb, date in zip(("was born", "died"), dates, strict=True):
        preposition = "in" if date.isdigit() else "on"
        yield from make_triple(
            subject, *((f"{verb} {preposition}", date) if quantities else (verb, f"{preposition} {date}"))
        )


# ---------------------------------------------------------------- lookahead


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
