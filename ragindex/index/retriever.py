"""A built method that is open for searching, its hits, and where these stand in their documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Self, overload

from ragindex._util.cores import limit_blas
from ragindex._util.distribution import require_module
from ragindex._util.text import many
from ragindex.filters import Filter, from_mapping
from ragindex.index.documents import Documents
from ragindex.interfaces import Retriever
from ragindex.types import Hit, Position, Query, Retrieval, Step

if TYPE_CHECKING:
    from pandas import DataFrame

Where = Filter | Mapping[str, object]
"""A filter, or a mapping of fields to values (ragindex.filters.from_mapping)."""
_MOST_PASSAGES = 32
"""Hits of more passages, such as summaries of a whole corpus, get no positions."""
_MOST_KEPT = 20_000
"""Documents whose positions are kept in memory; a lookup in the store takes milliseconds."""


@dataclass(frozen=True, slots=True)
class PassagePositions:
    """A lookup of positions in the documents that a method was built from; none if it was built from earlier ones.

    `documents` has one view for each chunking of the method's parts. Holds `lease`, so that these documents stay on
    disk. Thread-safe.
    """

    documents: tuple[Documents, ...]
    lease: object = None
    _known: dict[tuple[int, str], Mapping[str, Position]] = field(default_factory=dict)

    def locate(self, results: Sequence[Retrieval], first: int | None = None) -> list[Retrieval]:
        """Return the retrievals with the positions of their `first` hits (None: all), from one request to the store."""
        if not self.documents:
            return list(results)
        hits = [hit for result in results for hit in result.hits[:first] if len(hit.passage_ids) <= _MOST_PASSAGES]
        positions = self.find(id for hit in hits for id in hit.passage_ids)
        return [replace(result, hits=tuple(_place(hit, positions) for hit in result.hits)) for result in results]

    def find(self, passage_ids: Iterable[str]) -> dict[str, Position]:
        """Return the positions of the passages that are known."""
        owners = {id: self._find_owner(id) for id in passage_ids}
        by_document = self._look_up(set(owners.values()))
        return {id: by_document[owner][id] for id, owner in owners.items() if id in by_document.get(owner, {})}

    def of_documents(self, doc_ids: Iterable[str]) -> dict[str, dict[str, Position]]:
        """Return the positions of all passages of the documents that are known, in order, by document."""
        by_document = self._look_up({(0, doc_id) for doc_id in doc_ids})
        return {doc_id: dict(positions) for (_, doc_id), positions in by_document.items()}

    def _find_owner(self, id: str) -> tuple[int, str]:
        """Return the number of the view that has a passage, and its document."""
        marked = [number for number, view in enumerate(self.documents) if view.mark and view.owns(id)]
        number = max(marked, key=lambda number: len(self.documents[number].mark), default=0)
        return number, self.documents[number].owner(id)

    def _look_up(self, ids: set[tuple[int, str]]) -> Mapping[tuple[int, str], Mapping[str, Position]]:
        known = {id: positions_of_id for id in ids if (positions_of_id := self._known.get(id)) is not None}
        if len(known) == len(ids):
            return known
        missing = ids - known.keys()
        read = {
            (number, document): positions
            for number in {number for number, _ in missing}
            for document, positions in self.documents[number]
            .positions(sorted(document for view, document in missing if view == number))
            .items()
        }
        if len(self._known) + len(read) > _MOST_KEPT:
            self._known.clear()
        self._known.update(read)
        return {**known, **read}


def _place(hit: Hit, positions: Mapping[str, Position]) -> Hit:
    known = [position for id in hit.passage_ids if (position := positions.get(id)) is not None]
    return replace(hit, positions=tuple(known)) if known and len(known) == len(hit.passage_ids) else hit


@dataclass(frozen=True, slots=True)
class IndexRetriever:
    """A built method, open for searching. Thread-safe; keeps the state of the index at which it was opened.

    Example:
        retriever = index.retriever("bm25")
        hits = retriever.search("When was the lighthouse built?", k=3)
    """

    method: str
    opened: Retriever
    positions: PassagePositions

    def close(self) -> None:
        """Release what `ragindex.load` opened. The retriever of an open index is released with the index.

        Example:
            retriever = ragindex.load("retriever/")
            retriever.close()
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()

    def search(self, text: str, k: int = 5, *, where: Where | None = None) -> "Hits":
        """Find the `k` best hits for one question.

        Example:
            for hit in retriever.search("Who wrote the report?", k=3, where={"meta.year": [1930, 1931]}):
                print(hit.score, hit.title, hit.doc_ids)

        `where` maps fields (`meta.KEY`, `doc_ids`) to values, lists of values or `{"gte": LOW, "lte": HIGH}`. Raises
        UsageError for an empty question or k below 1, LLMError and ServiceError from methods that call a service.
        """
        (retrieval,) = self.retrieve([Query("search", text, _as_filter(where))], k)
        return Hits(text, retrieval.hits, retrieval.trace, retrieval.notes)

    def search_many(self, texts: Sequence[str], k: int = 5, *, where: Where | None = None) -> "list[Hits]":
        """Find the `k` best hits for each question, in the order of `texts`; faster than one search per question.

        Example:
            answers = retriever.search_many(["Who built it?", "When?"], k=3)

        Raises the same errors as `search`.
        """
        condition = _as_filter(where)
        results = self.retrieve([Query(str(number), text, condition) for number, text in enumerate(texts)], k)
        return [
            Hits(text, result.hits, result.trace, result.notes) for text, result in zip(texts, results, strict=True)
        ]

    async def asearch(self, text: str, k: int = 5, *, where: Where | None = None) -> "Hits":
        """Search without blocking the event loop, by running `search` in a worker thread.

        Example:
            async def answer(question: str) -> str:
                hits = await retriever.asearch(question, k=3)
                return hits[0].text
        """
        import asyncio  # here, for commands search without it

        return await asyncio.to_thread(self.search, text, k, where=where)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return one Retrieval per query, in order; the interface that all retrievers share."""
        with limit_blas(1):  # callers bring threads of their own
            return self.positions.locate(self.opened.retrieve(queries, k))

    def __repr__(self) -> str:
        return f"IndexRetriever({self.method!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Hits(Sequence[Hit]):
    """The hits of one search, best first: a sequence of `Hit`, with the steps of the retrieval.

    Example:
        hits = retriever.search("Who wrote the report?")
        print(len(hits), hits[0].text)
        hits.to_frame()

    `trace` holds the steps of the retrieval, `notes` the texts that a method passes to the LLM beside the hits.
    """

    query: str
    hits: tuple[Hit, ...]
    trace: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[place]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def to_frame(self) -> "DataFrame":
        """Return the hits as a pandas DataFrame: score, id, title, text, doc_ids, metadata.

        Example:
            hits.to_frame().to_csv("hits.csv")

        Raises MissingExtraError if pandas is not installed.
        """
        pandas = require_module("pandas", "pandas", "to_frame")
        rows = [{name: getattr(hit, name) for name in _COLUMNS} for hit in self.hits]
        frame: DataFrame = pandas.DataFrame(rows, columns=list(_COLUMNS))
        return frame

    def __repr__(self) -> str:
        lines = [f"{place:>3}. {hit!r}" for place, hit in enumerate(self.hits, start=1)]
        return "\n".join([f"{many(len(self.hits), 'hit')} for {self.query!r}", *lines])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("score", "title", "text", "documents"))
        rows = "".join(
            f"<tr><td>{hit.score:.4g}</td><td>{escape(hit.title)}</td><td>{escape(hit.text[:300])}</td>"
            f"<td>{escape(', '.join(hit.doc_ids))}</td></tr>"
            for hit in self.hits
        )
        return f"<p>{escape(self.query)}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


_COLUMNS = ("score", "id", "title", "text", "doc_ids", "positions", "metadata")


def _as_filter(where: Where | None) -> Filter | None:
    return from_mapping(where) if isinstance(where, Mapping) else where
