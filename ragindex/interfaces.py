"""The interfaces that everything hangs on. Plugins implement these; the framework calls nothing else.

A plugin is a frozen pydantic model: its fields are its parameters, as JSON. Opening it (`open`) gives the working
object. See docs/writing-a-retriever.md for a whole plugin on one page.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ragindex.filters import Filter
from ragindex.types import Query, Retrieval

if TYPE_CHECKING:
    from ragindex.llm.cache import CallCache
    from ragindex.llm.prices import Prices
    from ragindex.llm.settings import LLMSettings
    from ragindex.llm.tasks import LLM, Task

Floats: TypeAlias = npt.NDArray[np.float32]
RecordBatch: TypeAlias = pa.RecordBatch
Opened_co = TypeVar("Opened_co", covariant=True)
Uses: TypeAlias = frozenset[Literal["encoder", "model", "prompts", "import", "seed"]]


# ---------------------------------------------------------------- retrieval


class Retriever(Protocol):
    """Answers queries. Thread-safe: an evaluator calls one retriever from many threads."""

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """At most `k` hits for each query, best first, equal scores by id; one Retrieval a query, in order."""
        ...


class OpenIndex(Protocol):
    """What a scheme may use of the index that it is opened over."""

    @property
    def folder(self) -> Path:
        """The index's folder, for messages that name it."""
        ...

    @property
    def language(self) -> str:
        """The language that texts are analysed in."""
        ...

    @property
    def encoder(self) -> "QueryEncoder":
        """The encoder of the last finished sync. Raises MissingPartError before there was one."""
        ...

    @property
    def llm(self) -> "LLM":
        """The language model, or the rules; its calls are cached."""
        ...

    @property
    def tokens_counted_by(self) -> str:
        """The model whose tokens a budget is counted in; empty for the rules, whose tokens are estimated."""
        ...

    @property
    def setting(self) -> "LLMSettings":
        """Prices, budget, seed and clock of whatever asks a remote service."""
        ...

    @property
    def calls(self) -> "CallCache":
        """The cache of paid calls."""
        ...

    def open_part(self, part: "Part[Any]") -> Any:
        """Open a part as the last finished sync left it. Raises MissingPartError with the command that builds it."""
        ...


class IndexingScheme(Protocol):
    """A method: the parts it needs and a retriever over them. A frozen pydantic model.

    A scheme is measured once for each k where its ten best may not be the first ten of its twenty best. It says so with
    an attribute `reads_k = True`, or `reads_k_above = N` where that holds only if more than N are asked for. A scheme
    over bases says nothing of theirs: they are found among its parameters. `reads_k = False` says that it asks them for
    as many whatever k is. `relative = True` says that two records can stand in another order under another filter.
    """

    version: ClassVar[int]
    """Raised when the same parameters would give other results."""

    def parts(self) -> tuple["Part[Any]", ...]:
        """What must be built before `open`; shared with every scheme that names an equal part."""
        ...

    def open(self, workspace: "OpenIndex") -> Retriever:
        """A retriever pinned to the workspace's last finished sync."""
        ...


# ---------------------------------------------------------------- parts


@dataclass(frozen=True, slots=True)
class Change:
    """One batch of work for a part: passages to make again, with their revisions, and passages to forget."""

    upsert: Mapping[str, str]
    remove: tuple[str, ...] = ()


class Site(Protocol):
    """Where a part lives and what it may use while it is built or opened."""

    @property
    def folder(self) -> Path:
        """A folder of the part's own, for Arrow and npy files."""
        ...

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The opened input parts, in the order of `Part.inputs`."""
        ...

    @property
    def encoder(self) -> "Encoder":
        """The workspace's encoder; its document vectors are cached by (encoder id, text)."""
        ...

    @property
    def llm(self) -> "LLM":
        """The workspace's language model, or the rules; it is asked through tasks."""
        ...

    @property
    def imported(self) -> Path | None:
        """The file that this part's content is imported from, where the workspace was given one."""
        ...

    @property
    def language(self) -> str:
        """The language of the corpus, for text analysis."""
        ...

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        ...

    def collection(self, name: str, schema: "Schema | None" = None) -> "Collection":
        """The part's collection `name`: writable while building (made from `schema` the first time), else pinned."""
        ...

    def passages(self, ids: Sequence[str]) -> RecordBatch:
        """Passages of the corpus: columns id, doc_id, title, text, metadata (JSON of the document's metadata)."""
        ...

    def failed(self, id: str, reason: str) -> None:
        """A passage of the batch that could not be made: it is counted, not covered, and comes again the next sync."""
        ...

    def note(self, sentence: str) -> None:
        """Something that a reader of the figures should know; said in `finish`, kept with the part."""
        ...


class Part(Protocol[Opened_co]):
    """Something made from the corpus and kept up to date. A frozen pydantic model.

    Its identity is class, version, parameters, the identity of its inputs and what `uses` names.
    """

    version: ClassVar[int]
    uses: ClassVar[Uses]

    def inputs(self) -> tuple["Part[Any]", ...]:
        """The parts this one is made from; none: it is made from the passages of the corpus."""
        ...

    def apply(self, change: Change, site: Site) -> None:
        """Bring one batch up to date. Idempotent: after a crash the same batch comes again."""
        ...

    def finish(self, site: Site) -> None:
        """Make what can only be made whole; once, after the last batch. May be started again after a crash."""
        ...

    def open(self, site: Site) -> Opened_co:
        """What schemes work with."""
        ...


@runtime_checkable
class PartWithTasks(Protocol):
    """What a part has besides when it asks a language model (`uses` names "model" and "prompts")."""

    def tasks(self) -> "tuple[Task[Any], ...]":
        """What it asks: names, versions and prompts count in the part's identity."""
        ...


@runtime_checkable
class PartWithImport(Protocol):
    """What a part has besides when its content can come from a file (`uses` names "import")."""

    def check_import(self, file: Path) -> None:
        """Raises DataError where the file cannot be read, before anything is built."""
        ...


@runtime_checkable
class PartWithSharedRecords(Protocol):
    """What a part has besides when its records can belong to several passages (merged triples, clusters)."""

    @property
    def shares(self) -> bool:
        """Whether they can, with these parameters."""
        ...

    def neighbours(self, ids: Sequence[str], site: Site) -> Iterable[str]:
        """The passages that share a record with one of the passages `ids`, as the part's data stand now."""
        ...


# ---------------------------------------------------------------- stores


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of a collection beside `id` and the `meta.KEY` fields, which may come at any time.

    `stored` strings are given back; `keywords` are lists of strings for filters, given back too; `numbers` are
    float64. The stored fields named by `text` are analysed together (joined by a newline) in `language` and searched
    by `Match`. With `dimensions`, records have a `vector` of that many float32, searched by `Nearest` (cosine).
    """

    stored: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    language: str = "english"
    dimensions: int | None = None


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """The `k` records whose vectors have the highest cosine with `vector`; a zero vector finds and is found by none."""

    vector: Floats
    k: int
    fields: tuple[str, ...] = ()
    where: Filter | None = None


@dataclass(frozen=True, slots=True)
class TextQuery:
    """The `k` records with the highest BM25 score for `text`; records that share no token with it are not found."""

    text: str
    k: int
    fields: tuple[str, ...] = ()
    where: Filter | None = None


@dataclass(frozen=True, slots=True)
class FilterQuery:
    """The first `k` records by id that pass `where`; their score is 0."""

    where: Filter | None
    k: int
    fields: tuple[str, ...] = ()


SearchRequest: TypeAlias = VectorQuery | TextQuery | FilterQuery


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one request: ids best first (equal scores by id), their scores, and the fields asked for."""

    ids: list[str]
    scores: npt.NDArray[np.float64]
    records: RecordBatch


@dataclass(frozen=True, slots=True)
class InMemoryVectors:
    """Vectors held in memory, (n, dimensions) in float32 or float16: row i is that of the record `ids[i]`."""

    ids: pa.Array
    vectors: Floats


class Collection(Protocol):
    """Records of one schema in a store."""

    @property
    def schema(self) -> Schema:
        """What the collection was made with."""
        ...

    @property
    def version(self) -> int:
        """What `Store.open` needs to read the records as they are now; rises with every write."""
        ...

    @property
    def identity(self) -> str:
        """Tells this collection from one of the same name that was dropped: their versions may have equal numbers."""
        ...

    def fields(self) -> tuple[str, ...]:
        """The names of all fields beside `id` and `vector`, the `meta.KEY` fields that came with records included."""
        ...

    def upsert(self, records: RecordBatch) -> None:
        """Add records, replacing those with the same id. Durable when it returns. Missing `meta.` fields are null."""
        ...

    def delete(self, ids: Iterable[str]) -> None:
        """Remove records; ids that are not there are ignored."""
        ...

    def get(self, ids: Sequence[str], fields: Sequence[str]) -> RecordBatch:
        """Those of `ids` that exist, in the order asked, with `id` and `fields`."""
        ...

    def scan(self, fields: Sequence[str], where: Filter | None = None) -> Iterator[RecordBatch]:
        """All records that pass `where`, with `id` and `fields`, in bounded batches, in no stated order."""
        ...

    def search(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """Many requests in one round trip, answered in order."""
        ...

    def resident(self) -> InMemoryVectors | None:
        """All vectors, where the engine holds them in memory; None where it does not. Never to be written to."""
        ...

    def count(self) -> int:
        """How many records there are."""
        ...

    def finish(self) -> None:
        """Bring what searches depend on (statistics, indexes) in line with the records; after the last write."""
        ...

    def describe(self) -> Mapping[str, str | int | float]:
        """How searches are answered (`search`: exact or approximate, from where) and the `bytes` on disk."""
        ...


@runtime_checkable
class MultiSearchCollection(Protocol):
    """What a collection has besides where its engine searches several in one round trip
    (ragindex.stores.multi_search).
    """

    def search_with(
        self, asked: Sequence[tuple[Collection, Sequence[SearchRequest]]]
    ) -> list[list[SearchResult]] | None:
        """As `Collection.search`, for each of `asked` in order; None where one of them is not of this engine."""
        ...


@runtime_checkable
class SearchingRetriever(Retriever, Protocol):
    """A retriever that makes one request a question to one collection: who fuses several asks them all at once."""

    @property
    def collection(self) -> Collection:
        """What is searched; it has the fields of hits."""
        ...

    @property
    def step(self) -> str:
        """The search's name in a trace."""
        ...

    def requests(self, queries: Sequence[Query], k: int, fields: tuple[str, ...]) -> list[SearchRequest]:
        """What `retrieve` asks, one request a question; the questions were checked."""
        ...


class Store(Protocol):
    """An engine that holds collections."""

    def create(self, name: str, schema: Schema) -> Collection:
        """The newest state of `name`, writable; made if it is not there. Raises if it was made with another schema."""
        ...

    def open(self, name: str, version: int) -> Collection:
        """`name` as it was at `version`, read-only. A version can be opened once `Collection.finish` has come after it.

        A store may keep finished states only: a version before `finish` then opens the newest state, or raises.
        """
        ...

    def names(self) -> list[str]:
        """The names of all collections, sorted."""
        ...

    def version(self, name: str) -> int | None:
        """The newest version of `name`, None where there is no such collection."""
        ...

    def clean(self, name: str, kept: Set[int]) -> None:
        """Remove the versions of `name` that are neither `kept` nor the newest. The caller holds the lease.

        Nobody reads those any more. What `kept` names and the store has not is no error.
        """
        ...

    def drop(self, name: str) -> None:
        """Remove a collection; nothing happens where there is none."""
        ...

    def lease(self, owner: str) -> AbstractContextManager[None]:
        """The right to write, for one holder at a time. Raises WriterBusyError, which says who holds it."""
        ...


class StorePlugin(Protocol):
    """A store's parameters: a frozen pydantic model."""

    @property
    def finishes_by(self) -> Mapping[str, Any]:
        """The parameters that `Collection.finish` goes by: when they change, the next sync finishes all again."""
        ...

    def open(self, folder: Path) -> Store:
        """The engine; an embedded one keeps its files under `folder`."""
        ...


# ---------------------------------------------------------------- encoders


class Encoder(Protocol):
    """Texts to vectors of length one. Thread-safe."""

    @property
    def id(self) -> str:
        """Names what vectors depend on (model and revision, or fit); part of every vector part's identity."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        ...

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """Texts of the index: (len(texts), dimensions), rows of length one; a text with nothing in it may be zero."""
        ...

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Questions: (len(texts), dimensions), rows of length one; a text with nothing in it may be zero."""
        ...


class QueryEncoder(Encoder, Protocol):
    """The encoder of an open index."""

    def encode_passing(self, texts: Sequence[str]) -> Floats:
        """Encode texts that are compared with a question and are not of the index (chains of triples): never cached."""
        ...


@dataclass(frozen=True, slots=True)
class TokenEmbeddings:
    """Token-level vectors of one text: `spans[i]` are the characters that row i of `vectors` stands for.

    Which spans may be given is in `ragindex.encoders.token_spans`, which holds every encoder to it.
    """

    spans: tuple[tuple[int, int], ...]
    vectors: Floats


@runtime_checkable
class TokenEncoder(Protocol):
    """An encoder that also gives one vector a token. Optional: late interaction and entity matching need it."""

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        """Token vectors of each text, in the space of the text vectors."""
        ...

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[TokenEmbeddings]]:
        """What `encode_queries` gives, and the token vectors of the same pass."""
        ...


@runtime_checkable
class PaidEncoder(Protocol):
    """An encoder whose requests cost money (remote services).

    It books each on the ledger when it is answered (ragindex.accounting.ledger), and sets money aside for it before it
    is sent (ragindex.llm.budget).
    """

    texts_a_request: int
    """At most so many texts go into one request."""

    def encode_by_request(self, texts: Sequence[str]) -> Iterator[Floats]:
        """The rows of `texts` in order, those of a request as soon as it is answered: they are kept before the next."""
        ...


@runtime_checkable
class PaidPlugin(Protocol):
    """What a plugin has besides when requests of what it opens cost money: a language model, an encoder, a reranker."""

    def price_missing(self, prices: "Prices") -> str | None:
        """What to say where its price is not known: a budget refuses it before anything is paid. None where it is."""
        ...


@runtime_checkable
class ForgettingEncoder(Protocol):
    """An encoder that keeps vectors: the workspace's, while parts are built."""

    def forget(self, texts: Sequence[str]) -> None:
        """The part holds these texts no more: their vectors need not be kept, unless somebody else asks for them."""
        ...


@runtime_checkable
class EncoderPlugin(Protocol):
    """An encoder's parameters: a frozen pydantic model. The text after `NAME:` goes to the field `argument` names."""

    argument: ClassVar[str]

    def open(self, setting: "LLMSettings | None" = None) -> Encoder:
        """The working encoder; raises MissingExtraError with the install line where a package is missing.

        `setting` holds prices and the budget, for encoders that pay.
        """
        ...


@runtime_checkable
class FittedEncoderPlugin(Protocol):
    """An encoder that learns from the corpus. Its files are committed before the first vector is made."""

    argument: ClassVar[str]

    def fit(self, texts: Sequence[str], language: str, seed: int, folder: Path) -> None:
        """Learn from `texts` and write what was learnt to the empty `folder`."""
        ...

    def load(self, folder: Path) -> Encoder:
        """The encoder that was fitted into `folder`; its id is the hash of the fit."""
        ...


# ---------------------------------------------------------------- language models


@runtime_checkable
class LLMPlugin(Protocol):
    """A language model's parameters: a frozen pydantic model."""

    def open(self, setting: "LLMSettings | None" = None) -> "LLM":
        """Something that does tasks (ragindex.llm.tasks); asks nothing yet."""
        ...
