"""Near pairs of vectors: against all pairs, from memory and from a file."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.parts.vectors import similar_pairs as module
from ragindex.parts.vectors.similar_pairs import SimilarPairs, near_pairs


def unit(rows: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(norms > 0, norms, 1)).astype(np.float32)


def plainly(vectors: np.ndarray, least: float, most: int) -> dict[tuple[int, int], float]:
    """All pairs, one after the other."""
    cosines_by_pair = {}
    for row, vector in enumerate(vectors):
        cosines = vectors @ vector
        cosines[row] = -1
        for other in np.argsort(-cosines, kind="stable")[:most].tolist():
            if cosines[other] >= least:
                cosines_by_pair[min(row, other), max(row, other)] = float(cosines[other])
    return cosines_by_pair


@settings(max_examples=examples(60))
@given(st.integers(0, 30), st.integers(1, 6), st.integers(0, 5), st.floats(0.1, 0.95), st.integers(0, 999))
def test_few_vectors_against_all_pairs(n: int, dimensions: int, most: int, least: float, seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((n, dimensions))
    rows[::7] = 0
    vectors = unit(rows)
    if dimensions == 1:
        most = 30  # cosines of 1 and -1 alone: which of equals are nearest is open
    pairs = near_pairs(vectors, least, most, 0)
    places = zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
    assert dict(zip(places, pairs.cosines.tolist(), strict=True)) == pytest.approx(plainly(vectors, least, most))


def test_many_vectors_are_found_within_cells() -> None:
    rng = np.random.default_rng(3)
    centres = unit(rng.standard_normal((750, 32)))
    vectors = unit(np.repeat(centres, 4, axis=0) + 0.06 * rng.standard_normal((3000, 32)))
    expected = plainly(vectors, 0.8, 20)
    pairs = near_pairs(vectors, 0.8, 20, 0)
    places = list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    assert len(places) == len(set(places)) == len({*places} & expected.keys())
    assert len(places) > 0.99 * len(expected) > 2500
    assert places == sorted(places)
    again = near_pairs(vectors, 0.8, 20, 0)
    assert [each.tolist() for each in (again.first, again.second)] == [pairs.first.tolist(), pairs.second.tolist()]


def test_all_alike_is_bounded() -> None:
    n, most = 3000, 3
    pairs = near_pairs(np.tile(unit(np.ones((1, 8))), (n, 1)), 0.8, most, 0)
    assert n / 2 <= len(pairs.first) <= n * most
    assert (pairs.first < pairs.second).all()
    assert set(pairs.first.tolist()) | set(pairs.second.tolist()) == set(range(n))
    assert pairs.cosines.tolist() == pytest.approx([1.0] * len(pairs.cosines))


# ---------------------------------------------------------------- a little at a time


def clustered(n: int, dimensions: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    centres = unit(rng.standard_normal((n // 20, dimensions)))
    vectors = unit(np.repeat(centres, 20, axis=0) + 0.5 / dimensions**0.5 * rng.standard_normal((n, dimensions)))
    vectors[5::50] = 0
    return rng.permutation(vectors)  # so that neighbours are not near


def written(pairs: SimilarPairs) -> tuple[list[int], list[int], list[float]]:
    return pairs.first.tolist(), pairs.second.tolist(), pairs.cosines.tolist()


@pytest.mark.parametrize("most", [3, 50])
def test_in_blocks_and_from_a_file(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(600, 16)
    np.save(tmp_path / "vectors.npy", vectors)
    monkeypatch.setattr(module, "_LARGEST", 40)
    near, every = near_pairs(vectors, 0.7, most, 3), plainly(vectors, 0.7, 600)
    pairs = list(zip(near.first.tolist(), near.second.tolist(), strict=True))
    assert near.cosines.tolist() == pytest.approx([every[pair] for pair in pairs], abs=1e-6)
    nearest = plainly(vectors, 0.7, most)
    assert len(nearest.keys() & {*pairs}) > 0.95 * max(len(nearest), len(pairs)) > 500
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert written(near_pairs(mapped, 0.7, most, 3)) == written(near)
    for name, size in (("_SORTED", 7), ("_WAITING", 10), ("_SIFTED", 90)):
        monkeypatch.setattr(module, name, size)
    assert written(near_pairs(mapped, 0.7, most, 3)) == written(near)
    monkeypatch.setattr(module, "_BLOCK", 50)  # a product's last digits depend on how many rows it has
    blocked = near_pairs(mapped, 0.7, most, 3)
    assert written(blocked)[:2] == written(near)[:2]
    assert blocked.cosines == pytest.approx(near.cosines)


def test_vectors_in_a_file_are_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(4000, 1024)
    np.save(tmp_path / "vectors.npy", vectors)
    for name, size in (("_LARGEST", 128), ("_BLOCK", 256), ("_WAITING", 1 << 14), ("_SIFTED", 512)):
        monkeypatch.setattr(module, name, size)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    tracemalloc.start()  # counts what numpy takes, and no file
    near = near_pairs(mapped, 0.7, 20, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(near.first) > 10_000
    assert peak < vectors.nbytes / 2
