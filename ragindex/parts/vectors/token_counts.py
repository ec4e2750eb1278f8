"""Numbers of tokens of encoded texts, and a note where an encoder leaves tokens unread."""

from collections.abc import Sequence

import numpy as np

from ragindex.counts import many
from ragindex.errors import UsageError
from ragindex.interfaces import BuildContext, Collection, Encoder, TokenCounter

FIELD = "tokens"
"""The number of tokens of a record's whole text; 0 if they cannot be counted."""


def number_fields(encoder: Encoder) -> tuple[str, ...]:
    """Return the number fields that records of encoded texts need: `tokens` if the encoder reads only so many."""
    return () if find_limit(encoder) is None else (FIELD,)


def find_limit(encoder: Encoder) -> int | None:
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
    limit = find_limit(context.encoder)
    if limit is None:
        return
    batches = (batch.column(FIELD).to_numpy(zero_copy_only=False) for batch in records.scan((FIELD,)))
    tokens = np.concatenate([np.zeros(0), *batches])
    longer, unread = int((tokens > limit).sum()), float(np.maximum(tokens - limit, 0).sum())
    if longer:
        of = f"{longer:,} of {many(len(tokens), 'text')} {'is' if longer == 1 else 'are'} longer"
        share = unread / float(tokens.sum())
        context.note(
            f"{of} than the {limit:,} tokens that the encoder {context.encoder.id} reads: {share:.1%} of all tokens "
            f"are not encoded. Chunk smaller: over=passages(by=tokens, size={max(1, limit * 3 // 4)})"
        )
