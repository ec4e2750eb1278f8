"""Where the passages of hits stand in their documents."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ragindex.types import Hit, Position, Retrieval
from ragindex.workspace.documents import Documents
import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload
from ragindex.cores import limit_blas
from ragindex.corpus import Chunking, Corpus
from ragindex.counts import many
from ragindex.distribution import require_module
from ragindex.document_ids import find_spelling, spellings
from ragindex.errors import MissingPartError, UsageError
from ragindex.export.export_retriever import Export, export_retriever
from ragindex.filters import Filter, from_mapping
from ragindex.home_folder import expand_home
from ragindex.interfaces import Retriever
from ragindex.llm.budget import Budget, parse_budget
from ragindex.llm.settings import LLMSettings
from ragindex.plugins import registry
from ragindex.plugins.registry import Written
from ragindex.types import Document, Hit, Query, Retrieval, Step
from ragindex.workers import use_workers
from ragindex.workspace.documents import Changed
from ragindex.workspace.sync import Synced
from ragindex.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pandas import DataFrame

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
    _kept: dict[tuple[int, str], Mapping[str, Position]] = field(default_factory=dict)

    def locate(self, found: Sequence[Retrieval], first: int | None = None) -> list[Retrieval]:
        """Return the retrievals with the positions of their `first` hits (None: all), from one request to the store."""
        if not self.documents:
            return list(found)
        hits = [hit for one in found for hit in one.hits[:first] if len(hit.passage_ids) <= _MOST_PASSAGES]
        positions = self.find(id for hit in hits for id in hit.passage_ids)
        return [replace(one, hits=tuple(_place(hit, positions) for hit in one.hits)) for one in found]

    def find(self, passage_ids: Iterable[str]) -> dict[str, Position]:
        """Return the positions of the passages that are known."""
        owners = {id: self._find_owner(id) for id in passage_ids}
        by_document = self._look_up(set(owners.values()))
        return {id: by_document[owner][id] for id, owner in owners.items() if id in by_document.get(owner, {})}

    def of_documents(self, doc_ids: Iterable[str]) -> dict[str, dict[str, Position]]:
        """Return the positions of all passages of the documents that are known, in order, by document."""
        found = self._look_up({(0, doc_id) for doc_id in doc_ids})
        return {doc_id: dict(positions) for (_, doc_id), positions in found.items()}

    def _find_owner(self, id: str) -> tuple[int, str]:
        """Return the number of the view that has a passage, and its document."""
        marked = [number for number, view in enumerate(self.documents) if view.mark and view.owns(id)]
        number = max(marked, key=lambda number: len(self.documents[number].mark), default=0)
        return number, self.documents[number].owner(id)

    def _look_up(self, ids: set[tuple[int, str]]) -> Mapping[tuple[int, str], Mapping[str, Position]]:
        known = {id: kept for id in ids if (kept := self._kept.get(id)) is not None}
        if len(known) == len(ids):
            return known
        missing = ids - known.keys()
        read = {
            (number, document): positions
            for number in {number for number, _ in missing}
            for document, positions in self.documents[number]
            .positions(sorted(document for one, document in missing if one == number))
            .items()
        }
        if len(self._kept) + len(read) > _MOST_KEPT:
            self._kept.clear()
        self._kept.update(read)
        return {**known, **read}


def _place(hit: Hit, positions: Mapping[str, Position]) -> Hit:
    known = [position for id in hit.passage_ids if (position := positions.get(id)) is not None]
    return replace(hit, positions=tuple(known)) if known and len(known) == len(hit.passage_ids) else hit


Where = Filter | Mapping[str, object]
"""A filter, or a mapping of fields to values (ragindex.filters.from_mapping)."""


def open_index(
    folder: Path | str,
    *,
    create: bool = False,
    read_only: bool = False,
    encoder: Written | None = None,
    llm: Written | None = None,
    store: Written | None = None,
    language: str | None = None,
    chunking: Chunking | Literal["default"] | None = "default",
    seed: int | None = None,
    budget: float | Budget | None = None,
) -> "Index":
    """Open the index in `folder`; with `create=True`, create it if it does not exist.

    Example:
        with ragindex.open("my-index", encoder="lsa", create=True) as index:
            index.add(ragindex.read("my-documents"))
            index.build("hybrid")

    `encoder`, `llm` and `store` are written as on the command line ("lsa", "openai:gpt-4o-mini", "elasticsearch");
    the default is the index's own. A build makes an encoder, an LLM and a seed that are given the index's own. `store`,
    `language` and `chunking` (None: whole documents) are set when the index is created; `Index.rechunk` changes the
    chunking. `budget` limits the spending on paid services, in dollars.
    With `read_only=True` nothing is written to the folder, so an application can serve the index from a read-only disk.
    The index's cache of LLM responses is then not used: methods that call an LLM pay for every question.

    Raises WorkspaceError if there is no index, UsageError if a fixed setting is changed, and NewerFormatError.
    """
    if create and read_only:
        raise UsageError("An index cannot be made with read_only=True. Leave out create=True or read_only=True.")
    workspace = Workspace.open(
        expand_home(folder),
        encoder=encoder,
        llm=llm,
        store=store,
        language=language,
        chunking=chunking,
        seed=seed,
        asking=LLMSettings(budget=parse_budget(budget)),
        create=create,
        read_only=read_only,
    )
    return Index(workspace)


class Index:
    """A folder with documents and the methods built over them. Opened by `ragindex.open`; a context manager.

    Example:
        with ragindex.open("my-index") as index:
            print(index, len(index))

    Only one process can write at a time; readers keep the state that they opened.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @property
    def folder(self) -> Path:
        """The folder of the index."""
        return self.workspace.folder

    def add(self, documents: Corpus | Iterable[Corpus] | Iterable[Document], *, source: str = "") -> Changed:
        """Add documents, replacing those with the same id. Returns how many were added, changed and unchanged.

        Example:
            index.add([ragindex.Document("report-7", "Annual report", "The harbour was rebuilt in 1931.")])

        `source` names the origin of the documents; it is required for a second folder. Built methods do not find the
        documents until the next `build`. Raises UsageError for a path, WorkspaceError if an id belongs to another
        source, and WriterBusyError.
        """
        return self.workspace.add(_as_documents(documents), source=source)

    def replace(self, documents: Corpus | Iterable[Document], *, source: str = "") -> Changed:
        """Make a source hold exactly these documents: add new ones, update changed ones, remove the rest.

        Example:
            index.replace(ragindex.read("my-documents"))  # after files were changed, added or deleted

        Documents of other sources stay. Raises the same errors as `add`.
        """
        return self.workspace.replace(_as_documents(documents), source=source)

    def remove(self, ids: Sequence[str]) -> Changed:
        """Remove documents by id. Built methods still find them until the next `build`.

        Example:
            index.remove(["notes/old.md"])

        Raises UsageError, and removes nothing, if one of `ids` is not in the index.
        """
        if isinstance(ids, str):
            raise UsageError(f"'ids' must be a list of ids. Got the string {ids!r}: write [{ids!r}].")
        return self.workspace.remove(ids)

    def rechunk(self, chunking: Chunking) -> Changed:
        """Split all documents by another chunking of the index; return how many have other passages than before.

        Example:
            index.rechunk(ragindex.Chunking(by="headings", size=200, overlap=0))

        Methods follow at their next `build`; those with a chunking of their own (`over=…`) stay as they are. Raises
        UsageError if the documents are passages as they are (whole documents), and WriterBusyError.
        """
        return self.workspace.rechunk(chunking)

    def refit(self) -> None:
        """Have the next `build` fit the encoder to all documents again, so that it knows the words of added ones.

        Example:
            index.refit()
            index.build()

        Without it, `lsa` is fitted again once the documents have grown or shrunk by half. Raises UsageError for an
        encoder that is not fitted to the documents, and WriterBusyError.
        """
        self.workspace.refit()

    def build(self, *methods: Written, workers: int | None = None) -> Synced:
        """Build methods, or update them to the current documents; without arguments, update every built method.

        Example:
            index.build("bm25", "hybrid(rrf_k=20)")

        What is already built is not built again, and an interrupted build resumes where it stopped. `workers` is the
        number of processes for rules and clustering; default: the cores. Raises UsageError for unknown methods and
        parameters, WorkspaceError without documents, WriterBusyError, BudgetError.
        """
        with use_workers(workers):
            return self.workspace.sync([registry.scheme(method) for method in methods])

    def retriever(self, method: Written) -> "IndexRetriever":
        """Open a built method in its state after the last build. Writes nothing and builds nothing.

        Example:
            retriever = index.retriever("hybrid")

        Raises MissingPartError, with the command that builds it, if the method is not built.
        """
        scheme = registry.scheme(method)
        label = registry.label(scheme)
        try:
            opened = self.workspace.retriever(scheme)
            return IndexRetriever(label, opened, self.workspace.positions(scheme))
        except MissingPartError as error:
            command = self.workspace.command("index", "--methods", label)
            raise MissingPartError(
                f"The method {label} is not built in {self.folder} with the encoder {self.workspace.encoder_name} and "
                f"the LLM {self.workspace.llm_name}. Call index.build({label!r}), or run: {command}"
            ) from error

    def export(self, method: Written, out: Path | str, *, pack: bool = False) -> Export:
        """Export a built method in its state after the last build, for `ragindex.load`.

        Example:
            index.export("hybrid", "retriever/")  # refers to this index
            index.export("hybrid", "retriever.ragindex", pack=True)  # one file that needs no index

        Raises MissingPartError if the method is not built, UsageError if `out` holds something else or the method
        cannot be packed, and StoreError if it cannot be written.
        """
        return export_retriever(self.workspace, registry.scheme(method), out, pack=pack)

    def newest(self) -> "Index":
        """Open the newest finished state of the index, which another process may have built since.

        Example:
            if not index.is_newest():
                index = index.newest()
                retriever = index.retriever("hybrid")

        This index stays on its state, as do its retrievers. Both have the same encoder and LLM, unless these are the
        index's own and a build has made others its own since. Raises WorkspaceError if the index is gone.
        """
        return Index(self.workspace.at_newest())

    def is_newest(self) -> bool:
        """Return whether no later build has finished since this index was opened.

        Example:
            print(index.is_newest())
        """
        return self.workspace.is_newest()

    def read(self, ids: Sequence[str]) -> list[Document]:
        """Return the existing documents among `ids`, in the order of `ids`, as of the last finished build.

        Example:
            for document in index.read(["notes/old.md"]):
                print(document.title, document.metadata)
        """
        spelled = [one for id in ids for one in spellings(id)]
        documents = {one.id: one for one in self.workspace.finished_documents().read(spelled)}
        return [documents[meant] for id in ids if (meant := find_spelling(id, documents)) is not None]

    def sources(self) -> list[dict[str, str | int]]:
        """List the sources of the documents: name, root, format, prefix of the ids, and number of documents.

        Example:
            for source in index.sources():
                print(source["name"], source["documents"])
        """
        return self.workspace.sources()

    def close(self) -> None:
        """Release the memory that the index holds; open retrievers keep working."""
        self.workspace.close()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.workspace.__exit__(kind, error, trace)

    def __len__(self) -> int:
        """Count the documents, whether or not a method is built over them."""
        return self.workspace.documents.collection.count()

    def __repr__(self) -> str:
        parts = sorted({record.name for record in self.workspace.manifest.parts.values()})
        return f"Index({str(self.folder)!r}: {many(len(self), 'document')}; parts built: {', '.join(parts) or 'none'})"


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
    loaded: Workspace | None = None
    """The index that `ragindex.load` opened for this retriever alone."""

    def close(self) -> None:
        """Release what `ragindex.load` opened. The retriever of an open index is released with the index.

        Example:
            retriever = ragindex.load("retriever/")
            retriever.close()
        """
        if self.loaded is not None:
            self.loaded.close()

    def __enter__(self) -> "IndexRetriever":
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
        (found,) = self.retrieve([Query("search", text, _as_filter(where))], k)
        return Hits(text, found.hits, found.trace, found.notes)

    def search_many(self, texts: Sequence[str], k: int = 5, *, where: Where | None = None) -> "list[Hits]":
        """Find the `k` best hits for each question, in the order of `texts`; faster than one search per question.

        Example:
            answers = retriever.search_many(["Who built it?", "When?"], k=3)

        Raises the same errors as `search`.
        """
        wanted = _as_filter(where)
        found = self.retrieve([Query(str(number), text, wanted) for number, text in enumerate(texts)], k)
        return [Hits(text, one.hits, one.trace, one.notes) for text, one in zip(texts, found, strict=True)]

    async def asearch(self, text: str, k: int = 5, *, where: Where | None = None) -> "Hits":
        """Search without blocking the event loop, by running `search` in a worker thread.

        Example:
            async def answer(question: str) -> str:
                hits = await retriever.asearch(question, k=3)
                return hits[0].text
        """
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
        frame: DataFrame = pandas.DataFrame([_as_row(hit) for hit in self.hits], columns=list(_COLUMNS))
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


def _as_row(hit: Hit) -> dict[str, Any]:
    return {name: getattr(hit, name) for name in _COLUMNS}


def _as_filter(where: Where | None) -> Filter | None:
    return from_mapping(where) if isinstance(where, Mapping) else where


def _as_documents(given: Any) -> Any:
    """Raise UsageError for a path: reading is a separate step, so that the caller can see what was skipped."""
    if isinstance(given, str | Path):
        raise UsageError(f"Expected documents, got a path. Write: ragindex.read({str(given)!r})")
    return [given] if isinstance(given, Document) else given
