"""Questions over two passages: a name that few documents share is the unknown that leads from one to the other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, permutations

import regex

from ragindex.progress import progress_bar
from ragindex.types import Passage
from ragindex_eval.data.drafting.reading import Draft, DraftCandidate, ParsedPassage, make_gaps, parse_passage
from ragindex_eval.data.drafting.rules import (
    IN_PLACE,
    LOOSE,
    NAME_ENDS,
    ClauseQuestion,
    capital,
    fair,
    split_words,
    tail_of,
    tells,
)
from ragindex_eval.data.drafting.subjects import Clause, runs_on
from ragindex_eval.data.drafting.text import NAME, list_mentions

_SHARED = range(2, 6)  # how many documents may name what links two of them
_MOST_NAMES, _OF_A_NAME = 5_000, 20  # names that are followed, and what one passage says of a name
_STATEMENT = 26  # words of what is said of the unknown
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")


def link_passages(
    passages: Sequence[Passage], read: Sequence[ParsedPassage], english: bool, enough: int
) -> list[DraftCandidate]:
    """Questions over two documents, linked by a name that only a few documents hold; about `enough` of them."""
    close = {each.passage.id: each for each in read}
    found: list[DraftCandidate] = []
    shared = [held for held in _naming(passages, _names(read)).items() if len(held[1]) in _SHARED]
    for name, documents in shared[:_MOST_NAMES]:
        held = [passages[number] for number in documents.values()]
        for passage in held:
            close.setdefault(passage.id, parse_passage(passage, english))
        pairs = permutations([close[passage.id] for passage in held], 2)
        found += _best([made for pair in pairs for made in _pairs(name, *pair)])
        if len(found) >= enough:
            break
    return found


def _best(candidates: Sequence[DraftCandidate]) -> list[DraftCandidate]:
    """One for each two documents, in one direction, the best form first; a name is used twice at most."""
    found: dict[frozenset[str], DraftCandidate] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate[0]):
        found.setdefault(frozenset(candidate[2].documents), candidate)
    return list(found.values())[:2]


def _names(read: Iterable[ParsedPassage]) -> list[str]:
    """What clauses are about and what they mention, where a name has several words, is quoted, or is a title."""
    found: dict[str, None] = {}
    for each in read:
        subjects = {_bare(one.subject): one.topic.title for one in each.clauses if one.known}
        found |= {name: None for name, title in subjects.items() if " " in name or name == title}
        texts = (*(one.rest for one in each.clauses), *each.sentences)
        named = (mention for text in texts for mention in list_mentions(text) if mention.kind == "name")
        found |= {one.text: None for one in named if one.quoted or (" " in one.text and one.start)}
    return [name for name in found if name != name.lower() or not name.isascii() if len(_words(name)) in range(1, 9)]


def _pairs(name: str, first: ParsedPassage, second: ParsedPassage) -> list[DraftCandidate]:
    """Questions that go from the first passage through `name` to the second, where neither says it all."""
    if first.passage.doc_id == second.passage.doc_id or first.passage.title == second.passage.title:
        return []
    found: list[DraftCandidate] = []
    unknown = next((letter for letter in "XYZ" if letter not in _words(first.passage.text)), "?")
    facts = list(islice(_facts(name, unknown, second), _OF_A_NAME))
    for said, subject, sentence in islice(_sayings(name, unknown, first), _OF_A_NAME if facts else 0):
        if subject and subject in second.passage.text:
            continue
        for fact in facts:
            asked = fact.about(unknown)
            told = tells(f"{said} {asked}", name) or tells(said, fact.answer) or fact.answer in first.passage.text
            if not told and not _repeats(said, asked) and _same_place(name, (sentence, fact.sentence)):
                documents = (first.passage.doc_id, second.passage.doc_id)
                draft = Draft(f"{said} {asked}", fact.answer, documents, "two", (sentence, fact.sentence))
                found.append((fact.form, fact.kind, draft))
    return found


def _sayings(name: str, unknown: str, read: ParsedPassage) -> Iterator[tuple[str, str, str]]:
    """What the passage says of `name`, the unknown in its place: (text, its subject, the sentence)."""
    for one in read.clauses:
        if name in one.rest and (said := _statement(one, name, unknown)) is not None:
            yield said, _bare(one.subject), one.sentence
    for sentence in read.sentences:
        if name in sentence and len(sentence.split()) <= _STATEMENT:
            yield sentence.replace(name, unknown), "", sentence


def _facts(name: str, unknown: str, read: ParsedPassage) -> Iterator[ClauseQuestion]:
    """What can be asked of `name`: questions about it, and questions for what it belongs to."""
    yield from (one for one in read.questions if one.known and _bare(one.subject) == name)
    for one in read.clauses:
        if name in one.rest and (made := _asks_for_subject(one, name, unknown)) is not None:
            yield made
    for sentence in read.sentences:
        if name in sentence:
            asked = make_gaps(sentence.replace(name, unknown))
            yield from (replace(one, sentence=sentence) for one in asked if one.answer != unknown)


def _bare(subject: str) -> str:
    return subject.removeprefix("the ").strip("“”")


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _naming(passages: Sequence[Passage], names: Iterable[str]) -> Mapping[str, dict[str, int]]:
    """For each name the documents that hold it, each with the number of one passage; one more than may share it."""
    beginnings: dict[str, list[tuple[list[str], str]]] = {}
    found: dict[str, dict[str, int]] = {}
    for name in names:
        words = _words(name)
        beginnings.setdefault(words[0], []).append((words, name))
        found[name] = {}
    with progress_bar("looking names up", len(passages)) as advance:
        for number, passage in enumerate(passages):
            words = _words(f"{passage.title}\n{passage.text}")
            for at, word in enumerate(words):
                for wanted, name in beginnings.get(word, ()):
                    if len(found[name]) < _SHARED.stop and words[at : at + len(wanted)] == wanted:
                        found[name].setdefault(passage.doc_id, number)
            advance(1)
    return found


# ---------------------------------------------------------------- what is said, and what is asked


def _statement(clause: Clause, name: str, unknown: str, *, short: bool = False) -> str | None:
    """What the clause says of `name`, with `unknown` in its place; None where that is no sentence of its own."""
    start = f" {clause.rest}".find(f" {name}")
    before, after = clause.rest[: max(0, start)], clause.rest[start + len(name) :]
    whole = start > 0 and NAME_ENDS.match(after) and not regex.search(r"(?:[\p{Lu}\p{N}][^ ]*|-) $", before)
    if not whole or not clause.known or name in clause.subject or name in after:
        return None
    for rest in (tail_of(after),) if short else (after, tail_of(after)):
        text = f"{capital(clause.subject)} {regex.sub('(?:^| )the $', ' ', before)}{unknown}{rest}."
        if len(text.split()) <= _STATEMENT:
            return " ".join(text.split())
    return None


_PERSON = regex.compile(
    r"\b(?:actor|actress|singer|politician|writer|author|novelist|poet|composer|musician|footballer|player|journalist"
    r"|lawyer|scientist|physicist|engineer|architect|painter|soldier|priest|bishop|professor|king|queen)\b"
)


def _asks_for_subject(clause: Clause, name: str, unknown: str) -> ClauseQuestion | None:
    """`X was founded in Ohio` → `What was founded in Y?`, where `name` is Ohio and Y the unknown in its place."""
    said = _statement(clause, name, unknown, short=True)
    if said is None:
        return None
    rest = said.removeprefix(capital(clause.subject)).strip(" .")
    is_a = regex.match(r"(is|was) an? (.*)", rest)
    if runs_on(rest) or len(rest.split()) < (7 if is_a else 4):
        return None
    who = "Who" if clause.person or (is_a and _PERSON.search(is_a[2])) else "Which" if is_a else _what_kind(clause)
    text = f"{who} {is_a[1]} the {is_a[2]}?" if is_a else f"{who} {rest}?"
    form = IN_PLACE if who != "What" else LOOSE
    made = ClauseQuestion(text, clause.subject.removeprefix("the ").strip("“”"), "name", form, "", clause.sentence)
    return made if fair(made, clause) else None


def _what_kind(clause: Clause) -> str:
    about = clause.topic
    singular = about.nouns and not about.nouns[-1].endswith("s") and clause.subject.endswith(about.title)
    return f"Which {about.nouns[-1]}" if singular else "What"


_SHARED_NAME = regex.compile(r"\b(?:County|Township|Parish|Municipality|District|River|Creek|Lake|Church|School|Park)$")


def _same_place(name: str, sentences: tuple[str, str]) -> bool:
    """Whether a name means one place in both: what follows it after a comma tells counties of one name apart."""
    found = [regex.search(rf"{regex.escape(name)}, ({NAME})", sentence) for sentence in sentences]
    places = {match[1] if match else "" for match in found}
    return len(places) == 1 if _SHARED_NAME.search(name) else len(places - {""}) < 2


def _repeats(said: str, asked: str) -> bool:
    """Whether what is asked is what is said already: the first document would be an answer too."""
    return set(split_words(asked)) - {"who", "which", "what", "is", "was", "the"} <= set(split_words(said)) | {
        "a",
        "an",
    }
