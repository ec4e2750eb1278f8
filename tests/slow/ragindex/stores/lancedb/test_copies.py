"""A copy of a small collection is read in a process that has no LanceDB."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from ragindex.interfaces import Schema
from ragindex.stores.lancedb.store import LanceDB


def test_copy_is_read_without_lancedb(tmp_path: Path) -> None:
    collection = LanceDB().open(tmp_path).create("some", Schema(stored=("text",), text=("text",), language="none"))
    texts = {"a": "rye oak", "b": "oak fen fen", "c": "tor"}
    collection.upsert(pa.RecordBatch.from_pydict({"id": list(texts), "text": list(texts.values())}))
    collection.finish()
    script = f"""
import sys
sys.modules["lancedb"] = None
from pathlib import Path
from ragindex.interfaces import TextQuery
from ragindex.stores.lancedb.store import LanceDB
collection = LanceDB().open(Path({str(tmp_path)!r})).open("some", {collection.version})
print(collection.search([TextQuery("fen oak", 3)])[0].ids, collection.get(["c"], ("text",)).to_pydict())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "['b', 'a'] {'id': ['c'], 'text': ['tor']}\n"
