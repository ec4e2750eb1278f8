"""Questions over two passages, linked by a name that few documents share: the unknown of the question."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, permutations

import regex

from ragindex._util.progress import progress_bar
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

_SHARED_COUNTS = range(2, 6)  # numbers of documents that may share a linking name
_MAX_NAMES, _MAX_STATEMENTS = 5_000, 20  # names that are followed, and statements about a name per passage
_MAX_WORDS = 26  # words of a statement about the unknown
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")


def link_passages(
    passages: Sequence[Passage], read: Sequence[ParsedPassage], english: bool, enough: int
) -> list[DraftCandidate]:
    """Return about `enough` questions over two documents that share a name which only a few documents contain."""
    close = {each.passage.id: each for each in read}
    candidates: list[DraftCandidate] = []
    shared = [
        document
        for document in _find_documents(passages, _collect_names(read)).items()
        if len(document[1]) in _SHARED_COUNTS
    ]
    for name, documents in shared[:_MAX_NAMES]:
        chosen = [passages[number] for number in documents.values()]
        for passage in chosen:
            close.setdefault(passage.id, parse_passage(passage, english))
        pairs = permutations([close[passage.id] for passage in chosen], 2)
        candidates += _select_best([candidate for pair in pairs for candidate in _link_pair(name, *pair)])
        if len(candidates) >= enough:
            break
    return candidates


def _select_best(candidates: Sequence[DraftCandidate]) -> list[DraftCandidate]:
    """Return at most two candidates of a name: per pair of documents the one with the best form, in one direction."""
    best: dict[frozenset[str], DraftCandidate] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate[0]):
        best.setdefault(frozenset(candidate[2].documents), candidate)
    return list(best.values())[:2]


def _collect_names(read: Iterable[ParsedPassage]) -> list[str]:
    """Return the subjects and mentions of the clauses that have several words, are quoted, or are a title."""
    names: dict[str, None] = {}
    for each in read:
        subjects = {_strip_subject(clause.subject): clause.topic.title for clause in each.clauses if clause.known}
        names |= {name: None for name, title in subjects.items() if " " in name or name == title}
        texts = (*(clause.rest for clause in each.clauses), *each.sentences)
        named = (mention for text in texts for mention in list_mentions(text) if mention.kind == "name")
        names |= {
            passage_mention.text: None
            for passage_mention in named
            if passage_mention.quoted or (" " in passage_mention.text and passage_mention.start)
        }
    return [
        name for name in names if name != name.lower() or not name.isascii() if len(_find_words(name)) in range(1, 9)
    ]


def _link_pair(name: str, first: ParsedPassage, second: ParsedPassage) -> list[DraftCandidate]:
    """Return questions that lead from the first passage through `name` to the second, if both are needed."""
    if first.passage.doc_id == second.passage.doc_id or first.passage.title == second.passage.title:
        return []
    candidates: list[DraftCandidate] = []
    unknown = next((letter for letter in "XYZ" if letter not in _find_words(first.passage.text)), "?")
    facts = list(islice(_list_facts(name, unknown, second), _MAX_STATEMENTS))
    for statement, subject, sentence in islice(_list_statements(name, unknown, first), _MAX_STATEMENTS if facts else 0):
        if subject and subject in second.passage.text:
            continue
        for fact in facts:
            question = fact.about(unknown)
            gives_away = (
                tells(f"{statement} {question}", name)
                or tells(statement, fact.answer)
                or fact.answer in first.passage.text
            )
            if (
                not gives_away
                and not _is_repeated(statement, question)
                and _is_same_place(name, (sentence, fact.sentence))
            ):
                documents = (first.passage.doc_id, second.passage.doc_id)
                draft = Draft(f"{statement} {question}", fact.answer, documents, "two", (sentence, fact.sentence))
                candidates.append((fact.form, fact.kind, draft))
    return candidates


def _list_statements(name: str, unknown: str, read: ParsedPassage) -> Iterator[tuple[str, str, str]]:
    """Yield what the passage says about `name`, replaced by the unknown: (text, its subject, the sentence)."""
    for clause in read.clauses:
        if name in clause.rest and (statement := _write_statement(clause, name, unknown)) is not None:
            yield statement, _strip_subject(clause.subject), clause.sentence
    for sentence in read.sentences:
        if name in sentence and len(sentence.split()) <= _MAX_WORDS:
            yield sentence.replace(name, unknown), "", sentence


def _list_facts(name: str, unknown: str, read: ParsedPassage) -> Iterator[ClauseQuestion]:
    """Yield what can be asked about `name`: questions about it, and questions for the subject it belongs to."""
    yield from (question for question in read.questions if question.known and _strip_subject(question.subject) == name)
    for clause in read.clauses:
        if name in clause.rest and (fact := _ask_for_subject(clause, name, unknown)) is not None:
            yield fact
    for sentence in read.sentences:
        if name in sentence:
            gaps = make_gaps(sentence.replace(name, unknown))
            yield from (replace(gap, sentence=sentence) for gap in gaps if gap.answer != unknown)


def _strip_subject(subject: str) -> str:
    return subject.removeprefix("the ").strip("“”")


def _find_words(text: str) -> list[str]:
    return _WORD.findall(text)


def _find_documents(passages: Sequence[Passage], names: Iterable[str]) -> Mapping[str, dict[str, int]]:
    """Return for each name the documents that contain it, each with the number of one passage.

    The search for a name stops at one document more than may share it.
    """
    beginnings: dict[str, list[tuple[list[str], str]]] = {}
    documents: dict[str, dict[str, int]] = {}
    for name in names:
        words = _find_words(name)
        beginnings.setdefault(words[0], []).append((words, name))
        documents[name] = {}
    with progress_bar("looking names up", len(passages)) as advance:
        for number, passage in enumerate(passages):
            words = _find_words(f"{passage.title}\n{passage.text}")
            for at, word in enumerate(words):
                for wanted, name in beginnings.get(word, ()):
                    if len(documents[name]) < _SHARED_COUNTS.stop and words[at : at + len(wanted)] == wanted:
                        documents[name].setdefault(passage.doc_id, number)
            advance(1)
    return documents


# ---------------------------------------------------------------- statements and questions


def _write_statement(clause: Clause, name: str, unknown: str, *, short: bool = False) -> str | None:
    """Return the clause with `name` replaced by `unknown`; None if that is no sentence of its own."""
    start = f" {clause.rest}".find(f" {name}")
    before, after = clause.rest[: max(0, start)], clause.rest[start + len(name) :]
    is_whole = start > 0 and NAME_ENDS.match(after) and not regex.search(r"(?r)(?:[\p{Lu}\p{N}][^ ]*|-) $", before)
    if not is_whole or not clause.known or name in clause.subject or name in after:
        return None
    for rest in (tail_of(after),) if short else (after, tail_of(after)):
        text = f"{capital(clause.subject)} {regex.sub('(?:^| )the $', ' ', before)}{unknown}{rest}."
        if len(text.split()) <= _MAX_WORDS:
            return " ".join(text.split())
    return None


_PERSON = regex.compile(
    r"\b(?:actor|actress|singer|politician|writer|author|novelist|poet|composer|musician|footballer|player|journalist"
    r"|lawyer|scientist|physicist|engineer|architect|painter|soldier|priest|bishop|professor|king|queen)\b"
)


def _ask_for_subject(clause: Clause, name: str, unknown: str) -> ClauseQuestion | None:
    """Ask for the subject: `X was founded in Ohio` → `What was founded in Y?`, where Y replaces the `name` Ohio."""
    statement = _write_statement(clause, name, unknown, short=True)
    if statement is None:
        return None
    rest = statement.removeprefix(capital(clause.subject)).strip(" .")
    is_a = regex.match(r"(is|was) an? (.*)", rest)
    if runs_on(rest) or len(rest.split()) < (7 if is_a else 4):
        return None
    who = (
        "Who"
        if clause.person or (is_a and _PERSON.search(is_a[2]))
        else "Which"
        if is_a
        else _choose_question_word(clause)
    )
    text = f"{who} {is_a[1]} the {is_a[2]}?" if is_a else f"{who} {rest}?"
    form = IN_PLACE if who != "What" else LOOSE
    question = ClauseQuestion(text, clause.subject.removeprefix("the ").strip("“”"), "name", form, "", clause.sentence)
    return question if fair(question, clause) else None


def _choose_question_word(clause: Clause) -> str:
    about = clause.topic
    singular = about.nouns and not about.nouns[-1].endswith("s") and clause.subject.endswith(about.title)
    return f"Which {about.nouns[-1]}" if singular else "What"


_SHARED_NAME = regex.compile(r"\b(?:County|Township|Parish|Municipality|District|River|Creek|Lake|Church|School|Park)$")


def _is_same_place(name: str, sentences: tuple[str, str]) -> bool:
    """Return whether a name means one place in both sentences.

    The name after a comma tells counties of one name apart.
    """
    matches = [regex.search(rf"{regex.escape(name)}, ({NAME})", sentence) for sentence in sentences]
    places = {match[1] if match else "" for match in matches}
    return len(places) == 1 if _SHARED_NAME.search(name) else len(places - {""}) < 2


def _is_repeated(statement: str, question: str) -> bool:
    """Return whether the question asks for what it states already: then the first document would be an answer too."""
    return set(split_words(question)) - {"who", "which", "what", "is", "was", "the"} <= set(split_words(statement)) | {
        "a",
        "an",
    }
