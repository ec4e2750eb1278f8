"""What the right answer to a question is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Gold:
    """What a question's right answer is: the documents that hold it, with their grades, and accepted answers.

    `grades` has one entry a document, greater than 0, 1 where the benchmark does not grade. `kind` is the hop label or
    question type and `source_id` the question's id in the benchmark; both are "" where there is none. `twins` are
    documents of the same text as a gold document, with that document (`ragindex_eval.data.gold_classes`).
    """

    doc_ids: frozenset[str]
    answers: tuple[str, ...] = ()
    kind: str = ""
    source_id: str = ""
    grades: Mapping[str, int] = field(default_factory=dict)
    twins: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.grades:
            object.__setattr__(self, "grades", dict.fromkeys(sorted(self.doc_ids), 1))


def gains(doc_ids: Iterable[str], grades: Mapping[str, int]) -> dict[str, int]:
    """The grade of every gold document: 1 where none is given. Grades of 0 and below are no gold."""
    graded = dict.fromkeys(doc_ids, 1) | dict(grades)
    return {doc_id: grade for doc_id, grade in graded.items() if grade > 0}
