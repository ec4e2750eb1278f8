"""Encoders: models that map texts to vectors, and what some of them can do besides.

What an encoder may be able to do besides has a default in `Encoder`; token vectors are a protocol of their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from ragindex.errors import UsageError
from ragindex.plugins.base import Plugin

if TYPE_CHECKING:
    from ragindex.interfaces.llm import LLMSettings

Floats: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EncodingFailure:
    """Why one text has no vector, although others have."""

    reason: str


class Encoder(ABC):
    """Base class of models that map texts to vectors of length one. Thread-safe."""

    texts_a_request: int | None = None
    """The largest number of texts in one paid request; None for an encoder that costs nothing."""

    takes_vectors: bool = False
    """Whether `forget` uses the vectors that it is given; reading them is needless otherwise."""

    @property
    @abstractmethod
    def id(self) -> str:
        """The id of what vectors depend on (model and revision, or fit); part of the identity of every vector part."""

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """The length of the vectors."""

    @abstractmethod
    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """Encode texts of the index: shape (len(texts), dimensions), unit rows; an empty text may give a zero row."""

    @abstractmethod
    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Encode questions: shape (len(texts), dimensions), unit rows; an empty text may give a zero row."""

    def encode_by_request(self, texts: Sequence[str]) -> Iterator[Floats | EncodingFailure]:
        """Yield the rows of `texts` in order, one array per request, so that each is stored before the next request.

        Called if `texts_a_request` is given. An EncodingFailure stands in the place of a text that the service refuses
        while it takes others. Before each request its cost is reserved in the budget (ragindex.llm.budget); after the
        response the call is recorded in the ledger (ragindex.accounting.ledger). Default: one array.
        """
        yield self.encode_documents(texts)

    @property
    def max_tokens(self) -> int | None:
        """The number of tokens of a text that are encoded, without special ones. Default: None, all or not known."""
        return None

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the characters (start, end) of each token of the whole text, in order, without special tokens.

        Default: raise UsageError, so that passages cannot be chunked by tokens.
        """
        raise UsageError(
            f"The encoder {self.id} counts no tokens, so passages cannot be chunked by tokens. Use: by=words"
        )

    def check_words(self, text: str) -> dict[str, bool] | None:
        """Return the words of a text that carry meaning, in their order, and whether the encoder knows each.

        Default: None, as of an encoder that knows parts of every word. With words, `ragindex add` names unknown ones.
        """
        return None

    @property
    def is_full(self) -> bool:
        """Whether it has as many words as it can hold, so that a new fit may leave rare words out again."""
        return False

    def encode_each(self, texts: Sequence[str]) -> tuple[Floats, dict[int, EncodingFailure]]:
        """Encode texts of the index; also return, by position, the failures of those that alone have no vector.

        Their rows are zero. Their failures are not cached. Default: `encode_documents`, without failures.
        """
        return self.encode_documents(texts), {}

    def forget(  # noqa: B027  # most encoders keep nothing
        self, texts: Sequence[str], vectors: Floats | None = None
    ) -> None:
        """Mark the vectors of these texts as unused by a part; a cache may remove them. Default: no effect.

        `vectors` are those that the part stores, so that texts that move to another passage need not be encoded again.
        """


class QueryEncoder(Encoder):
    """The encoder of an open index, for use by retrievers."""

    @abstractmethod
    def encode_passing(self, texts: Sequence[str]) -> Floats:
        """Encode texts that are neither in the index nor questions (chains of triples, a made-up answer) as documents.

        Never cached.
        """


@dataclass(frozen=True, slots=True)
class TokenEmbeddings:
    """Token-level vectors of one text: row i of `vectors` represents the characters `spans[i]` (start, end).

    `ragindex.encoders.vectors` defines which spans are allowed, and checks every encoder.
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
