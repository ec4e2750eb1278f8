"""Vectors of a batch of records, of which single ones may have none."""

from collections.abc import Sequence

import numpy as np

from ragindex.interfaces import BuildContext, CachingEncoder, Encoder, EncodingFailure, Floats


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
