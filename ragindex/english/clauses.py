"""State of a clause that is being read, and pure functions that build triples from it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ragindex.english.phrases import Chunk, is_demonym
from ragindex.english.words import ADJECTIVE_ENDINGS, GROUP_NOUNS, PERSON_NOUNS, THING_NOUNS
from ragindex.types import Triple

LONGEST_PREDICATE = 9
"""Words of a predicate beyond which its object is left out of it."""

_MOST_WORDS = 13


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
    said: str = ""  # verb and first object, for phrases in front of the clause
    fronted: list[tuple[str, Chunk]] = field(default_factory=list)
    wanted: str = ""  # referent of "that" or "which", which may turn out to be the object
    apposed: bool = False
    outer: "ClauseState | None" = None

    @property
    def base(self) -> str:
        """Words before a preposition: lead, verb and direct object, which is left out if it is too long."""
        words = f"{self.lead} {self.verb} {self.object}".split()
        if len(words) > LONGEST_PREDICATE:
            words = f"{self.lead} {self.verb}".split()
        return " ".join(words)


def make_triple(subject: str, predicate: str, object: str) -> Iterator[Triple]:
    """Yield the triple, unless a part is empty, both sides are equal, or the predicate has too many words."""
    subject, predicate, object = (_clean_part(part) for part in (subject, predicate, object))
    says = subject and predicate and object and subject.casefold() != object.casefold()
    if says and len(predicate.split()) <= _MOST_WORDS:
        yield Triple(subject, predicate, object)


def _clean_part(part: str) -> str:
    return " ".join(part.split()).strip(' ,;"')


def description_triples(chunk: Chunk) -> Iterator[Triple]:
    """Yield the triples of the words before a name: "filmmaker Ridley Scott", "Scott's film Alien"."""
    noun = chunk.described.rpartition(" ")[2]
    if chunk.owner:
        yield from make_triple(chunk.owner, f"has {chunk.described}", chunk.name)
    elif noun in PERSON_NOUNS or noun in GROUP_NOUNS or noun in THING_NOUNS:
        yield from make_triple(chunk.name, "is", chunk.described)


def object_triples(
    clause: ClauseState, chunk: Chunk, predicate: str, base: str, preposition: str, quantities: bool
) -> Iterator[Triple]:
    """Yield the triples with a noun phrase as the object of `predicate`, which is `base` plus `preposition`."""
    for subject in (clause.subject, *clause.others):
        if chunk.kind == "name":
            yield from make_triple(subject, predicate, chunk.name)
        elif chunk.kind == "quantity":
            yield from _quantity_triples(subject, predicate, chunk, base, preposition, quantities)
        elif chunk.kind == "common" and chunk.owner and chunk.owner != subject:
            yield from make_triple(subject, f"{predicate} {chunk.text} of", chunk.owner)
        elif chunk.kind == "common":
            yield from _common_triples(subject, predicate, chunk)
    if chunk.kind == "name":
        yield from description_triples(chunk)


def _common_triples(subject: str, predicate: str, chunk: Chunk) -> Iterator[Triple]:
    """Yield triples of a common noun. "a Warner Bros. film" is a film, and a film of Warner Bros."""
    noun = chunk.text.rpartition(" ")[2]
    adjective = (
        noun == chunk.text and noun.endswith(ADJECTIVE_ENDINGS) and noun not in PERSON_NOUNS | GROUP_NOUNS | THING_NOUNS
    )
    if chunk.full == chunk.text or not adjective:  # "an administrative and commercial centre" is not "administrative"
        yield from make_triple(subject, predicate, chunk.text)
    for name in chunk.inner:
        head = chunk.text.partition(name)[2].strip(" -")
        if head and not is_demonym(name):
            yield from make_triple(subject, f"{predicate} {head} of", name)


def _quantity_triples(
    subject: str, predicate: str, chunk: Chunk, base: str, preposition: str, quantities: bool
) -> Iterator[Triple]:
    """Yield triples of a date or number. Unless `quantities`, the preposition or verb moves to the object."""
    if quantities:
        yield from make_triple(subject, predicate, chunk.text)
    elif preposition and base:
        yield from make_triple(subject, base, f"{preposition} {chunk.full}")
    elif predicate:
        before, _, last = predicate.rpartition(" ")
        participle = last == "born" or last.endswith("ed")
        yield from make_triple(subject, before or ("was" if participle else ""), f"{last} {chunk.full}")


def life_triples(subject: str, dates: Sequence[str], quantities: bool) -> Iterator[Triple]:
    """Yield birth and death from the dates after a person's name: "(3 May 1950 - 4 June 2000)"."""
    if len(dates) != 2:
        return
    for verb, date in zip(("was born", "died"), dates, strict=True):
        preposition = "in" if date.isdigit() else "on"
        yield from make_triple(
            subject, *((f"{verb} {preposition}", date) if quantities else (verb, f"{preposition} {date}"))
        )
