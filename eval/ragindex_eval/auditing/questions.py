"""Questions under audit, with or without their documents: duplicates, leaks into titles, gold that nothing matches."""

import csv
import io
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import regex

from ragindex.errors import DataError
from ragindex.types import Document
from ragindex_eval.data.datasets import Dataset, read_dataset
from ragindex_eval.data.gold_classes import content
from ragindex_eval.data.titles import find_naming
from ragindex_eval.stats.printed_means import BINARY, smallest_differences

_EXAMPLES = 3
_LEAST_ANSWER = 2  # letters and digits; shorter answers stand in any title
_WORD = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]|[\p{L}\p{M}\p{N}]+"
)
_VERDICTS = ("yes", "no", "true", "false")  # answers that say nothing about a title


@dataclass(frozen=True, slots=True)
class QuestionAudit:
    """What is amiss with questions and documents; what needs documents is None without them.

    `duplicates` are questions whose text an earlier one has, `in_titles` those whose whole text stands in a document's
    title, `answer_in_titles` those with an answer that does, and `naming` those that name the title of their gold
    document. `left_out` could not be read, as their gold names no document. `duplicate_documents` have title and text
    of an earlier one, `duplicate_gold` of the gold documents are among such. `smallest` is the smallest difference from
    50 % that so many questions show with 80 % power, for outcomes that agree as much, and as little, as is plausible.
    """

    questions: int
    duplicates: int
    without_gold: int | None
    in_titles: int | None
    answer_in_titles: int | None
    naming: int | None
    left_out: int
    documents: int | None
    duplicate_documents: int | None
    duplicate_gold: int | None
    smallest: tuple[float | None, float | None]
    examples: Mapping[str, tuple[str, ...]]

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON field `questions`."""
        return asdict(self)


def audit_questions(questions: Path | None, documents: Path | None) -> QuestionAudit:
    """Audit a file of questions, with the documents that they are about, or the questions of a data set.

    What cannot be read is left out and counted. Raises DataError if there is no question.
    """
    if documents is None and questions is not None:
        return _audit_texts(list(_read_texts(questions)))
    dataset = read_dataset(str(documents), questions=questions, skip_bad=True)
    return _audit_dataset(dataset)


def _audit_texts(texts: Sequence[str]) -> QuestionAudit:
    duplicates = list(_find_repeated(texts))
    return QuestionAudit(
        questions=len(texts),
        duplicates=len(duplicates),
        without_gold=None,
        in_titles=None,
        answer_in_titles=None,
        naming=None,
        left_out=0,
        documents=None,
        duplicate_documents=None,
        duplicate_gold=None,
        smallest=smallest_differences(0.5, len(texts), BINARY),
        examples=_take_examples({"duplicates": duplicates}),
    )


def _audit_dataset(dataset: Dataset) -> QuestionAudit:
    texts, gold = {query.id: query.text for query in dataset.queries}, dataset.gold or {}
    documents = dataset.corpus.documents
    answers = {
        id: [answer for answer in of_query.answers if _tells(answer)] for id, of_query in gold.items() if id in texts
    }
    titles = _find_in_titles(
        documents, [*texts.values(), *(answer for listed in answers.values() for answer in listed)]
    )
    findings = {
        "duplicates": list(_find_repeated(texts.values())),
        "in_titles": [text for text in texts.values() if _fold(text) in titles],
        "answer_in_titles": [
            f"{texts[id]} ({answer})"
            for id, listed in answers.items()
            if (answer := next((answer for answer in listed if _fold(answer) in titles), None)) is not None
        ],
        "left_out": [str(skipped) for skipped in dataset.skipped if skipped.place],
        "duplicate_documents": [document.id for document in _find_copies(documents)],
    }
    naming = find_naming(dataset.queries, dataset.gold, {document.id: document.title for document in documents})
    counts: dict[tuple[str, str], int] = {}
    for document in documents:
        counts[content(document)] = counts.get(content(document), 0) + 1
    of_gold = {id for of_query in gold.values() for id in of_query.doc_ids}
    return QuestionAudit(
        questions=len(texts),
        duplicates=len(findings["duplicates"]),
        without_gold=sum(id not in gold or not gold[id].doc_ids for id in texts),
        in_titles=len(findings["in_titles"]),
        answer_in_titles=len(findings["answer_in_titles"]),
        naming=len(naming),
        left_out=len(findings["left_out"]),
        documents=len(documents),
        duplicate_documents=len(findings["duplicate_documents"]),
        duplicate_gold=sum(document.id in of_gold and counts[content(document)] > 1 for document in documents),
        smallest=smallest_differences(0.5, len(texts), BINARY),
        examples=_take_examples(findings),
    )


def _take_examples(findings: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(entries[:_EXAMPLES]) for name, entries in findings.items() if entries}


# ---------------------------------------------------------------- texts


def _fold(text: str) -> str:
    """Return the words of a text in lower case with single spaces, without punctuation."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def _tells(answer: str) -> bool:
    folded = _fold(answer)
    return len(folded.replace(" ", "")) >= _LEAST_ANSWER and folded not in _VERDICTS


def _find_repeated(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts that an earlier one equals but for case, punctuation and white space."""
    seen = set[str]()
    for text in texts:
        folded = _fold(text) or text
        if folded in seen:
            yield text
        seen.add(folded)


def _find_copies(documents: Iterable[Document]) -> Iterator[Document]:
    seen = set[tuple[str, str]]()
    for document in documents:
        if content(document) in seen:
            yield document
        seen.add(content(document))


def _find_in_titles(documents: Iterable[Document], texts: Iterable[str]) -> set[str]:
    """Return the folded texts that stand in a title as whole words."""
    wanted = {folded for text in texts if (folded := _fold(text))}
    longest = max((folded.count(" ") + 1 for folded in wanted), default=0)
    matches = set[str]()
    for title in {document.title for document in documents}:
        words = _fold(title).split()
        for start in range(len(words)):
            for end in range(start + 1, min(len(words), start + longest) + 1):
                phrase = " ".join(words[start:end])
                if phrase in wanted:
                    matches.add(phrase)
    return matches


def _read_texts(path: Path) -> Iterator[str]:
    """Yield the texts of the questions in a file: .txt by line, .csv and .tsv with `question`, .jsonl likewise."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("a file of questions in UTF-8", str(error), path=path) from error
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        lines = _read_table(text, path, "\t" if suffix == ".tsv" else ",")
    elif suffix == ".jsonl":
        lines = _read_lines_of_json(text, path)
    else:
        lines = (line.strip() for line in text.split("\n"))
    texts = [question for question in lines if question.strip()]
    if not texts:
        raise DataError("at least one question", "none", path=path)
    yield from texts


def _read_table(text: str, path: Path, delimiter: str) -> Iterator[str]:
    reader = csv.DictReader(io.StringIO(text), delimiter=delimiter)
    if "question" not in (reader.fieldnames or ()):
        raise DataError("a header with question", ", ".join(reader.fieldnames or ()) or "none", path=path, line=1)
    for row in reader:
        yield row["question"] or ""


def _read_lines_of_json(text: str, path: Path) -> Iterator[str]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except ValueError as error:
            raise DataError("JSON in each line", str(error), path=path, line=number) from error
        question = item.get("question", item.get("text")) if isinstance(item, dict) else None
        if not isinstance(question, str):
            raise DataError('a "question" in each line', repr(line[:60]), path=path, line=number)
        yield question
