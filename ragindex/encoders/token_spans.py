"""The contract of token vectors, held where an encoder's answers come in: which characters each vector stands for.

A span is (start, end) in characters of the text that was given, 0 <= start <= end <= its length. Spans may touch,
overlap, repeat (the pieces of an emoji), lie inside each other, leave gaps, come in any order, and begin within what a
reader sees as one character. One of no characters (a special token, padding) stands for nothing and is left out.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ragindex.errors import UsageError
from ragindex.interfaces import TokenEmbeddings

_Spans = npt.NDArray[np.int64]


def check_token_embeddings(
    encoder: str, dimensions: int, texts: Sequence[str], found: Sequence[TokenEmbeddings]
) -> list[TokenEmbeddings]:
    """The token vectors of each text, in the order of their spans, without those of no characters.

    Raises UsageError where they are not what the contract says, with the encoder's id and what is wrong.
    """
    if len(found) != len(texts):
        raise _broken(encoder, f"{len(found)} answers for {len(texts)} texts")
    return [_checked(encoder, dimensions, text, tokens) for text, tokens in zip(texts, found, strict=True)]


def _checked(encoder: str, dimensions: int, text: str, tokens: TokenEmbeddings) -> TokenEmbeddings:
    spans, vectors = _spans(encoder, tokens.spans), np.asarray(tokens.vectors)
    if vectors.shape != (len(spans), dimensions) and (len(spans) or vectors.size):
        shape = " x ".join(map(str, vectors.shape))
        raise _broken(
            encoder, f"{len(spans)} spans with vectors of {shape}, where {dimensions} dimensions are expected"
        )
    if not np.isfinite(vectors).all():
        raise _broken(encoder, "vectors with NaN or infinity")
    outside = np.flatnonzero((spans[:, 0] < 0) | (spans[:, 1] < spans[:, 0]) | (spans[:, 1] > len(text)))
    if len(outside):
        span = tuple(spans[outside[0]].tolist())
        raise _broken(encoder, f"the span {span} in a text of {len(text)} characters (bytes are no characters)")
    order = np.lexsort((spans[:, 1], spans[:, 0]))
    order = order[spans[order, 1] > spans[order, 0]]
    ordered = tuple((start, end) for start, end in spans[order].tolist())
    return TokenEmbeddings(ordered, vectors.reshape(len(spans), dimensions)[order])


def _spans(encoder: str, given: Any) -> _Spans:
    try:
        spans = np.array([tuple(span) for span in given] or np.empty((0, 2), np.int64))
    except (TypeError, ValueError):
        spans = np.empty(0, object)
    if spans.ndim != 2 or spans.shape[1] != 2 or spans.dtype.kind not in "iu":
        raise _broken(encoder, f"spans that are no pairs of whole numbers: {str(list(given))[:80]}")
    return spans.astype(np.int64)


def _broken(encoder: str, found: str) -> UsageError:
    return UsageError(
        f"The encoder {encoder} must give for each text a vector for each of its tokens, and the token's span: (start, "
        f"end) in characters of the text. It gave {found}. Fix the encoder, or choose another with --encoder."
    )


def locate_tokens(
    text: str, offsets: Sequence[tuple[int, int]], special: Sequence[int], prompt: int = 0
) -> tuple[list[int], tuple[tuple[int, int], ...]]:
    """Return the numbers of the tokens that stand for characters of `text`, and the span of each in it.

    `offsets` are places in what was encoded: a prompt of `prompt` characters, then `text` without outer blanks.
    `special` is 1 for tokens such as [CLS].
    """
    kept = [i for i, (start, end) in enumerate(offsets) if not special[i] and max(start, prompt) < end]
    moved = len(text) - len(text.lstrip()) - prompt
    return kept, tuple((max(offsets[i][0], prompt) + moved, offsets[i][1] + moved) for i in kept)
