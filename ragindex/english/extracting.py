"""Extraction of entities, triples and propositions from a passage, by rules, in one pass."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import regex

from ragindex.english.coreference import Subject, find_subject, find_surnames, resolve_references
from ragindex.english.mentions import Unit, split_units
from ragindex.english.phrases import find_chunks, is_demonym
from ragindex.english.sentences import MAX_TEXT_LENGTH, normalize_text, split_normalized
from ragindex.english.triples import ASSOCIATED, extract_triples
from ragindex.types import Triple

ALSO = "also known as"
_NAME_KINDS = frozenset(("name", "title", "subject"))
_QUANTITY_KINDS = frozenset(("date", "number"))
_FEWEST_LETTERS, _FEWEST_UNITS, _SHORT_LINE = 20, 5, 60
_LOWER_CASE_WORD = regex.compile(r"(?<![\p{L}\p{N}'-])\p{Ll}[\p{Ll}\p{M}]+(?![\p{L}\p{N}])")


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

    >>> extract("Salt", "Salt is a film by Ada Lund.").triples[1]
    Triple(subject='Salt', predicate='is a film by', object='Ada Lund')
    """
    read = normalize_text(text)
    sentences = split_normalized(read)
    subject = find_subject(title, sentences)
    known_words = frozenset(_LOWER_CASE_WORD.findall(read))  # no names even at the start of a sentence
    units = [split_units(sentence, known_words, subject.forms) for sentence in sentences]
    people = find_surnames(units, subject)
    entities: dict[str, str] = {entity_key(subject.name): subject.name} if subject.name else {}
    triples: dict[Triple, None] = {}
    propositions: list[ExtractedProposition] = []
    person = ""
    for sentence in units:
        resolved, person = resolve_references(sentence, subject, person, people)
        # other names of the title: its full name, its abbreviation, its part before a comma
        texts = dict.fromkeys(unit.text for unit in resolved if unit.kind == "subject")
        aliases = [text for text in texts if entity_key(text) != entity_key(subject.name)]
        names = _list_names(resolved, subject, aliases, numbers_as_entities)
        for name in names:
            entities.setdefault(entity_key(name), name)
        triples.update((Triple(subject.name, ALSO, alias), None) for alias in aliases)
        triples.update(dict.fromkeys(_list_triples(resolved, subject, aliases, names, numbers_as_entities)))
        length = sum(len(unit.text) for unit in resolved)
        heading = len(resolved) < _FEWEST_UNITS and length < _SHORT_LINE and resolved[-1].kind != "mark"
        if not heading:
            propositions.append(_make_proposition(resolved, subject, names))
    title_triples = [
        triple for triple in triples if {entity_key(triple.subject), entity_key(triple.object)} & entities.keys()
    ]
    return Extraction(
        tuple(entities.values()), tuple(title_triples), tuple(propositions), tuple(_write_notes(text, read))
    )


_ARTICLE = regex.compile(r"^(?:the|an?)\s+(?=\S)")
_POSSESSIVE = regex.compile(r"'s(?![\p{L}\p{N}])")
_NOT_WORD = regex.compile(r"[^\p{L}\p{M}\p{N}]+")


def entity_key(name: str) -> str:
    """Normalize a name for comparison: case-folded words without punctuation, "'s" and leading article."""
    words = _NOT_WORD.sub(" ", _POSSESSIVE.sub("", name.casefold())).strip()
    return _ARTICLE.sub("", words) or name.casefold()


def _list_names(units: Sequence[Unit], subject: Subject, aliases: Sequence[str], quantities: bool) -> list[str]:
    """Return the distinct names in a sentence; forms of the title give the title itself and the aliases used."""
    names: dict[str, str] = {}
    for unit in units:
        if unit.kind in _NAME_KINDS or (quantities and unit.kind in _QUANTITY_KINDS):
            name = subject.name if unit.kind == "subject" else unit.text
            names.setdefault(entity_key(name), name)
    names.update((entity_key(alias), alias) for alias in aliases)
    return list(names.values())


def _list_triples(
    units: Sequence[Unit], subject: Subject, aliases: Sequence[str], names: Sequence[str], quantities: bool
) -> list[Triple]:
    """Return the triples of a sentence; a name without a triple is associated with the title."""
    units = [unit._replace(text=subject.name) if unit.kind == "subject" else unit for unit in units]
    triples = extract_triples(find_chunks(units), subject.name, subject.kind == "person", quantities)
    if not subject.name:
        return triples
    tied = {entity_key(side) for triple in triples for side in (triple.subject, triple.object)}
    loose = [name for name in names if entity_key(name) not in tied and name not in (subject.name, *aliases)]
    return [*triples, *(Triple(subject.name, ASSOCIATED, name) for name in loose if not is_demonym(name))]


def _make_proposition(units: Sequence[Unit], subject: Subject, names: Sequence[str]) -> ExtractedProposition:
    text = "".join(unit.space + unit.text for unit in units).strip()
    if not subject.name or any(unit.kind == "subject" for unit in units):
        return ExtractedProposition(text, subject.name, tuple(names))
    return ExtractedProposition(f"{subject.name}: {text}", subject.name, (subject.name, *names))


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
