"""Gold: the right answer to a question, and the documents that contain it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ragindex.types import Span


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """One reading of an ambiguous question (ASQA's `qa_pairs`), and the aliases of its answer."""

    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvidencePlace:
    """A place in a document that answers a question: the spans of its words in the document's text."""

    doc_id: str
    words: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Gold:
    """The right answer to a question: the documents that contain it, with their grades, and the accepted answers.

    `grades` has an entry greater than 0 per document, 1 if the benchmark has no grades. `kind` is the hop label or
    question type, and `source_id` is the question's id in the benchmark; either is "" if there is none. `twins` maps
    documents that count as a gold document to that document: those with the same text
    (`ragindex_eval.data.gold_classes`), and the `alternatives` that the question names, with other texts. `options` are
    the choices of a multiple-choice question, which the reader is shown, and the accepted answer is one of them. With
    `sub_questions`, the accepted answers are long ones that answer all of these. `candidates` are the documents that
    the benchmark lists with the question, gold and distractors, as far as the corpus holds them; empty if it lists
    none; neither compared nor saved with results. `evidence` are the places in these documents that answer the
    question, empty if the questions name none. `answerable` is False for a question that no document answers.
    `own_document` is the document that is the question itself, as BEIR's ArguAna and Quora have them; no ranking of the
    question counts it.
    """

    doc_ids: frozenset[str]
    answers: tuple[str, ...] = ()
    kind: str = ""
    source_id: str = ""
    grades: Mapping[str, int] = field(default_factory=dict)
    twins: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    sub_questions: tuple[SubQuestion, ...] = ()
    candidates: frozenset[str] = field(default=frozenset(), compare=False)
    evidence: tuple[EvidencePlace, ...] = ()
    alternatives: frozenset[str] = frozenset()
    answerable: bool = True
    own_document: str = ""

    def __post_init__(self) -> None:
        if not self.grades:
            object.__setattr__(self, "grades", dict.fromkeys(sorted(self.doc_ids), 1))


def own_documents(gold: Mapping[str, Gold] | None) -> dict[str, str]:
    """Return the own document of each question that has one, by the id of the question."""
    return {id: of_query.own_document for id, of_query in (gold or {}).items() if of_query.own_document}


def gains(doc_ids: Iterable[str], grades: Mapping[str, int]) -> dict[str, int]:
    """Return the grade of every gold document, 1 if none is given. A document graded 0 or below is not gold.

    Documents stand in the order of their ids, since a set has another order in every process.
    """
    graded = dict.fromkeys(sorted(doc_ids), 1) | dict(grades)
    return {doc_id: grade for doc_id, grade in graded.items() if grade > 0}
