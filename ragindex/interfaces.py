"""The interfaces of ragindex: base classes of plugins, and protocols of the objects that plugins open and use.

A plugin is a frozen pydantic model: its fields are its parameters, serialized as JSON. Its `open` method returns the
working object. See docs/writing-a-retriever.md for a complete plugin, and ragindex.llm.plugins for LLMs.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BeforeValidator, Field

from ragindex.errors import UsageError
from ragindex.filters import Filter
from ragindex.plugins.base import Plugin
from ragindex.types import Chunking, Position, Query, Retrieval

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
    """An object that answers queries. Thread-safe: an evaluator calls one retriever from many threads."""

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return one Retrieval per query, in order: at most `k` hits, best first, equal scores sorted by id."""
        ...


class PositionLookup(Protocol):
    """Where passages of one chunking stand in the documents that the parts were built from."""

    def find(self, passage_ids: Iterable[str]) -> dict[str, Position]:
        """Return the positions of the passages that are known."""
        ...

    def of_documents(self, doc_ids: Iterable[str]) -> dict[str, dict[str, Position]]:
        """Return the positions of all passages of the documents that are known, in order, by document."""
        ...


class OpenIndex(Protocol):
    """The parts of an index that a scheme may use when it is opened."""

    @property
    def folder(self) -> Path:
        """The folder of the index, for messages."""
        ...

    @property
    def language(self) -> str:
        """The language that texts are analysed in."""
        ...

    @property
    def encoder(self) -> "QueryEncoder":
        """The encoder of the last finished sync. Raises MissingPartError if no sync has finished."""
        ...

    @property
    def llm(self) -> "LLM":
        """The LLM, or the offline rules; its calls are cached."""
        ...

    @property
    def tokens_counted_by(self) -> str:
        """The model whose tokenizer counts token budgets; empty for the offline rules, whose tokens are estimated."""
        ...

    @property
    def setting(self) -> "LLMSettings":
        """Prices, budget, seed and clock for the clients of remote services."""
        ...

    @property
    def calls(self) -> "ResponseCache":
        """The cache of paid calls."""
        ...

    def open_part(self, part: "Part[Opened]") -> "Opened":
        """Open a part as the last finished sync left it. Raises MissingPartError with the command that builds it."""
        ...

    def open_positions(self, part: "Part[Any]") -> PositionLookup:
        """Open a look-up of the passages that a built part is made from. Raises MissingPartError."""
        ...


@dataclass(frozen=True, slots=True)
class ChunkedIndex:
    """An index whose parts are made from passages of another chunking than its own."""

    index: OpenIndex
    chunking: Chunking

    @property
    def folder(self) -> Path:
        """The folder of the index."""
        return self.index.folder

    @property
    def language(self) -> str:
        """The language of the index."""
        return self.index.language

    @property
    def encoder(self) -> "QueryEncoder":
        """The encoder of the index."""
        return self.index.encoder

    @property
    def llm(self) -> "LLM":
        """The LLM of the index."""
        return self.index.llm

    @property
    def tokens_counted_by(self) -> str:
        """The model whose tokenizer counts token budgets."""
        return self.index.tokens_counted_by

    @property
    def setting(self) -> "LLMSettings":
        """Prices, budget, seed and clock."""
        return self.index.setting

    @property
    def calls(self) -> "ResponseCache":
        """The cache of paid calls."""
        return self.index.calls

    def open_part(self, part: "Part[Opened]") -> "Opened":
        """Open a part over the passages of this chunking."""
        return self.index.open_part(part.with_chunking(self.chunking))

    def open_positions(self, part: "Part[Any]") -> PositionLookup:
        """Open a look-up of the passages of a part over this chunking."""
        return self.index.open_positions(part.with_chunking(self.chunking))


class Scheme(Plugin):
    """Base class of methods: the parts that a method needs, and a retriever over them.

    A subclass sets `version`, implements `open`, and overrides other methods if their defaults do not fit. If one of
    its parameters, such as `over`, is `passages(size=128)`, then all parts that `parts` returns and `open` opens are
    made from these passages.
    """

    version: ClassVar[int]
    """Increased when the same parameters would give other results."""
    order_depends_on_filter: ClassVar[bool] = False
    """Whether the order of two records can depend on the filter, as when scores are normalized."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Make `parts` and `open` of a subclass keep to the chunking that the parameters name."""
        super().__init_subclass__(**options)
        for name, keep in (("parts", _with_chunked_parts), ("open", _with_chunked_index)):
            if name in cls.__dict__:
                setattr(cls, name, keep(cls.__dict__[name]))

    def own_chunking(self) -> Chunking | None:
        """Return the chunking that the parameters name; None: the index's. Raises UsageError if they name several."""
        return _find_chunking(self)

    def base_schemes(self) -> tuple["Scheme", ...]:
        """Return the schemes among the parameters, alone or in lists, in the order of the parameters."""
        return tuple(plugin for plugin in self.inner_plugins() if isinstance(plugin, Scheme))

    def parts(self) -> tuple["Part[Any]", ...]:
        """Return the parts to build before `open`; schemes share equal parts. Default: the base schemes' parts."""
        return _fill(self, tuple(part for base in self.base_schemes() for part in base.parts()))

    def tasks(self) -> "tuple[Task[Any], ...]":
        """Return the LLM tasks of the scheme's own retriever, without those of its base schemes and parts."""
        return ()

    def depends_on_k(self, k: int) -> bool:
        """Return whether the first of `k` hits can differ from the hits of a smaller k. Default: any base scheme's can.

        Such a scheme is evaluated once for each k instead of once for the largest.
        """
        return any(base.depends_on_k(k) for base in self.base_schemes())

    @abstractmethod
    def open(self, index: "OpenIndex") -> Retriever:
        """Open a retriever that is pinned to the last finished sync of `index`. Raises MissingPartError."""


def _find_chunking(plugin: Plugin) -> Chunking | None:
    inner = (one for one in plugin.inner_plugins() if isinstance(one, Scheme | Part))
    found = {named for one in inner if (named := one.own_chunking()) is not None}
    if len(found) > 1:
        raise UsageError(
            f"{type(plugin).__name__} needs one chunking for all its parts. Got {len(found)} different ones: "
            f"{' and '.join(sorted(map(str, found)))}. Set `over` once, on the outermost method."
        )
    return next(iter(found), None)


def _fill(scheme: Scheme, parts: tuple["Part[Any]", ...]) -> tuple["Part[Any]", ...]:
    chunking = scheme.own_chunking()
    return parts if chunking is None else tuple(part.with_chunking(chunking) for part in parts)


def _with_chunked_parts(
    parts: "Callable[[Scheme], tuple[Part[Any], ...]]",
) -> "Callable[[Scheme], tuple[Part[Any], ...]]":
    @wraps(parts)
    def filled(self: Scheme) -> tuple["Part[Any]", ...]:
        return _fill(self, parts(self))

    return filled


def _with_chunked_index(open: "Callable[[Scheme, OpenIndex], Retriever]") -> "Callable[[Scheme, OpenIndex], Retriever]":
    @wraps(open)
    def opened(self: Scheme, index: OpenIndex) -> Retriever:
        chunking = self.own_chunking()
        return open(self, index if chunking is None else ChunkedIndex(index, chunking))

    return opened


@dataclass(frozen=True, slots=True)
class CandidateFeatures:
    """The candidates of one question: row i of `values`, shape (ids, names), has the features of the passage `ids[i]`.

    `increasing` marks the features of which greater values can only speak for a passage. `doc_ids` are the documents of
    each passage, empty if nobody asked for them.
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    increasing: tuple[bool, ...]
    values: npt.NDArray[np.float64]
    doc_ids: tuple[tuple[str, ...], ...] = ()


@runtime_checkable
class FeatureRetriever(Retriever, Protocol):
    """A retriever that ranks candidates by weighted features, whose weights `ragindex tune` can fit."""

    def features(self, queries: Sequence[Query], k: int) -> list[CandidateFeatures]:
        """Return the candidates of each question with their features and documents."""
        ...


# ---------------------------------------------------------------- parts


def _parse_chunking(value: Any) -> Any:
    """Return the parameters of a chunking that is written as `passages(by=words, size=128)`."""
    if isinstance(value, Mapping) and value.get("name") == "passages":
        return {"size": None, "overlap": 0, **value["params"]}
    return value


@dataclass(frozen=True, slots=True)
class Change:
    """One batch of work for a part: `upsert` maps passages to add or update to their revisions; `remove` lists ids."""

    upsert: Mapping[str, str]
    remove: tuple[str, ...] = ()


class PartContext(Protocol):
    """The objects that a part may use both while it is built and when it is opened."""

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
        """Return passages of the corpus.

        Columns: id, doc_id, title, text, metadata (the document's, as JSON), headings that the passage starts under,
        joined by " › ", and own_headings, a list of those in it.
        """
        ...


class BuildContext(PartContext, Protocol):
    """The objects that a part may use while it is built: writable collections, the LLM, the seed, and reports.

    Encoder, LLM and imported file are only available to parts whose `uses` names them.
    """

    @property
    def llm(self) -> "LLM":
        """The index's LLM, or the offline rules; called through tasks."""
        ...

    @property
    def imported(self) -> Path | None:
        """The file that the part's content is imported from; None if no file was given to the index."""
        ...

    @property
    def seed(self) -> int:
        """The seed of all random choices."""
        ...

    def collection(self, name: str, schema: "Schema") -> "Collection":
        """Return the part's writable collection `name`; create it with `schema` if it does not exist."""
        ...

    def failed(self, id: str, reason: str) -> None:
        """Report a passage that could not be processed. It is counted as failed and retried at the next sync."""
        ...

    def note(self, sentence: str, *, detail: bool = False) -> None:
        """Store a sentence with the part that explains its figures to users. Call it in `finish`.

        A `detail` changes no figure and no next step of the user: a short output may leave it out, but no other note.
        """
        ...


class ReadContext(PartContext, Protocol):
    """The objects that a part may use when it is opened: its collections, pinned to one version."""

    def collection(self, name: str) -> "Collection":
        """Return the part's collection `name`, read-only. Raises MissingPartError if no sync has finished it."""
        ...


class Part(Plugin, Generic[Opened_co]):
    """Base class of parts: data derived from the corpus and kept up to date. `Opened_co` is the type `open` returns.

    A subclass sets `version`, implements `open`, and overrides `apply`, `finish` or both. A part's identity is its
    class, version, parameters and inputs, and everything that `uses` names.
    """

    version: ClassVar[int]
    """Increased when the same parameters would give other data."""
    uses: ClassVar[Uses] = frozenset()
    """The parts of the index that the data depend on: its encoder, its LLM ("model", with the "prompts" of `tasks`),
    its seed, or an imported file ("import")."""
    finishes_changes: ClassVar[bool] = False
    """Whether each `finish` processes only what has changed; the times of all calls are then added up."""
    chunked: Annotated[Chunking | None, BeforeValidator(_parse_chunking)] = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="Chunking of the passages, set by the parameter over of methods. null: the index's.",
    )

    def own_chunking(self) -> Chunking | None:
        """Return the chunking of the passages that the part is made from; None: the index's."""
        return self.chunked or _find_chunking(self)

    def with_chunking(self, chunking: Chunking | None) -> Self:
        """Return the part made from passages of `chunking`, unless it names another, or None (the index's)."""
        own = self.own_chunking() or chunking
        if own is None:
            return self
        values = {name: getattr(self, name) for name in type(self).model_fields}
        inner = {name: part.with_chunking(own) for name, part in values.items() if isinstance(part, Part)}
        return self.model_copy(update={**inner, "chunked": own})

    def without_chunking(self, chunking: Chunking | None) -> Self:
        """Return the part without `chunking` in it and in the parts among its parameters; the opposite of the above."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        inner = {name: part.without_chunking(chunking) for name, part in values.items() if isinstance(part, Part)}
        return self.model_copy(update={**inner, "chunked": None if self.chunked == chunking else self.chunked})

    def to_label(self) -> Self:
        """Return an equivalent part with the shortest text: parts among its parameters take its chunking by default."""
        own = self.chunked
        return self if own is None else self.without_chunking(own).model_copy(update={"chunked": own})

    def inputs(self) -> tuple["Part[Any]", ...]:
        """Return the parts that this part is built from. Default: none; it is built from the passages."""
        return ()

    def tasks(self) -> "tuple[Task[Any], ...]":
        """Return the part's LLM tasks; their names, versions and prompts are part of its identity."""
        return ()

    @property
    def shares_records(self) -> bool:
        """Whether, with these parameters, a record can belong to several passages (merged triples, clusters)."""
        return False

    def passages_sharing_with(self, ids: Sequence[str], context: BuildContext) -> Iterable[str]:
        """Return the passages that currently share a record with one of the passages `ids`."""
        return ()

    def check_import(self, file: Path) -> None:
        """Check a file to import (`uses` names "import"). Raises DataError if it cannot be read."""

    def apply(self, change: Change, context: BuildContext) -> None:
        """Process one batch of changes. Must be idempotent: after a crash the batch is repeated. Default: no effect."""

    def finish(self, context: BuildContext) -> None:
        """Build data that needs the whole corpus, after the last batch; repeated after a crash. Default: no effect."""

    @abstractmethod
    def open(self, context: ReadContext) -> Opened_co:
        """Open the object that schemes work with."""


# ---------------------------------------------------------------- stores


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of a collection, without `id` and the `meta.KEY` fields, which may be added at any time.

    `stored` fields are strings that are returned with results; `keywords` are lists of strings, returned too and used
    in filters; `numbers` are float64. The stored fields in `text` are joined by newlines, analysed in `language`, and
    searched by `TextQuery`. With `dimensions`, records have a float32 `vector` of that length, searched by
    `VectorQuery` (cosine).
    """

    stored: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    language: str = "english"
    dimensions: int | None = None


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """A request for the `k` records with the highest cosine to `vector`; zero vectors neither find nor are found."""

    vector: Floats
    k: int
    fields: tuple[str, ...] = ()
    where: Filter | None = None


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A request for the `k` records with the highest BM25 score for `text`; they share at least one token with it."""

    text: str
    k: int
    fields: tuple[str, ...] = ()
    where: Filter | None = None


@dataclass(frozen=True, slots=True)
class FilterQuery:
    """A request for the first `k` records, sorted by id, that match `where`; their score is 0."""

    where: Filter | None
    k: int
    fields: tuple[str, ...] = ()


SearchRequest: TypeAlias = VectorQuery | TextQuery | FilterQuery


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one request: ids, best first (equal scores by id), their scores, and the requested fields."""

    ids: list[str]
    scores: npt.NDArray[np.float64]
    records: RecordBatch


@dataclass(frozen=True, slots=True)
class InMemoryVectors:
    """Vectors in memory, shape (n, dimensions), float32 or float16: row i belongs to the record `ids[i]`."""

    ids: pa.Array
    vectors: Floats


class Collection(Protocol):
    """A set of records with one schema in a store."""

    @property
    def schema(self) -> Schema:
        """The schema that the collection was created with."""
        ...

    @property
    def version(self) -> int:
        """The version to pass to `Store.open` to read the current records; increases with every write."""
        ...

    @property
    def identity(self) -> str:
        """A string that differs from that of a dropped collection of the same name, whose versions may be equal."""
        ...

    def fields(self) -> tuple[str, ...]:
        """Return the names of all fields except `id` and `vector`, including the `meta.KEY` fields of records."""
        ...

    def upsert(self, records: RecordBatch) -> None:
        """Add records, replacing those with the same id; durable on return. Missing `meta.KEY` fields become null."""
        ...

    def delete(self, ids: Iterable[str]) -> None:
        """Remove records; unknown ids are ignored."""
        ...

    def get(self, ids: Sequence[str], fields: Sequence[str]) -> RecordBatch:
        """Return the existing records among `ids`, in that order, with `id` and `fields`."""
        ...

    def scan(self, fields: Sequence[str], where: Filter | None = None) -> Iterator[RecordBatch]:
        """Yield all records that match `where`, with `id` and `fields`, in bounded batches, in no defined order."""
        ...

    def search(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """Answer all requests in one round trip, in order."""
        ...

    def resident(self) -> InMemoryVectors | None:
        """Return all vectors if the engine holds them in memory, else None. Callers must not write to them."""
        ...

    def count(self) -> int:
        """Return the number of records."""
        ...

    def finish(self) -> None:
        """Update the statistics and indexes that searches use. Call it after the last write."""
        ...

    def describe(self) -> Mapping[str, str | int | float]:
        """Describe how searches run (`search`: exact or approximate, in memory or not) and the `bytes` on disk."""
        ...


@runtime_checkable
class MultiSearchCollection(Protocol):
    """A collection whose engine can search several collections in one round trip (ragindex.stores.metered)."""

    def search_with(
        self, asked: Sequence[tuple[Collection, Sequence[SearchRequest]]]
    ) -> list[list[SearchResult]] | None:
        """Search each collection of `asked`, in order. Return None if one of them belongs to another engine."""
        ...


@runtime_checkable
class SearchingRetriever(Retriever, Protocol):
    """A retriever that sends one request per question to one collection, so that a fusion can batch several of them."""

    @property
    def collection(self) -> Collection:
        """The collection that is searched; it has the fields of hits (ragindex.retrieval.hits.HIT_FIELDS)."""
        ...

    @property
    def step(self) -> str:
        """The name of the search in a trace."""
        ...

    def requests(self, queries: Sequence[Query], k: int, fields: tuple[str, ...]) -> list[SearchRequest]:
        """Return the requests that `retrieve` sends, one per question. The questions were checked before."""
        ...


class Store(Protocol):
    """A storage engine with named, versioned collections."""

    def create(self, name: str, schema: Schema) -> Collection:
        """Open the newest state of `name` for writing, or create it. Raises if it was created with another schema."""
        ...

    def open(self, name: str, version: int) -> Collection:
        """Open `name` read-only in its state at `version`. A version can be opened after the next `Collection.finish`.

        A store may keep finished states only: a version before `finish` then opens the newest state, or raises.
        """
        ...

    def names(self) -> list[str]:
        """Return the names of all collections, sorted."""
        ...

    def version(self, name: str) -> int | None:
        """Return the newest version of `name`, or None if there is no such collection."""
        ...

    def clean(self, name: str, kept: Set[int]) -> None:
        """Remove the versions of `name` that are neither in `kept` nor the newest; nobody reads them any more.

        The caller holds the lease. Unknown versions in `kept` are ignored.
        """
        ...

    def drop(self, name: str) -> None:
        """Remove a collection; do nothing if it does not exist."""
        ...

    def lease(self, owner: str) -> AbstractContextManager[None]:
        """Acquire the exclusive right to write. Raises WriterBusyError, which names the holder, if it is taken."""
        ...


class StorePlugin(Plugin):
    """Base class of a store's parameters."""

    @property
    def finishes_by(self) -> Mapping[str, Any]:
        """The parameters that `Collection.finish` depends on; if they change, the next sync calls it again."""
        return {}

    @abstractmethod
    def open(self, folder: Path) -> Store:
        """Open the engine; an embedded engine keeps its files under `folder`."""


# ---------------------------------------------------------------- encoders


class Encoder(Protocol):
    """A model that maps texts to vectors of length one. Thread-safe."""

    @property
    def id(self) -> str:
        """The id of what vectors depend on (model and revision, or fit); part of the identity of every vector part."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        ...

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """Encode texts of the index: shape (len(texts), dimensions), unit rows; an empty text may give a zero row."""
        ...

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Encode questions: shape (len(texts), dimensions), unit rows; an empty text may give a zero row."""
        ...


class QueryEncoder(Encoder, Protocol):
    """The encoder of an open index, for use by retrievers."""

    def encode_passing(self, texts: Sequence[str]) -> Floats:
        """Encode texts that are neither in the index nor questions (chains of triples, a made-up answer) as documents.

        Never cached.
        """
        ...


@dataclass(frozen=True, slots=True)
class TokenEmbeddings:
    """Token-level vectors of one text: row i of `vectors` represents the characters `spans[i]` (start, end).

    `ragindex.encoders.token_spans` defines which spans are allowed, and checks every encoder.
    """

    spans: tuple[tuple[int, int], ...]
    vectors: Floats


@runtime_checkable
class TokenEncoder(Protocol):
    """An encoder that also returns one vector per token. Optional; late interaction and entity matching need it."""

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        """Return the token vectors of each text, in the same space as the text vectors.

        They do not depend on the other texts, not even in their last digits: what is stored of a text is then
        the same in whatever batch it was encoded.
        """
        ...

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[TokenEmbeddings]]:
        """Return the result of `encode_queries` and the token vectors of the same forward pass."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """An encoder that tells how it splits texts into tokens. Optional; chunking by tokens needs it."""

    @property
    def max_tokens(self) -> int | None:
        """The number of tokens of a text that are encoded, without special ones; None: all."""
        ...

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the characters (start, end) of each token of the whole text, in order, without special tokens."""
        ...


@runtime_checkable
class VocabularyEncoder(Protocol):
    """An encoder that knows only the words it was fitted to. Optional; then `ragindex add` names the others."""

    @property
    def is_full(self) -> bool:
        """Whether it has as many words as it can hold, so that a new fit may leave rare words out again."""
        ...

    def check_words(self, text: str) -> dict[str, bool]:
        """Return the words of a text that carry meaning, in their order, and whether the encoder knows each."""
        ...


@dataclass(frozen=True, slots=True)
class EncodingFailure:
    """Why one text has no vector, although others have."""

    reason: str


@runtime_checkable
class PaidEncoder(Protocol):
    """An encoder whose requests cost money (remote services).

    Before each request it reserves its cost in the budget (ragindex.llm.budget); after the response it records the
    call in the ledger (ragindex.accounting.ledger).
    """

    texts_a_request: int
    """The largest number of texts in one request."""

    def encode_by_request(self, texts: Sequence[str]) -> Iterator[Floats | EncodingFailure]:
        """Yield the rows of `texts` in order, one array per request, so that each is stored before the next request.

        An EncodingFailure stands in the place of a text that the service refuses while it takes others.
        """
        ...


@runtime_checkable
class CachingEncoder(Protocol):
    """An encoder that caches vectors: the index's encoder while parts are built."""

    def encode_each(self, texts: Sequence[str]) -> tuple[Floats, dict[int, EncodingFailure]]:
        """Encode texts of the index; also return, by position, the failures of those that alone have no vector.

        Their rows are zero. Their failures are not cached.
        """
        ...

    def forget(self, texts: Sequence[str]) -> None:
        """Mark the vectors of these texts as unused by the part; they may be removed unless requested again."""
        ...


class EncoderPlugin(Plugin):
    """Base class of the parameters of a pretrained encoder, which learns nothing from the corpus."""

    @abstractmethod
    def open(self, setting: "LLMSettings | None" = None) -> Encoder:
        """Open the encoder; `setting` holds prices and the budget for paid encoders.

        Raises MissingExtraError with the install command if a package is missing.
        """


class FittedEncoderPlugin(Plugin):
    """Base class of the parameters of an encoder that is fitted to the corpus.

    Its files are committed before the first vector is computed.
    """

    @abstractmethod
    def fit(self, texts: Sequence[str], language: str, seed: int, folder: Path) -> None:
        """Fit the encoder to `texts` and write it to the empty `folder`."""

    @abstractmethod
    def load(self, folder: Path) -> Encoder:
        """Load the encoder fitted into `folder`; its id is the hash of the fit."""
