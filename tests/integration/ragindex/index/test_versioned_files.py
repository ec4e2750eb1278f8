"""Files of parts that are made whole: what lies in one while the phrase graph is made, and that nothing of it stays."""

import errno
import gc
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from letters import Letters
from made_extractions import openie, spelt

from ragindex._util import durable_files
from ragindex.errors import DamagedError, StoreError
from ragindex.index import versioned_files
from ragindex.index.index import Index
from ragindex.parts.triples import sparse_graph
from ragindex.parts.vectors.similar_pairs import SimilarPairs, near_pairs
from ragindex.types import Document
from ragindex_baselines.hipporag import phrase_graph
from ragindex_baselines.hipporag.phrase_graph import PhraseGraph

A = spelt("A", "abc|rises in|xyz")
B = spelt("B", "xyz|meets|aabc")
C = spelt("C", "uvw|is|xyz")


def build(tmp_path: Path, *documents: Document) -> Index:
    workspace = Index.open(tmp_path / "w", encoder=Letters(), chunking=None, create=True)
    workspace.import_part("extractions", openie(tmp_path / "f.json", (A, B, C)))
    workspace.add(documents)
    workspace.build(PhraseGraph())
    return workspace


def list_versions(tmp_path: Path) -> list[str]:
    (folder,) = (tmp_path / "w" / "parts").glob("phrase_graph-*")
    return sorted(path.name for path in folder.iterdir())


def test_compared_vectors_lie_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[str], object]] = []

    def compared(vectors: np.ndarray, *given: float) -> SimilarPairs:
        seen.append((list_versions(tmp_path), type(vectors.base)))
        return near_pairs(vectors, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(phrase_graph, "near_pairs", compared)
    workspace = build(tmp_path, A, B)
    assert seen == [(["scratch"], np.memmap)]
    (name,) = list_versions(tmp_path)
    assert name != "scratch"
    workspace.add([C])
    workspace.build()
    assert seen[1:] == [(sorted([name, "scratch"]), np.memmap)]
    (now,) = list_versions(tmp_path)  # nobody reads the one of before
    assert now not in (name, "scratch")


class Death(BaseException):
    """The process is gone."""


def die(*_: object) -> None:
    raise Death


def test_leftovers_of_a_dead_sync_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(Death):
        patch.setattr(versioned_files.shutil, "rmtree", lambda *given, **how: None)  # a dead process tidies nothing
        patch.setattr(phrase_graph, "near_pairs", die)
        build(tmp_path, A, B)
    gc.collect()  # what died here holds its lease no more
    assert list_versions(tmp_path) == ["scratch"]
    (folder,) = (tmp_path / "w" / "parts").glob("phrase_graph-*")
    (folder / "scratch").rename(folder / "partial-1")  # as one that was killed while it wrote leaves it
    (folder / "scratch").mkdir()
    (folder / "scratch" / "numbers.npy").write_bytes(b"cut short")
    workspace = Index.open(tmp_path / "w", encoder=Letters(), create=True)
    workspace.build(PhraseGraph())
    (name,) = list_versions(tmp_path)
    assert name not in ("scratch", "partial-1")
    assert workspace.open_part(PhraseGraph()).graph.phrases.to_pylist() == ["aabc", "abc", "xyz"]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system cannot reserve space on the disk")
def test_full_disk_is_found_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreError, match="The phrase graph could not be written to .*: No space left on device"):
        build(tmp_path, A)
    assert list_versions(tmp_path) == []


@pytest.mark.parametrize(("rows", "columns", "block"), [(7, 3, 2), (7, 3, 100), (0, 3, 2), (5, 1, 1)])
def test_rows_are_written_as_the_whole_is(rows: int, columns: int, block: int, tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).standard_normal((columns, rows)).astype(np.float32).T
    versioned_files.write_numbers(tmp_path / "whole.npy", np.ascontiguousarray(numbers))
    blocks = (numbers[start : start + block] for start in range(0, rows, block))
    versioned_files.write_rows(tmp_path / "blocks.npy", (rows, columns), blocks)
    assert (tmp_path / "blocks.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


TRIPLES = pa.table(
    {"id": ["1", "2"], "subject_key": ["a", "b"], "object_key": ["b", "c"], "passage_id": ["p", "q"]},
)
CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "beyond": lambda numbers: np.full_like(numbers, 99),
    "negative": lambda numbers: np.full_like(numbers, -2),
    "short": lambda numbers: numbers[:-1],
    "flat": lambda numbers: numbers.reshape(1, -1, 1),
    "floats": lambda numbers: numbers.astype(np.float64),
    "texts": lambda numbers: numbers.astype("S8"),
}
INTEGERS = {
    "triples": ("sides", "owners", *(f"{rows}.{of}" for rows in sparse_graph._ROWS for of in ("starts", "members"))),
    "phrases": ("starts", "splits", "ends", "mentions.sides", "mentions.owners", "synonyms.first", "synonyms.second"),
}
FLOATS = {"phrases": ("weights", "degrees", "phrase_degrees", "synonyms.cosines")}
CRAFTED = [
    *((part, name, tuple(CHANGES)) for part, names in INTEGERS.items() for name in names),
    *((part, name, ("short", "flat", "texts")) for part, names in FLOATS.items() for name in names),
]


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Callable[[Path], object]]]:
    """Folders of graphs, and how each is opened."""
    folder = tmp_path_factory.mktemp("graphs")
    name = sparse_graph.save_graph(sparse_graph.sparse_graph(TRIPLES), folder)
    build(folder, A, B).close()
    (phrases,) = (folder / "w" / "parts").glob("phrase_graph-*/*")
    return {"triples": (folder / name, sparse_graph.load_graph), "phrases": (phrases, phrase_graph._read)}


@pytest.mark.parametrize(("part", "name", "changes"), CRAFTED)
def test_crafted_array_is_damage(
    part: str,
    name: str,
    changes: Sequence[str],
    graphs: dict[str, tuple[Path, Callable[[Path], object]]],
    tmp_path: Path,
) -> None:
    """Its hashes are right, and its numbers name places that there are not."""
    folder, load = graphs[part]

    def write(change: str, unfinished: Path) -> None:
        for path in folder.iterdir():
            if path.name != durable_files.HASHES_FILE:
                shutil.copy(path, unfinished)
        path = unfinished / f"{name}.npy"
        numbers = CHANGES[change](np.load(path))
        path.unlink()
        versioned_files.write_numbers(path, numbers)

    assert np.load(folder / f"{name}.npy").size
    load(folder)
    for change in changes:
        place = tmp_path / "w" / "parts" / change
        crafted = place / versioned_files.save_version("graph", place, partial(write, change))
        with pytest.raises(DamagedError, match=r"cannot be read \(.*must") as refused:
            load(crafted)
        assert change in str(refused.value), "another file than the crafted one"
