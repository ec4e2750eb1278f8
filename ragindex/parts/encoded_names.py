"""Distinct names and their vectors: one record a name, kept up to date by a part that is made whole."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from ragindex.interfaces import Floats, Schema, Site
from ragindex.parts.columns import large_text
from ragindex.progress import bar

_BLOCK = 8192


def distinct(columns: Iterable[pa.Array]) -> pa.Array:
    """The distinct texts of columns in the order of their UTF-8, which is that of Python's texts too."""
    found = large_text(columns).unique()
    return found.take(pc.sort_indices(found))


def keep(names: pa.Array, site: Site, collection: str, part: str, into: Floats | None = None) -> None:
    """Make a collection hold exactly the distinct `names`, by id, each with its vector as a document.

    All are asked of the encoder, whose cache has most: so what the part cost is that of each name, once. Only those
    that are new are written. `into` (names, dimensions), where given, takes the vectors too. `part` is for the progress
    bar.
    """
    vectors = site.collection(collection, Schema(dimensions=site.encoder.dimensions))
    held = {id for batch in vectors.scan(()) for id in batch.column("id").to_pylist()}
    with bar(f"{part}: encoding {collection}", len(names)) as advance:
        for start in range(0, len(names), _BLOCK):
            block = names.slice(start, _BLOCK)
            rows = site.encoder.encode_documents(block.to_pylist())
            if into is not None:
                into[start : start + len(rows)] = rows
            new = [row for row, name in enumerate(block.to_pylist()) if name not in held]
            if new:
                vectors.upsert(_records(block.take(pa.array(new)), rows[new]))
            advance(len(rows))
    vectors.delete(sorted(held.difference(names.to_pylist())))


def _records(names: pa.Array, rows: Floats) -> pa.RecordBatch:
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    return pa.RecordBatch.from_arrays([names.cast(pa.string()), column], names=["id", "vector"])
