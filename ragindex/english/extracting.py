"""Extraction of entities, triples and propositions from a passage, by rules, in one pass."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import regex

from ragindex.english.coreference import find_surnames, resolve_references
from ragindex.english.mentions import Unit, split_units
from ragindex.english.phrases import find_chunks, is_demonym
from ragindex.english.sentences import MAX_TEXT_LENGTH, normalize_text, split_normalized
from ragindex.english.subjects import Subject, find_lower_case_words, find_subject
from ragindex.english.triples import ASSOCIATED, extract_triples
from ragindex.types import Triple

ALSO = "also known as"
_NAME_KINDS = frozenset(("name", "title", "subject"))
_FEWEST_LETTERS, _FEWEST_UNITS, _SHORT_LINE = 20, 5, 60
_QUANTITY_KINDS = frozenset(("date", "number"))


@dataclass(frozen=True, slots=True)
class ExtractedProposition:
    """A self-contained sentence, with resolved pronouns. `topic` is the title of its passage."""

    text: str
    topic: str
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Extraction:
    """Entities, triples and propositions of a passage, in the order of the text.

    `notes` tell the user what was not read or found, and why: the text is too long, or its letters do not mark names.
    """

    entities: tuple[str, ...]
    triples: tuple[Triple, ...]
    propositions: tuple[ExtractedProposition, ...]
    notes: tuple[str, ...] = ()


def extract(title: str, text: str, numbers_as_entities: bool = False) -> Extraction:
    """Extract the entities, triples and propositions of a passage.

    The subject or object of each triple is an entity; predicates have the words of the text. Dates and numbers are part
    of the texts of triples and propositions; with `numbers_as_entities` they are entities and objects too.
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
        named = _list_entities(parts, subject, numbers_as_entities)
        triples.update((Triple(subject.name, ALSO, alias), None) for alias in _list_aliases(parts, subject))
        for entity in named:
            entities.setdefault(entity_key(entity), entity)
        triples.update(dict.fromkeys(_collect_triples(parts, subject, named, numbers_as_entities)))
        if not _is_heading(parts):
            propositions.append(_make_proposition(parts, subject, named))
    kept = (triple for triple in triples if {entity_key(triple.subject), entity_key(triple.object)} & entities.keys())
    return Extraction(tuple(entities.values()), tuple(kept), tuple(propositions), tuple(_write_notes(text, read)))


_ARTICLE = regex.compile(r"^(?:the|an?)\s+(?=\S)")
_POSSESSIVE = regex.compile(r"'s(?![\p{L}\p{N}])")
_NOT_WORD = regex.compile(r"[^\p{L}\p{M}\p{N}]+")


def entity_key(name: str) -> str:
    """Normalize a name for comparison: case-folded words without punctuation, "'s" and leading article."""
    words = _NOT_WORD.sub(" ", _POSSESSIVE.sub("", name.casefold())).strip()
    return _ARTICLE.sub("", words) or name.casefold()


def _list_entities(parts: Sequence[Unit], subject: Subject, quantities: bool) -> list[str]:
    """Return the distinct names in a sentence; forms of the title give the title itself and the aliases used."""
    found: dict[str, str] = {}
    for unit in parts:
        if unit.kind in _NAME_KINDS or (quantities and unit.kind in _QUANTITY_KINDS):
            name = subject.name if unit.kind == "subject" else unit.text
            found.setdefault(entity_key(name), name)
    found.update((entity_key(alias), alias) for alias in _list_aliases(parts, subject))
    return list(found.values())


def _list_aliases(parts: Sequence[Unit], subject: Subject) -> list[str]:
    """Return other names of the title in a sentence: its full name, its abbreviation, its part before a comma."""
    texts = dict.fromkeys(unit.text for unit in parts if unit.kind == "subject")
    return [text for text in texts if entity_key(text) != entity_key(subject.name)]


def _collect_triples(
    parts: Sequence[Unit], subject: Subject, named: Sequence[str], quantities: bool
) -> Iterable[Triple]:
    """Return the triples of a sentence; a name without a triple is associated with the title."""
    whole = [unit._replace(text=subject.name) if unit.kind == "subject" else unit for unit in parts]
    found = extract_triples(find_chunks(whole), subject.name, subject.kind == "person", quantities)
    tied = {entity_key(side) for triple in found for side in (triple.subject, triple.object)}
    apart = {subject.name, *_list_aliases(parts, subject)}
    loose = [name for name in named if entity_key(name) not in tied and name not in apart and not is_demonym(name)]
    return [*found, *(Triple(subject.name, ASSOCIATED, name) for name in loose if subject.name)]


def _is_heading(parts: Sequence[Unit]) -> bool:
    """Return whether a sentence is a heading: a few words without a final mark."""
    words = sum(len(unit.text) for unit in parts)
    return len(parts) < _FEWEST_UNITS and words < _SHORT_LINE and parts[-1].kind != "mark"


def _make_proposition(parts: Sequence[Unit], subject: Subject, named: Sequence[str]) -> ExtractedProposition:
    text = "".join(unit.space + unit.text for unit in parts).strip()
    about = any(unit.kind == "subject" for unit in parts)
    if about or not subject.name:
        return ExtractedProposition(text, subject.name, tuple(named))
    return ExtractedProposition(f"{subject.name}: {text}", subject.name, (subject.name, *named))


# ---------------------------------------------------------------- what was not read


def _write_notes(text: str, read: str) -> Iterable[str]:
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
