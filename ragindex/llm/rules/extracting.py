"""Entities, triples and propositions of a passage from one pass, by rules."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import regex

from ragindex.llm.rules.coreference import find_surnames, resolve_references
from ragindex.llm.rules.mentions import Unit, split_units
from ragindex.llm.rules.phrases import find_chunks, is_demonym
from ragindex.llm.rules.sentences import MAX_TEXT_LENGTH, normalize_text, split_normalized
from ragindex.llm.rules.subjects import Subject, find_lower_case_words, find_subject
from ragindex.llm.rules.triples import ASSOCIATED, extract_triples
from ragindex.types import Triple

ALSO = "also known as"
_NAMED = frozenset(("name", "title", "subject"))
_FEWEST_LETTERS, _FEWEST_UNITS, _SHORT_LINE = 20, 5, 60
_QUANTITY = frozenset(("date", "number"))


@dataclass(frozen=True, slots=True)
class ExtractedProposition:
    """A sentence that can stand alone: pronouns are resolved; `topic` is the title of the passage it is from."""

    text: str
    topic: str
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Extraction:
    """What the rules find in a passage, each in the order of the text.

    `notes` say what was not read, and why little was found: a text that is too long, or whose letters show no names.
    """

    entities: tuple[str, ...]
    triples: tuple[Triple, ...]
    propositions: tuple[ExtractedProposition, ...]
    notes: tuple[str, ...] = ()


def extract(title: str, text: str, numbers_as_entities: bool = False) -> Extraction:
    """The entities, triples and propositions of a passage.

    A triple has at least one entity; its predicate is in the words of the text. Dates and numbers are in the texts of
    triples and propositions; `numbers_as_entities` makes them entities and objects too.
    """
    read = normalize_text(text)
    sentences = split_normalized(read)
    subject = find_subject(title, sentences)
    known = find_lower_case_words(read)
    entities: dict[str, str] = {entity_key(subject.name): subject.name} if subject.name else {}
    triples: dict[Triple, None] = {}
    propositions: list[ExtractedProposition] = []
    person = ""
    cut = [split_units(sentence, known, subject.forms) for sentence in sentences]
    people = find_surnames(cut, subject)
    for one in cut:
        parts, person = resolve_references(one, subject, person, people)
        named = _entities(parts, subject, numbers_as_entities)
        triples.update((Triple(subject.name, ALSO, alias), None) for alias in _aliases(parts, subject))
        for entity in named:
            entities.setdefault(entity_key(entity), entity)
        triples.update(dict.fromkeys(_triples(parts, subject, named, numbers_as_entities)))
        if not _heading(parts):
            propositions.append(_proposition(parts, subject, named))
    kept = (triple for triple in triples if {entity_key(triple.subject), entity_key(triple.object)} & entities.keys())
    return Extraction(tuple(entities.values()), tuple(kept), tuple(propositions), tuple(_notes(text, read)))


_ARTICLE = regex.compile(r"^(?:the|an?)\s+(?=\S)")
_POSSESSIVE = regex.compile(r"'s(?![\p{L}\p{N}])")
_NOT_WORD = regex.compile(r"[^\p{L}\p{M}\p{N}]+")


def entity_key(name: str) -> str:
    """What two names of one entity have in common: words in folded case, without punctuation and a leading article."""
    words = _NOT_WORD.sub(" ", _POSSESSIVE.sub("", name.casefold())).strip()
    return _ARTICLE.sub("", words) or name.casefold()


def _entities(parts: Sequence[Unit], subject: Subject, quantities: bool) -> list[str]:
    """The names of a sentence, the title by its own, each once."""
    found: dict[str, str] = {}
    for unit in parts:
        if unit.kind in _NAMED or (quantities and unit.kind in _QUANTITY):
            name = subject.name if unit.kind == "subject" else unit.text
            found.setdefault(entity_key(name), name)
    found.update((entity_key(alias), alias) for alias in _aliases(parts, subject))
    return list(found.values())


def _aliases(parts: Sequence[Unit], subject: Subject) -> list[str]:
    """What a sentence calls the title beside its own name: its full name, its abbreviation, its part before a comma."""
    texts = dict.fromkeys(unit.text for unit in parts if unit.kind == "subject")
    return [text for text in texts if entity_key(text) != entity_key(subject.name)]


def _triples(parts: Sequence[Unit], subject: Subject, named: Sequence[str], quantities: bool) -> Iterable[Triple]:
    """The triples of a sentence; a name that no pattern ties is tied to the title."""
    whole = [unit._replace(text=subject.name) if unit.kind == "subject" else unit for unit in parts]
    found = extract_triples(find_chunks(whole), subject.name, subject.kind == "person", quantities)
    tied = {entity_key(side) for triple in found for side in (triple.subject, triple.object)}
    apart = {subject.name, *_aliases(parts, subject)}
    loose = [name for name in named if entity_key(name) not in tied and name not in apart and not is_demonym(name)]
    return [*found, *(Triple(subject.name, ASSOCIATED, name) for name in loose if subject.name)]


def _heading(parts: Sequence[Unit]) -> bool:
    """Whether a line of a few words, which no mark ends, says nothing by itself."""
    words = sum(len(unit.text) for unit in parts)
    return len(parts) < _FEWEST_UNITS and words < _SHORT_LINE and parts[-1].kind != "mark"


def _proposition(parts: Sequence[Unit], subject: Subject, named: Sequence[str]) -> ExtractedProposition:
    text = "".join(unit.space + unit.text for unit in parts).strip()
    about = any(unit.kind == "subject" for unit in parts)
    if about or not subject.name:
        return ExtractedProposition(text, subject.name, tuple(named))
    return ExtractedProposition(f"{subject.name}: {text}", subject.name, (subject.name, *named))


# ---------------------------------------------------------------- what was not read


def _notes(text: str, read: str) -> Iterable[str]:
    if len(text) > MAX_TEXT_LENGTH:
        yield f"Only the first {MAX_TEXT_LENGTH:,} of {len(text):,} characters were read."
    letters = sum(map(str.isalpha, read))
    capitals = sum(map(str.isupper, read))
    small = sum(map(str.islower, read))
    if letters < _FEWEST_LETTERS:
        return
    if (capitals + small) * 2 < letters:
        yield "The text is in a script without capitals: only its title, quoted titles, dates and numbers are found."
    elif not capitals:
        yield "The text has no capitals: only its title, quoted titles, dates and numbers are found."
    elif capitals * 3 > (capitals + small) * 2:
        yield "The text is in capitals: only its title, quoted titles, dates and numbers are found."
