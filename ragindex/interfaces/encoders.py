"""Encoders: models that map texts to vectors, and what some of them can do besides.

An optional ability is a protocol that is checked at run time, such as `TokenEncoder`.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from ragindex.plugins.base import Plugin

if TYPE_CHECKING:
    from ragindex.llm.settings import LLMSettings

Floats: TypeAlias = npt.NDArray[np.float32]


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
