"""Helpers for Arrow columns."""

from collections.abc import Iterable

import pyarrow as pa


def large_text(pieces: Iterable[pa.Array]) -> pa.Array:
    """Concatenate arrays of text into one array of large strings, which has no size limit."""
    return pa.concat_arrays([pa.array([], pa.large_string()), *(one.cast(pa.large_string()) for one in pieces)])
