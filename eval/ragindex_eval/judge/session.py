"""A judging session: which document comes next, and what a person says of it; saved at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ragindex.corpus.judgements import QUERIES_FILE, add_judgement, read_judgements
from ragindex.errors import UsageError
from ragindex_eval.judge.pool import Pool, PooledDocument, PooledQuestion

GRADE_KEYS: Mapping[str, int] = {"y": 2, "p": 1, "n": 0}
"""The grade of each key: yes, partly, no."""

Grades = dict[tuple[str, str], int]
"""Grades by question id and document id."""


@dataclass(frozen=True, slots=True)
class JudgingItem:
    """A document to judge for a question: the places of both, from 1, and the grade that it has by now, if any."""

    question: PooledQuestion
    document: PooledDocument
    question_place: int
    document_place: int
    grade: int | None


class JudgingSession:
    """Goes through the documents of the first `questions` questions of a pool, question by question."""

    def __init__(self, pool: Pool, folder: Path, questions: int, language: str = "english") -> None:
        self.folder = folder
        self.language = language
        self.questions = min(questions, len(pool.questions))
        self.grades = read_pair_grades(folder)
        self._items = [
            (question, document, place, at)
            for place, question in enumerate(pool.questions[: self.questions], start=1)
            for at, document in enumerate(question.documents, start=1)
        ]
        self._at = 0
        self._skip_judged()

    @property
    def total(self) -> int:
        """The number of documents of the session."""
        return len(self._items)

    @property
    def judged(self) -> int:
        """How many of them are judged."""
        return sum((question.id, document.id) in self.grades for question, document, _, _ in self._items)

    def current(self) -> JudgingItem | None:
        """Return the document to judge; None if all are judged."""
        if self._at == len(self._items):
            return None
        question, document, place, at = self._items[self._at]
        return JudgingItem(question, document, place, at, self.grades.get((question.id, document.id)))

    def answer(self, grade: int) -> None:
        """Save the grade of the current document, and go to the next one without a grade.

        Raises UsageError if all are judged, and the errors of `add_judgement`.
        """
        item = self.current()
        if item is None:
            raise UsageError("All documents are judged.")
        add_judgement(self.folder, item.question.text, item.document.id, grade)
        self.grades[item.question.id, item.document.id] = grade
        self._at += 1
        self._skip_judged()

    def undo(self) -> None:
        """Go back to the document before, to judge it again; its grade stands until then."""
        self._at = max(0, self._at - 1)

    def _skip_judged(self) -> None:
        while (item := self.current()) is not None and item.grade is not None:
            self._at += 1


def read_pair_grades(folder: Path) -> Grades:
    """Return the judgements of a folder; none if it has none yet. Raises DataError."""
    if not (folder / QUERIES_FILE).is_file():
        return {}
    judgements = read_judgements(folder)
    return {
        (id, document): grade for id, judgement in judgements.items() for document, grade in judgement.grades.items()
    }
