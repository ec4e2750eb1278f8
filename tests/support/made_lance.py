"""Records of a LanceDB collection with texts, tags and vectors."""

from collections.abc import Mapping

import pyarrow as pa

from ragindex.interfaces import Schema

SCHEMA = Schema(stored=("text",), keywords=("tags",), text=("text",), language="none", dimensions=2)
WORDS = ("rye", "oak", "fen", "tor", "ash")


def records(texts: Mapping[str, str]) -> pa.RecordBatch:
    vectors = [[float(len(text)), float(len(id))] for id, text in texts.items()]
    return pa.RecordBatch.from_pydict(
        {
            "id": list(texts),
            "text": list(texts.values()),
            "tags": [[f"t{len(text) % 2}", "all"] for text in texts.values()],
            "vector": pa.array(vectors, pa.list_(pa.float32(), 2)),
        }
    )
