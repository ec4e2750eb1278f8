"""Why a document is not among the hits: its rank after each stage of a method, and the first stage that lost it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ragindex._util.canonical import load_stored_json
from ragindex._util.ids import find_spelling
from ragindex._util.text import describe_near, find_near_names, first_names, many
from ragindex.filters import All, Filter, Ids, Overlaps, Range, Terms
from ragindex.index.renames import read_renames
from ragindex.index.state import IndexState
from ragindex.interfaces import FilterQuery, Retriever, Scheme
from ragindex.plugins.registry import label
from ragindex.retrieval.hits import fetch_records
from ragindex.retrieval.stages import StageRank, StageRecorder, record_stages
from ragindex.stores.metered import MeteredCollection
from ragindex.types import Query, Retrieval

HITS = "hits"
"""The last stage: what the method returned."""
INDEX, PART, FILTER = "index", "part", "filter"
"""Where a document was lost before the method's first stage."""


@dataclass(frozen=True, slots=True)
class DocumentExplanation:
    """Where a method had one document (or passage) at each stage of one search, and where it lost it.

    Example:
        explanation = index.explain_document("Who wrote the report?", "report-7", method="hybrid")
        print(explanation.rank, explanation.lost_at)
        print(explanation)

    `rank` is its rank among the `k` hits, None if it is not among them. `lost_at` is then the first stage that lost it:
    the name of one of the `stages`, or `index`, `part` or `filter` if none of these could have it. `reason` says why in
    a sentence, and `notes` what is missing of the document in a part of the method.
    """

    document: str
    method: str
    k: int
    rank: int | None
    stages: tuple[StageRank, ...]
    lost_at: str | None
    reason: str
    notes: tuple[str, ...] = ()

    def keep_first(self, count: int, stage: str) -> "DocumentExplanation":
        """Return the explanation after a further stage that has kept the first `count` hits."""
        if self.rank is None or self.rank <= count:
            return self
        lost = StageRank(stage, "", self.rank, count, self.stages[-1].results)
        reason = f"{stage} left out {self.document}: {describe_rank(lost)}."
        return replace(self, rank=None, stages=(*self.stages, lost), lost_at=stage, reason=reason)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {**asdict(self), "stages": [asdict(stage) for stage in self.stages], "notes": list(self.notes)}

    def __str__(self) -> str:
        lines = [f"{stage.stage}: {describe_rank(stage)}" for stage in self.stages]
        return "\n".join([*lines, self.reason, *self.notes])


def format_rank(stage: StageRank) -> str:
    """Return the rank of the document among the results of a stage; "+" if there are more than were looked at."""
    return f"{'none' if stage.rank is None else f'{stage.rank:,}'} of {stage.results:,}{'+' * stage.is_cut}"


def describe_rank(stage: StageRank) -> str:
    """Return the rank of the document at a stage, and how many results went on, as part of a sentence."""
    if stage.rank is None:
        return f"not among the {stage.results:,} best" if stage.is_cut else f"not among {many(stage.results, 'result')}"
    going_on = f", of which the first {stage.passed:,} go on" if not stage.goes_on else ""
    return f"rank {format_rank(stage)}{going_on}"


@dataclass(frozen=True, slots=True)
class MethodExplainer:
    """An open method, and the collections among its parts by the label of the part. Made by `Index.explainer`."""

    index: IndexState
    scheme: Scheme
    retriever: Retriever
    collections: Mapping[str, MeteredCollection]

    def search(self, query: Query, k: int, document: str) -> tuple[Retrieval, DocumentExplanation]:
        """Search once, as the retriever does, and explain where the document was lost.

        Stores are searched again, beyond the results that the method asks for; no model is called for it.
        """
        document_search = _WantedDocument(self, document, _find_records(self.collections, document))
        recorder = StageRecorder(document, frozenset(id for ids in document_search.records.values() for id in ids))
        with record_stages(recorder):
            (retrieval,) = self.retriever.retrieve([query], k)
        recorder.add(HITS, retrieval.hits, k)
        stages = tuple(
            replace(stage, query="" if stage.query == query.text else stage.query) for stage in recorder.stages
        )
        return retrieval, document_search.explain(k, query.filter, stages)


def find_losing_place(stages: Sequence[StageRank]) -> int:
    """Return the place of the last stage that ranked the document if that let it go no further, else of the next one.

    If no stage ranked it, it is the first one.
    """
    ranked = [place for place, stage in enumerate(stages) if stage.rank is not None]
    return ranked[-1] + stages[ranked[-1]].goes_on if ranked else 0


@dataclass(frozen=True, slots=True)
class _WantedDocument:
    """A document, or passage, and its records in the collections of a method's parts, by the label of the part."""

    method: MethodExplainer
    document: str
    records: Mapping[str, tuple[str, ...]]

    def explain(self, k: int, where: Filter | None, stages: Sequence[StageRank]) -> DocumentExplanation:
        """Say where the document was lost, or that it is among the hits."""
        rank, method = stages[-1].rank, label(self.method.scheme)
        lost_at: str | None = None
        if rank is not None:
            reason = f"{self.document} is hit {rank} of {stages[-1].results}."
        elif not any(self.records.values()):
            lost_at, reason = self._explain_missing(method)
        elif where is not None and not self._passes(where):
            conditions = where.filters if isinstance(where, All) else (where,)
            failing = [condition for condition in conditions if not self._passes(condition)]
            described = "; ".join(map(self._describe_condition, failing or conditions))
            lost_at, reason = FILTER, f"{self.document} does not pass the filter: {described}."
        else:
            stage = stages[find_losing_place(stages)]
            lost_at, reason = stage.stage, f"{method} lost {self.document} at {stage.stage}: {describe_rank(stage)}."
        return DocumentExplanation(
            self.document, method, k, rank, tuple(stages), lost_at, reason, tuple(self._note_gaps(method))
        )

    def _explain_missing(self, method: str) -> tuple[str, str]:
        """Return where a document without records was lost, and why."""
        index, id = self.method.index, self.document
        is_packed = index.store.version("documents") is None  # with an exported retriever, which has no documents
        documents = frozenset[str]() if is_packed else frozenset(index.documents.sources())
        if find_spelling(id, documents) is not None:
            command = index.command("index", "--methods", method)
            return PART, f"{id} is in the index, but no part of {method} has it yet. Run: {command}"
        left_out = {id: why for source in index.manifest.sources.values() for id, why in source.left_out.items()}
        if id in left_out:
            return INDEX, f"{id} is not in the index: it was left out when it was read ({left_out[id]})."
        new_id = read_renames(index.folder).get(id)
        if new_id is not None:
            return INDEX, f"{id} is not in the index: it was renamed to {new_id}."
        near = describe_near(find_near_names(id, sorted(documents)))
        return (
            INDEX,
            f"No document or passage of the index {index.folder} has the id {id!r}{f' ({near})' * bool(near)}.",
        )

    def _passes(self, where: Filter) -> bool:
        """Return whether a record of the document passes the filter, in any part."""
        for part, collection in self.method.collections.items():
            ids = self.records.get(part, ())
            if ids and "doc_ids" in collection.fields():
                (result,) = collection.search([FilterQuery(All((Ids(ids), where)), len(ids))])
                if result.ids:
                    return True
        return False

    def _describe_condition(self, condition: Filter) -> str:
        """Return a condition, and the value that the document has."""
        if isinstance(condition, Terms):
            description = f"{condition.field} is one of {', '.join(condition.values)}"
        elif isinstance(condition, Range):
            description = f"{condition.field} lies between {condition.low} and {condition.high}"
        else:
            return repr(condition)
        key = condition.field.removeprefix("meta.")
        return (
            description if key == condition.field else f"{description}, and it has {self._read_metadata().get(key)!r}"
        )

    def _read_metadata(self) -> Mapping[str, Any]:
        """Return the metadata of the document, or of that of the passage."""
        for part, collection in self.method.collections.items():
            ids = self.records.get(part, ())
            if ids and "metadata" in collection.fields():
                (stored, *_) = fetch_records(collection, ids[:1], ("metadata",)).column("metadata").to_pylist()
                by_document = load_stored_json(stored) if stored else {}
                return by_document.get(self.document) or next(iter(by_document.values()), {})
        return {}

    def _note_gaps(self, method: str) -> Iterator[str]:
        """Yield a sentence for each part that failed on passages of the document, or has nothing of it."""
        passages = {id for ids in self.records.values() for id in ids}
        built = map(self.method.index.record, self.method.index.all_parts(self.method.scheme))
        failures = {record.name: record.failed for record in built if record.failed}
        for part, failed in failures.items():
            own = sorted(passages & failed.keys())
            if own:
                yield f"{part} failed on {many(len(own), 'passage')} of it ({first_names(own)}): {failed[own[0]]}"
        missing = [part for part, ids in self.records.items() if not ids and part not in failures]
        if missing and passages:
            yield f"{method} also searches {first_names(missing)}, which has nothing of it."


def _find_records(collections: Mapping[str, MeteredCollection], document: str) -> dict[str, tuple[str, ...]]:
    """Return the records of a document, and if there are none, those of a passage with this id, by part."""
    records = dict[str, tuple[str, ...]]()
    for field in ("doc_ids", "passage_ids"):
        where = Overlaps(field, Terms(field, (document,)).values)  # both spellings of a document's id
        having = {part: collection for part, collection in collections.items() if field in collection.fields()}
        records = {part: _find_ids(collection, where) for part, collection in having.items()}
        if any(records.values()):
            break
    passages = tuple({id for ids in records.values() for id in ids})
    if not passages:
        return records
    others = {
        part: _find_ids(collection, Overlaps("passage_ids", passages))
        for part, collection in collections.items()
        if part not in records and "passage_ids" in collection.fields()
    }
    return records | others


def _find_ids(collection: MeteredCollection, where: Filter) -> tuple[str, ...]:
    return tuple(id for batch in collection.scan((), where) for id in batch.column("id").to_pylist())
