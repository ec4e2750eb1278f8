"""The interfaces of ragindex: base classes of plugins, and protocols of what they open and what they may use.

A plugin is a frozen pydantic model: its fields are its parameters, as JSON. Opening it (`open`) gives the working
object. See docs/writing-a-retriever.md for a whole plugin on one page, and ragindex.llm.plugins for LLMs.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ragindex.filters import Filter
from ragindex.plugins.base import Plugin
from ragindex.types import Query, Retrieval

if TYPE_CHECKING:
    from ragindex.llm.cache import ResponseCache
    from ragindex.llm.settings import LLMSettings
    from ragindex.llm.tasks import LLM, Task

Floats: TypeAlias = npt.NDArray[np.float32]
RecordBatch: TypeAlias = pa.RecordBatch
Opened = TypeVar("Opened")
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
    def calls(self) -> "ResponseCache":
        """The cache of paid calls."""
        ...

    def open_part(self, part: "Part[Opened]") -> "Opened":
        """Open a part as the last finished sync left it. Raises MissingPartError with the command that builds it."""
        ...


class Scheme(Plugin):
    """Base class of methods: the parts that a method needs, and a retriever over them.

    A subclass states a `version`, overrides `open`, and overrides whatever else differs from the defaults.
    """

    version: ClassVar[int]
    """Raised when the same parameters would give other results."""
    order_depends_on_filter: ClassVar[bool] = False
    """Whether the order of two records can differ from one filter to another, as where scores are normalised."""

    def base_schemes(self) -> tuple["Scheme", ...]:
        """The schemes among the parameters, alone or in a list, in the order of the parameters."""
        return tuple(plugin for plugin in self.inner_plugins() if isinstance(plugin, Scheme))

    def parts(self) -> tuple["Part[Any]", ...]:
        """The parts to build before `open`, shared with every scheme that names an equal part. Default: the bases'."""
        return tuple(part for base in self.base_schemes() for part in base.parts())

    def tasks(self) -> "tuple[Task[Any], ...]":
        """What the scheme itself asks an LLM while it answers; the tasks of bases and parts are found there."""
        return ()

    def depends_on_k(self, k: int) -> bool:
        """Whether the first hits of `k` can differ from the hits of a smaller k. Default: whether those of a base can.

        Such a scheme is measured once for each k, instead of once for the largest.
        """
        return any(base.depends_on_k(k) for base in self.base_schemes())

    @abstractmethod
    def open(self, index: "OpenIndex") -> Retriever:
        """Open a retriever that is pinned to the last finished sync of `index`."""


# ---------------------------------------------------------------- parts


@dataclass(frozen=True, slots=True)
class Change:
    """One batch of work for a part: passages to make again, with their revisions, and passages to forget."""

    upsert: Mapping[str, str]
    remove: tuple[str, ...] = ()


class PartContext(Protocol):
    """What a part may use both while it is built and when it is opened."""

    @property
    def folder(self) -> Path:
        """The part's own folder, for Arrow and npy files."""
        ...

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The opened input parts, in the order of `Part.inputs`."""
        ...

    @property
    def encoder(self) -> "Encoder":
        """The index's encoder; its document vectors are cached by (encoder id, text)."""
        ...

    @property
    def language(self) -> str:
        """The language of the corpus, for text analysis."""
        ...

    def passages(self, ids: Sequence[str]) -> RecordBatch:
        """Passages of the corpus: columns id, doc_id, title, text, metadata (JSON of the document's metadata)."""
        ...


class BuildContext(PartContext, Protocol):
    """What a part may use while it is built: writable collections, the LLM, the seed, and a place to report failures.

    Encoder, LLM and imported file are there for parts whose `uses` names them.
    """

    @property
    def llm(self) -> "LLM":
        """The index's LLM, or the rules; it is asked through tasks."""
        ...

    @property
    def imported(self) -> Path | None:
        """The file that the part's content is imported from, where the index was given one."""
        ...

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        ...

    def collection(self, name: str, schema: "Schema") -> "Collection":
        """The part's writable collection `name`, created with `schema` if there is none."""
        ...

    def failed(self, id: str, reason: str) -> None:
        """Report a passage of the batch that could not be processed: it is counted, and retried at the next sync."""
        ...

    def note(self, sentence: str) -> None:
        """Add a sentence that readers of the part's figures should know; called in `finish`, stored with the part."""
        ...


class ReadContext(PartContext, Protocol):
    """What a part may use when it is opened: its collections, pinned to one version."""

    def collection(self, name: str) -> "Collection":
        """The part's collection `name`, read-only. Raises MissingPartError if no sync has finished it."""
        ...


class Part(Plugin, Generic[Opened_co]):
    """Base class of parts: data that are made from the corpus and kept up to date. `Opened_co` is what `open` returns.

    A subclass states a `version`, overrides `open`, and overrides `apply`, `finish` or both. A part's identity is its
    class, version, parameters and inputs, and whatever `uses` names.
    """

    version: ClassVar[int]
    """Raised when the same parameters would give other data."""
    uses: ClassVar[Uses] = frozenset()
    """What of the index the data depend on: its encoder, its LLM ("model", with the "prompts" of `tasks`), its seed,
    or a file ("import")."""
    finishes_changes: ClassVar[bool] = False
    """Whether each `finish` processes only what has changed: the seconds of all of them are then added up."""

    def inputs(self) -> tuple["Part[Any]", ...]:
        """The parts that this one is made from. Default: none, so it is made from the passages of the corpus."""
        return ()

    def tasks(self) -> "tuple[Task[Any], ...]":
        """What the part asks an LLM: names, versions and prompts count in its identity."""
        return ()

    @property
    def shares_records(self) -> bool:
        """Whether records can belong to several passages (merged triples, clusters), with these parameters."""
        return False

    def passages_sharing_with(self, ids: Sequence[str], context: BuildContext) -> Iterable[str]:
        """The passages that share a record with one of the passages `ids`, as the part's data stand now."""
        return ()

    def check_import(self, file: Path) -> None:
        """Check a file to import (`uses` names "import"). Raises DataError if it cannot be read."""

    def apply(self, change: Change, context: BuildContext) -> None:
        """Bring one batch up to date. Idempotent: after a crash the same batch comes again. Default: nothing."""

    def finish(self, context: BuildContext) -> None:
        """Make what can only be made whole, after the last batch; may be repeated after a crash. Default: nothing."""

    @abstractmethod
    def open(self, context: ReadContext) -> Opened_co:
        """Open what schemes work with."""


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


class StorePlugin(Plugin):
    """Base class of a store's parameters."""

    @property
    def finishes_by(self) -> Mapping[str, Any]:
        """The parameters that `Collection.finish` depends on: when they change, the next sync finishes all again."""
        return {}

    @abstractmethod
    def open(self, folder: Path) -> Store:
        """Open the engine; an embedded one keeps its files under `folder`."""


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
class ForgettingEncoder(Protocol):
    """An encoder that keeps vectors: the workspace's, while parts are built."""

    def forget(self, texts: Sequence[str]) -> None:
        """The part holds these texts no more: their vectors need not be kept, unless somebody else asks for them."""
        ...


class EncoderPlugin(Plugin):
    """Base class of the parameters of an encoder that learns nothing from the corpus."""

    @abstractmethod
    def open(self, setting: "LLMSettings | None" = None) -> Encoder:
        """Open the encoder; `setting` holds prices and the budget, for encoders that are paid.

        Raises MissingExtraError with the install command where a package is missing.
        """


class FittedEncoderPlugin(Plugin):
    """Base class of the parameters of an encoder that learns from the corpus.

    Its files are committed before the first vector is made.
    """

    @abstractmethod
    def fit(self, texts: Sequence[str], language: str, seed: int, folder: Path) -> None:
        """Learn from `texts` and write the result to the empty `folder`."""

    @abstractmethod
    def load(self, folder: Path) -> Encoder:
        """Load the encoder that was fitted into `folder`; its id is the hash of the fit."""
