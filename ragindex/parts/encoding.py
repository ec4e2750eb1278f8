"""Encoding of a batch of records, of which single ones may have no vector, and the tokens that an encoder reads."""

from collections.abc import Sequence

import numpy as np

from ragindex._util.text import many
from ragindex.errors import UsageError
from ragindex.interfaces import BuildContext, Collection, Encoder, Floats


def encode_records(texts: Sequence[str], ids: Sequence[str], context: BuildContext) -> tuple[list[int], Floats]:
    """Return the positions of the records `ids` whose texts have vectors, and the vectors.

    The others are reported to the context, so the next sync encodes them again.
    """
    vectors, failures = context.encoder.encode_each(texts)
    for row, failure in failures.items():
        context.failed(ids[row], failure.reason)
    rows = np.array([row for row in range(len(texts)) if row not in failures], np.int64)
    return rows.tolist(), vectors[rows]


TOKENS = "tokens"
"""The number of tokens of a record's whole text; 0 if they cannot be counted."""


def token_fields(encoder: Encoder) -> tuple[str, ...]:
    """Return the number fields that records of encoded texts need: `tokens` if the encoder reads only so many."""
    return () if encoder.max_tokens is None else (TOKENS,)


def count_record_tokens(texts: Sequence[str], encoder: Encoder) -> list[float]:
    """Return the number of tokens of each text, 0 where the encoder cannot count (as without its vocabulary)."""
    try:
        return [float(len(encoder.token_spans(text))) for text in texts]
    except UsageError:
        return [0.0] * len(texts)


def note_unread(records: Collection, context: BuildContext) -> None:
    """Note the records with more tokens than the encoder reads, from what is stored with them."""
    limit = context.encoder.max_tokens
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
