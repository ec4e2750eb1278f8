"""Methods: the parts that they need, the index that these are opened from, and the retrievers that answer."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, final, runtime_checkable

import numpy as np
import numpy.typing as npt

from ragindex.interfaces.encoders import QueryEncoder
from ragindex.interfaces.parts import ChunkedPlugin, Part
from ragindex.interfaces.stores import Collection, SearchRequest
from ragindex.types import Chunking, Position, Query, Retrieval

if TYPE_CHECKING:
    from ragindex.interfaces.llm import LLM, LLMSettings
    from ragindex.llm.cache import ResponseCache
    from ragindex.llm.tasks import Task

Opened = TypeVar("Opened")


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


class Scheme(ChunkedPlugin):
    """Base class of methods: the parts that a method needs, and a retriever over them.

    A subclass sets `version`, implements `_open`, and overrides `_parts` and other methods if their defaults do not
    fit. If one of its parameters, such as `over`, is `passages(size=128)`, then all parts that `parts` returns and
    `open` opens are made from these passages.
    """

    version: ClassVar[int]
    """Increased when the same parameters would give other results."""
    order_depends_on_filter: ClassVar[bool] = False
    """Whether the order of two records can depend on the filter, as when scores are normalized."""

    def base_schemes(self) -> tuple["Scheme", ...]:
        """Return the schemes among the parameters, alone or in lists, in the order of the parameters."""
        return tuple(plugin for plugin in self.inner_plugins() if isinstance(plugin, Scheme))

    @final
    def parts(self) -> tuple["Part[Any]", ...]:
        """Return the parts to build before `open`, from passages of its chunking; schemes share equal parts."""
        chunking = self.own_chunking()
        return self._parts() if chunking is None else tuple(part.with_chunking(chunking) for part in self._parts())

    @final
    def open(self, index: "OpenIndex") -> Retriever:
        """Open a retriever that is pinned to the last finished sync of `index`. Raises MissingPartError."""
        chunking = self.own_chunking()
        return self._open(index if chunking is None else ChunkedIndex(index, chunking))

    def _parts(self) -> tuple["Part[Any]", ...]:
        """Return the parts that the method needs. Default: the base schemes' parts."""
        return tuple(part for base in self.base_schemes() for part in base.parts())

    @abstractmethod
    def _open(self, index: "OpenIndex") -> Retriever:
        """Open a retriever over the parts of `index`."""

    def tasks(self) -> "tuple[Task[Any], ...]":
        """Return the LLM tasks of the scheme's own retriever, without those of its base schemes and parts."""
        return ()

    def depends_on_k(self, k: int) -> bool:
        """Return whether the first of `k` hits can differ from the hits of a smaller k. Default: any base scheme's can.

        Such a scheme is evaluated once for each k instead of once for the largest.
        """
        return any(base.depends_on_k(k) for base in self.base_schemes())


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
