"""Gold: the right answer to a question, the documents that contain it, and the places in them that answer it.

Gold documents say which documents answer a question; evidence says where. Whether a passage has it can be compared
over any chunking.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import regex

from ragindex._util.ids import find_spelling
from ragindex.corpus.json_reader import Item
from ragindex.types import Document, Span


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
    question type, and `source_id` is the question's id in the benchmark; either is "" if there is none.
    `equivalents` maps documents that count as a gold document to that document: those with the same text
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
    equivalents: Mapping[str, str] = field(default_factory=dict)
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


# ---------------------------------------------------------------- evidence


_OFFSETS = regex.compile(r"(?P<document>.+):(?P<start>[0-9]{1,9})-(?P<end>[0-9]{1,9})", regex.DOTALL)
_WORD = regex.compile(r"\S+")


def find_evidence(
    written: Iterable[str],
    doc_ids: Iterable[str],
    documents: Mapping[str, Document],
    item: Item,
    follow: Callable[[str], str | None] = lambda id: None,
) -> tuple[EvidencePlace, ...]:
    """Return the places that quotes and offsets name.

    A quote is a text that stands once in the gold documents `doc_ids`, whatever white space stands between its words.
    Offsets are `DOCUMENT:START-END`, in characters of a gold document's text; `follow` returns the id that a document
    has now by the one that it had before, if any. Raises DataError otherwise.
    """
    gold = {id: documents[id] for id in sorted(doc_ids) if id in documents}
    return tuple(_find_place(quote.strip(), gold, item, follow) for quote in written if quote.strip())


def _find_place(
    quote: str, gold: Mapping[str, Document], item: Item, follow: Callable[[str], str | None]
) -> EvidencePlace:
    offsets = _OFFSETS.fullmatch(quote)
    id = offsets and (find_spelling(offsets["document"], gold) or follow(offsets["document"]))
    if offsets is not None and id is not None and id in gold:
        document, start, end = gold[id], int(offsets["start"]), int(offsets["end"])
        if not document.text[start:end].strip() or end > len(document.text):
            raise item.error(f"evidence inside the {len(document.text)} characters of {document.id!r}", repr(quote))
        return _mark_words(document, start, end)
    pattern = regex.compile(r"\s+".join(map(regex.escape, quote.split())))
    matches = [(document, match) for document in gold.values() for match in pattern.finditer(document.text)]
    if len(matches) != 1:
        counted = (
            f"{quote[:80]!r}, which stands there {len(matches)} times" if matches else f"{quote[:80]!r}, which is not"
        )
        raise item.error("evidence that stands once in a gold document of the question", counted)
    return _mark_words(matches[0][0], *matches[0][1].span())


def _mark_words(document: Document, start: int, end: int) -> EvidencePlace:
    return EvidencePlace(document.id, tuple(match.span() for match in _WORD.finditer(document.text, start, end)))
