"""Encoding of a batch of records, of which single ones may have no vector, and the tokens that an encoder reads."""

from collections.abc import Sequence

import numpy as np

from ragindex._util.text import many
from ragindex.errors import UsageError
from ragindex.interfaces import BuildContext, CachingEncoder, Collection, Encoder, EncodingFailure, Floats, TokenCounter


def encode_each(texts: Sequence[str], encoder: Encoder) -> tuple[Floats, dict[int, EncodingFailure]]:
    """Return the vectors of texts, and by position the failures of those that alone have none; their rows are zero."""
    if isinstance(encoder, CachingEncoder):
        return encoder.encode_each(texts)
    return encoder.encode_documents(texts), {}


def encode_records(texts: Sequence[str], ids: Sequence[str], context: BuildContext) -> tuple[list[int], Floats]:
    """Return the positions of the records `ids` whose texts have vectors, and the vectors.

    The others are reported to the context, so the next sync encodes them again.
    """
    vectors, failures = encode_each(texts, context.encoder)
    for row, failure in failures.items():
        context.failed(ids[row], failure.reason)
    rows = np.array([row for row in range(len(texts)) if row not in failures], np.int64)
    return rows.tolist(), vectors[rows]


TOKENS = "tokens"
"""The number of tokens of a record's whole text; 0 if they cannot be counted."""


def token_fields(encoder: Encoder) -> tuple[str, ...]:
    """Return the number fields that records of encoded texts need: `tokens` if the encoder reads only so many."""
    return () if find_token_limit(encoder) is None else (TOKENS,)


def find_token_limit(encoder: Encoder) -> int | None:
    """Return how many tokens of a text the encoder reads; None: all, or it does not tell."""
    return encoder.max_tokens if isinstance(encoder, TokenCounter) else None


def count_record_tokens(texts: Sequence[str], encoder: Encoder) -> list[float]:
    """Return the number of tokens of each text, 0 where the encoder cannot count (a vocabulary that is not here)."""
    if not isinstance(encoder, TokenCounter):
        return [0.0] * len(texts)
    try:
        return [float(len(encoder.token_spans(text))) for text in texts]
    except UsageError:
        return [0.0] * len(texts)


def note_unread(records: Collection, context: BuildContext) -> None:
    """Note the records with more tokens than the encoder reads, from what is stored with them."""
    limit = find_token_limit(context.encoder)
    if limit is None:
        return
    batches = (batch.column(TOKENS).to_numpy(zero_copy_only=False) for batch in records.scan((TOKENS,)))
    tokens = np.concatenate([np.zeros(0), *batches])
    longer, unread = int((tokens > limit).sum()), float(np.maximum(tokens - limit, 0).sum())
    if longer:
        of = f"{longer:,} of {many(len(tokens), 'text')} {'is' if longer == 1 else 'are'} longer"
        share = unread / float(tokens.sum())
        context.note(
            f"{of} than the {limit:,} tokens that the encoder {context.encoder.id} reads: {share:.1%} of all tokens "
            f"are not encoded. Chunk smaller: over=passages(by=tokens, size={max(1, limit * 3 // 4)})"
        )
