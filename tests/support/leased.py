"""An index that is read while it is changed; how many states of it are on disk."""

import random
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from ragindex.index.index import Index
from ragindex.stores.lancedb import files
from ragindex.stores.lancedb.store import LanceDB
from ragindex.types import Document, Query
from ragindex_baselines.bm25 import BM25


def opened(folder: Path) -> Index:
    return Index.open(folder / "w", chunking=None, store=LanceDB(memory_gib=0), create=True)


@cache
def _template() -> TemporaryDirectory[str]:
    place = TemporaryDirectory()
    workspace = opened(Path(place.name))
    workspace.add([Document(f"d{number}", "Slate", f"slate barge {number}") for number in range(5)])
    workspace.build(BM25())
    return place


def copy_template(folder: Path) -> Index:
    """Five documents, beyond memory: what is asked is read from the disk."""
    shutil.copytree(_template().name, folder, dirs_exist_ok=True)
    return opened(folder)


def more(workspace: Index, *numbers: int) -> None:
    for number in numbers:
        workspace.add([Document(f"n{number}", "Slate", f"slate harbour {number}")])
        workspace.build(BM25())


def ids(retriever: object) -> list[str]:
    [retrieval] = retriever.retrieve([Query("q", "slate")], 50)  # type: ignore[attr-defined]
    return sorted(hit.id for hit in retrieval.hits)


def states(workspace: Index) -> int:
    """How many versions the passages have on disk, that which their index was made from not counted."""
    (name,) = [name for name in workspace.store.names() if name.startswith("passages") and name.endswith(".records")]
    folder = workspace.folder / "store" / f"{name}.lance"
    versions = {number: files.read_version(folder, number) for number in files.list_versions(folder)}
    return len(
        versions.keys() - {index.made_from for version in versions.values() for index in version.indexes.values()}
    )


def measure(folder: Path) -> int:
    """Return the bytes of a store and of the files of parts."""
    files_there = (path for name in ("store", "parts") for path in (folder / name).rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files_there)


def write_texts(numbers: range, turn: int) -> list[Document]:
    """Return documents of 300 known words, in an order that depends on the number and the turn."""
    words = ["slate", *(f"word{number}" for number in range(300))]
    orders = {number: random.Random(1000 * turn + number) for number in numbers}
    return [Document(f"d{n}", "Slate", " ".join(order.sample(words, len(words)))) for n, order in orders.items()]


FIVE = [f"d{number}" for number in range(5)]
