"""GraphRAG's global search: an LLM reads all reports on communities, and notes what they say about the question."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, Field

from ragindex._util.kept_results import KeptResults
from ragindex.english import overlaps, split_sentences
from ragindex.filters import Filter, Ids, combine_filters
from ragindex.interfaces import Collection, Encoder, Floats, OpenIndex, Part, Retriever, Scheme, VectorQuery
from ragindex.interfaces.llm import LLM
from ragindex.llm.answer_question import build_context
from ragindex.llm.tasks import Task, require_output
from ragindex.llm.tokens import count_text_tokens
from ragindex.parts.text.passages import OVER_PASSAGES, Passages, PassagesField
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import PartField, label, of_class
from ragindex.retrieval.hits import HIT_FIELDS, PassingRecords, check_queries, read_hits
from ragindex.retrieval.stages import record_ranking, record_search
from ragindex.retrieval.trace import Trace
from ragindex.types import Hit, Query, Retrieval
from ragindex_baselines.graphrag.communities import Communities, Reports
from ragindex_baselines.graphrag.method import filter_rows

_LARGEST_SCORE = 100
_KEPT_BATCHES = 8
"""Filters whose batches of reports are kept: to pack them, the tokens of every report are counted."""
_BEHIND_POINTS = 2.0
"""Added to the cosines of passages behind points, so that they come before all others."""


class GraphRAGGlobal(Scheme):
    """Notes on a question from all reports on communities, and the passages behind them (Edge et al. 2024, 2.6).

    Reports are shuffled and packed into batches of `batch_tokens` tokens. For each batch, an LLM is asked for points
    that help to answer, with scores from 0 to 100. Points above 0 become notes, the best first, as many as fit into
    `note_tokens` tokens. Hits are the passages of the reports that these points cite, nearest to the question first,
    with 2 added to their cosines; others follow by cosine. A question costs as many calls as there are batches.
    """

    version: ClassVar[int] = 1
    communities: Annotated[PartField, of_class(Communities)] = Field(
        default=Communities(), description="Communities of entities, with reports."
    )
    over: PassagesField = OVER_PASSAGES
    batch_tokens: int = Field(default=8_000, ge=1, description="Tokens of reports in one call.")
    note_tokens: int = Field(default=1_000, ge=1, description="Tokens of points in the notes (estimated).")
    seed: int = Field(default=0, ge=0, description="Seed of the order in which reports are read.")

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the task of the points."""
        return (POINTS,)

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the passages with vectors, and the communities with reports."""
        return (Passages(), Vectors(of=Passages()), self.communities)

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever."""
        passages, vectors, communities = (index.open_part(part) for part in self.parts())
        reader = ReportReader(communities, index.llm, index.language, index.tokens_counted_by, self)
        return GlobalRetriever(reader, PassingRecords(passages), vectors, index.encoder, label(self))


@dataclass(frozen=True, slots=True)
class RatedPoint:
    """What reports say about the question: a statement, its score from 1 to 100, and the ids of the reports."""

    text: str
    score: int
    report_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportReader:
    """Asks the LLM what the reports say about a question."""

    communities: Reports
    llm: LLM
    language: str
    model: str
    settings: GraphRAGGlobal
    packed: KeptResults[frozenset[str] | None, "list[list[ReportRow]]"] = field(
        default_factory=lambda: KeptResults(_KEPT_BATCHES)
    )

    def read(self, question: str, passing: frozenset[str] | None) -> tuple[list[RatedPoint], Mapping[str, list[str]]]:
        """Return the points, best first, and the passages of each report.

        Only reports are read of which all passages pass. Raises LLMError if a batch has no usable answer, and what
        `LLM.map` raises.
        """
        batches = self.packed.find(passing, lambda: self._pack(passing))
        inputs = [{"question": question, "reports": _number(batch), "language": self.language} for batch in batches]
        answers = map(require_output, self.llm.map(POINTS, inputs) if inputs else ())
        points = [point for batch, answer in zip(batches, answers, strict=True) for point in _rate(answer, batch)]
        points.sort(key=lambda point: -point.score)  # equal ones in the order of reading
        return points, {row["id"]: row["passage_ids"] for batch in batches for row in batch}

    def _pack(self, passing: frozenset[str] | None) -> "list[list[ReportRow]]":
        """Return batches of the reports of which all passages pass, in an order drawn by the seed."""
        fields = ("text", "passage_ids")
        rows = [row for batch in self.communities.reports.scan(fields) for row in batch.to_pylist()]
        rows = sorted(filter_rows(rows, passing), key=lambda row: str(row["id"]))
        rows = [rows[place] for place in np.random.default_rng(self.settings.seed).permutation(len(rows))]
        return list(pack_reports(rows, self.settings.batch_tokens, self.model))


@dataclass(frozen=True, slots=True)
class GlobalRetriever:
    """The open retriever of GraphRAGGlobal."""

    reader: ReportReader
    passing: PassingRecords
    vectors: Collection
    encoder: Encoder
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer the questions one after the other; the calls of a question run at once."""
        check_queries(queries, k)
        return [self._retrieve_one(query, k) for query in queries]

    def _retrieve_one(self, query: Query, k: int) -> Retrieval:
        trace = Trace()
        passing = None if query.filter is None else self.passing.find(query.filter)
        with trace.step(1, "points of reports", query.text) as step:
            points, passages_of = self.reader.read(query.text, passing)
            packed = build_context((), [point.text for point in points], self.reader.settings.note_tokens).notes
            complete = [point for point, note in zip(points, packed, strict=False) if point.text == note]
            notes = tuple(point.text for point in complete)
            cited = list(dict.fromkeys(id for point in complete for id in point.report_ids))
            step["ids"], step["note"] = tuple(cited), f"{len(notes)} of {len(points)} points are notes."
        passage_ids = tuple(sorted({passage for report in cited for passage in passages_of[report]}))
        record_ranking("passages of cited reports", passage_ids)
        (vector,) = self.encoder.encode_queries([query.text])
        with trace.step(1, "passages", query.text) as step:
            behind = self._search(vector, k, combine_filters(Ids(passage_ids), query.filter)) if passage_ids else ()
            others = self._search(vector, k, query.filter) if len(behind) < k else ()
            known = {hit.id for hit in behind}
            raised = tuple(replace(hit, score=hit.score + _BEHIND_POINTS) for hit in behind)
            hits = (*raised, *(hit for hit in others if hit.id not in known))[:k]
            step["ids"] = tuple(hit.id for hit in hits)
        return Retrieval(hits, tuple(trace.steps), notes)

    def _search(self, vector: Floats, k: int, where: Filter | None) -> tuple[Hit, ...]:
        request = VectorQuery(vector, k, HIT_FIELDS, where)
        (result,) = self.vectors.search([request])
        record_search("passages", self.vectors, [request], [""])
        return read_hits(result, self.source)


# ---------------------------------------------------------------- batches and points


ReportRow = Mapping[str, Any]


def pack_reports(rows: Iterable[ReportRow], tokens: int, model: str) -> Iterator[list[ReportRow]]:
    """Yield batches of reports in order, of `tokens` tokens at most; a longer report is a batch of its own."""
    batch, used = list[ReportRow](), 0
    for row in rows:
        needed = count_text_tokens(row["text"], model).tokens
        if batch and used + needed > tokens:
            yield batch
            batch, used = [], 0
        batch.append(row)
        used += needed
    if batch:
        yield batch


def _number(batch: Sequence[ReportRow]) -> list[dict[str, Any]]:
    return [{"number": number, "text": row["text"]} for number, row in enumerate(batch, start=1)]


def _rate(answer: "ReportPoints", batch: Sequence[ReportRow]) -> Iterator[RatedPoint]:
    """Yield the points of a batch that help; numbers of no report are dropped, as are points that cite none."""
    for point in answer.points:
        numbers = sorted({number for number in point.reports if 1 <= number <= len(batch)})
        text = " ".join(point.point.split())
        if text and numbers and point.score > 0:
            score = min(point.score, _LARGEST_SCORE)
            yield RatedPoint(text, score, tuple(str(batch[number - 1]["id"]) for number in numbers))


# ---------------------------------------------------------------- the LLM task


class ReportPoint(BaseModel):
    """A statement that helps to answer, how much (0 to 100), and the numbers of the reports that say it."""

    point: str
    score: int
    reports: list[int]


class ReportPoints(BaseModel):
    """What a batch of reports says about a question."""

    points: list[ReportPoint]


_POINTS_BY_RULE = 3


def _find_points_by_rule(inputs: Mapping[str, Any]) -> ReportPoints:
    """Return the sentences of the reports that share most with the question; their score is the share in percent."""
    reports_of: dict[str, list[int]] = {}
    for report in inputs["reports"]:
        for line in report["text"].splitlines():
            for sentence in split_sentences(line.removeprefix("- ")):
                reports_of.setdefault(sentence, []).append(report["number"])
    sentences = list(reports_of)
    scores = Counter(dict(zip(sentences, overlaps(inputs["question"], sentences, inputs["language"]), strict=True)))
    best = [(sentence, round(score * _LARGEST_SCORE)) for sentence, score in scores.most_common(_POINTS_BY_RULE)]
    return ReportPoints(
        points=[ReportPoint(point=text, score=score, reports=reports_of[text]) for text, score in best if score]
    )


POINTS: Task[ReportPoints] = Task(
    name="report-points",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "points.jinja",
    output=ReportPoints,
    rule=_find_points_by_rule,
    max_tokens=1024,
)
