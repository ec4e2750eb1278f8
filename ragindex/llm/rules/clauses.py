"""What has been read of a clause, and the triples that an object makes with it: pure functions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ragindex.llm.rules.phrases import Chunk, is_demonym
from ragindex.llm.rules.words import ADJECTIVE_ENDINGS, GROUP_NOUNS, PERSON_NOUNS, THING_NOUNS
from ragindex.types import Triple

LONGEST_PREDICATE = 9
"""Words of a predicate beyond which its object is left out of it."""

_MOST_WORDS = 13


@dataclass(slots=True)
class ClauseState:
    """The words of a clause as far as it was read."""

    subject: str = ""
    others: list[str] = field(default_factory=list)  # subjects joined to the first by "and"
    lead: str = ""  # "current editor", where the subject is what that belongs to
    opened: bool = False  # a subject was read, known or not
    verb: str = ""
    copula: bool = False
    object: str = ""  # the direct object, which a later preposition goes on from
    chain: str = ""  # "on the banks", where "of" goes on from it
    preposition: str = ""  # the one that waits for its noun phrase
    predicate: str = ""  # of the last triple, for the next item of a list
    said: str = ""  # verb and first object, for what stood in front
    fronted: list[tuple[str, Chunk]] = field(default_factory=list)
    wanted: str = ""  # what "that" or "which" stands for, until it turns out to be the object
    apposed: bool = False
    outer: "ClauseState | None" = None

    @property
    def base(self) -> str:
        """The words before a preposition: lead, verb and direct object, which is left out where it is long."""
        words = f"{self.lead} {self.verb} {self.object}".split()
        if len(words) > LONGEST_PREDICATE:
            words = f"{self.lead} {self.verb}".split()
        return " ".join(words)


def make_triple(subject: str, predicate: str, object: str) -> Iterator[Triple]:
    """The triple; nothing where a part is missing, where it says nothing, or where its predicate runs on."""
    subject, predicate, object = (_clean(part) for part in (subject, predicate, object))
    says = subject and predicate and object and subject.casefold() != object.casefold()
    if says and len(predicate.split()) <= _MOST_WORDS:
        yield Triple(subject, predicate, object)


def _clean(part: str) -> str:
    return " ".join(part.split()).strip(' ,;"')


def description_triples(chunk: Chunk) -> Iterator[Triple]:
    """What the words before a name say of it: "filmmaker Ridley Scott", "Scott's film Alien"."""
    noun = chunk.described.rpartition(" ")[2]
    if chunk.owner:
        yield from make_triple(chunk.owner, f"has {chunk.described}", chunk.name)
    elif noun in PERSON_NOUNS or noun in GROUP_NOUNS or noun in THING_NOUNS:
        yield from make_triple(chunk.name, "is", chunk.described)


def object_triples(
    clause: ClauseState, chunk: Chunk, predicate: str, base: str, preposition: str, quantities: bool
) -> Iterator[Triple]:
    """The triples that a noun phrase makes as the object of `predicate`, which is `base` and `preposition`."""
    for subject in (clause.subject, *clause.others):
        if chunk.kind == "name":
            yield from make_triple(subject, predicate, chunk.name)
        elif chunk.kind == "quantity":
            yield from _quantity(subject, predicate, chunk, base, preposition, quantities)
        elif chunk.kind == "common" and chunk.owner and chunk.owner != subject:
            yield from make_triple(subject, f"{predicate} {chunk.text} of", chunk.owner)
        elif chunk.kind == "common":
            yield from _common(subject, predicate, chunk)
    if chunk.kind == "name":
        yield from description_triples(chunk)


def _common(subject: str, predicate: str, chunk: Chunk) -> Iterator[Triple]:
    """ "a Warner Bros. film": it is a film, and of Warner Bros."""
    noun = chunk.text.rpartition(" ")[2]
    adjective = (
        noun == chunk.text and noun.endswith(ADJECTIVE_ENDINGS) and noun not in PERSON_NOUNS | GROUP_NOUNS | THING_NOUNS
    )
    if chunk.full == chunk.text or not adjective:  # "an administrative and commercial centre" is no administrative
        yield from make_triple(subject, predicate, chunk.text)
    for name in chunk.inner:
        head = chunk.text.partition(name)[2].strip(" -")
        if head and not is_demonym(name):
            yield from make_triple(subject, f"{predicate} {head} of", name)


def _quantity(
    subject: str, predicate: str, chunk: Chunk, base: str, preposition: str, quantities: bool
) -> Iterator[Triple]:
    """A date or a number is no object by itself: the preposition, or the last word of the predicate, goes along."""
    if quantities:
        yield from make_triple(subject, predicate, chunk.text)
    elif preposition and base:
        yield from make_triple(subject, base, f"{preposition} {chunk.full}")
    elif predicate:
        before, _, last = predicate.rpartition(" ")
        participle = last == "born" or last.endswith("ed")
        yield from make_triple(subject, before or ("was" if participle else ""), f"{last} {chunk.full}")


def life_triples(subject: str, dates: Sequence[str], quantities: bool) -> Iterator[Triple]:
    """ "(3 May 1950 - 4 June 2000)" behind a person's name."""
    if len(dates) != 2:
        return
    for verb, date in zip(("was born", "died"), dates, strict=True):
        preposition = "in" if date.isdigit() else "on"
        yield from make_triple(
            subject, *((f"{verb} {preposition}", date) if quantities else (verb, f"{preposition} {date}"))
        )
