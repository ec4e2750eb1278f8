"""What encoders return: vectors (rows of length one, rows that failed, vectors of tokens with spans), words they know.

A span is (start, end) in characters of the given text, 0 <= start <= end <= its length. Spans may touch, overlap,
repeat (the pieces of an emoji), contain each other, leave gaps, come in any order, and begin inside a grapheme of
several characters. Empty spans (special tokens, padding) represent nothing and are dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ragindex.errors import UsageError
from ragindex.interfaces import Encoder, EncodingFailure, Floats, TokenEmbeddings

PROBE = "dimensions"
"""A text that any encoder has a vector for: if it has one, and a text has none, the text is at fault."""


def separate_failures(vectors: Floats, reasons: Mapping[int, str]) -> Iterator[Floats | EncodingFailure]:
    """Yield the rows of `vectors` in order, with an EncodingFailure in the place of each row in `reasons`."""
    start = 0
    for row in sorted(reasons):
        if row > start:
            yield vectors[start:row]
        yield EncodingFailure(reasons[row])
        start = row + 1
    if start < len(vectors):
        yield vectors[start:]


def normalize_rows(vectors: Any, shortest: float = 0.0) -> Floats:
    """Scale rows, shape (n, dimensions), to length one, as float32; rows no longer than `shortest` become zero."""
    rows = np.asarray(vectors)
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    scaled: Floats = np.zeros(rows.shape, dtype=np.float32)
    np.divide(rows, lengths, out=scaled, where=lengths > shortest, casting="same_kind")
    return scaled


# ---------------------------------------------------------------- vectors of tokens

_Spans = npt.NDArray[np.int64]


def check_token_embeddings(
    encoder: str, dimensions: int, texts: Sequence[str], embeddings: Sequence[TokenEmbeddings], *, finite: bool = True
) -> list[TokenEmbeddings]:
    """Return the token vectors of each text, sorted by span, without those of empty spans.

    Raises UsageError, with the encoder's id and the reason, if spans or vectors break the contract. NaN and infinity
    are the caller's to check unless vectors must be `finite`.
    """
    if len(embeddings) != len(texts):
        raise _make_error(encoder, f"{len(embeddings)} answers for {len(texts)} texts")
    return [_check(encoder, dimensions, text, tokens, finite) for text, tokens in zip(texts, embeddings, strict=True)]


def _check(encoder: str, dimensions: int, text: str, tokens: TokenEmbeddings, finite: bool) -> TokenEmbeddings:
    spans, vectors = _convert_spans(encoder, tokens.spans), np.asarray(tokens.vectors)
    if vectors.shape != (len(spans), dimensions) and (len(spans) or vectors.size):
        shape = " x ".join(map(str, vectors.shape))
        raise _make_error(
            encoder, f"{len(spans)} spans with vectors of {shape}, where {dimensions} dimensions are expected"
        )
    if finite and not np.isfinite(vectors).all():
        raise _make_error(encoder, "vectors with NaN or infinity")
    outside = np.flatnonzero((spans[:, 0] < 0) | (spans[:, 1] < spans[:, 0]) | (spans[:, 1] > len(text)))
    if len(outside):
        span = tuple(spans[outside[0]].tolist())
        raise _make_error(encoder, f"the span {span} in a text of {len(text)} characters (bytes are no characters)")
    order = np.lexsort((spans[:, 1], spans[:, 0]))
    order = order[spans[order, 1] > spans[order, 0]]
    ordered = tuple((start, end) for start, end in spans[order].tolist())
    return TokenEmbeddings(ordered, vectors.reshape(len(spans), dimensions)[order])


def _convert_spans(encoder: str, given: Any) -> _Spans:
    try:
        spans = np.array([tuple(span) for span in given] or np.empty((0, 2), np.int64))
    except (TypeError, ValueError):
        spans = np.empty(0, object)
    if spans.ndim != 2 or spans.shape[1] != 2 or spans.dtype.kind not in "iu":
        raise _make_error(encoder, f"spans that are no pairs of whole numbers: {str(list(given))[:80]}")
    return spans.astype(np.int64)


def _make_error(encoder: str, problem: str) -> UsageError:
    return UsageError(
        f"The encoder {encoder} must give for each text a vector for each of its tokens, and the token's span: (start, "
        f"end) in characters of the text. It gave {problem}. Fix the encoder, or choose another with --encoder."
    )


def locate_tokens(
    text: str, offsets: Sequence[tuple[int, int]], special: Sequence[int], prompt: int = 0
) -> tuple[list[int], tuple[tuple[int, int], ...]]:
    """Return the numbers of the tokens that stand for characters of `text`, and the span of each in it.

    `offsets` are places in what was encoded: a prompt of `prompt` characters, then `text` without outer blanks.
    `special` is 1 for tokens such as [CLS].
    """
    tokens = [i for i, (start, end) in enumerate(offsets) if not special[i] and max(start, prompt) < end]
    moved = len(text) - len(text.lstrip()) - prompt
    return tokens, tuple((max(offsets[i][0], prompt) + moved, offsets[i][1] + moved) for i in tokens)


@dataclass(frozen=True, slots=True)
class WordCount:
    """How many words there are, and how many of them an encoder does not know. A word counts once in each text."""

    words: int = 0
    unknown: int = 0

    @property
    def unknown_share(self) -> float:
        """The share of the words that is unknown."""
        return self.unknown / self.words if self.words else 0.0

    def __add__(self, other: "WordCount") -> "WordCount":
        return WordCount(self.words + other.words, self.unknown + other.unknown)


def count_words(encoder: Encoder, text: str) -> WordCount:
    """Count the words of a text; none of an encoder that knows parts of every word."""
    known = encoder.check_words(text) or {}
    return WordCount(len(known), sum(not is_known for is_known in known.values()))
