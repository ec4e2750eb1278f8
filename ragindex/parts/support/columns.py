"""Columns that parts work on whole."""

from collections.abc import Iterable

import pyarrow as pa


def large_text(pieces: Iterable[pa.Array]) -> pa.Array:
    """Texts in pieces as one column, of whatever size."""
    return pa.concat_arrays([pa.array([], pa.large_string()), *(one.cast(pa.large_string()) for one in pieces)])
