"""Soft clusters: planted blobs, soft membership, limits, and vectors that are unkind."""

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from examples import examples
from ragindex._util.cores import limit_blas
from ragindex.errors import MissingExtraError
from ragindex.parts.trees import soft_clusters as module
from ragindex.parts.trees.soft_clusters import Clustering, cells, lowest, mixture, principal, soft_clusters


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """What the tests compare with would start threads for next to nothing."""
    with limit_blas(1), threadpool_limits(limits=1, user_api="openmp"):
        yield


def blobs(count: int, each: int, dimensions: int, seed: int, spread: float = 0.1) -> np.ndarray:
    """Directions around `count` centres that lie far apart, one blob after the other."""
    rng = np.random.default_rng(seed)
    centres = np.linalg.qr(rng.normal(size=(dimensions, dimensions)))[0][:count]
    near = [centre + spread * rng.normal(size=(each, dimensions)) for centre in centres]
    return np.concatenate(near).astype(np.float32)


def planted(count: int, each: int) -> list[tuple[int, ...]]:
    return [tuple(range(start, start + each)) for start in range(0, count * each, each)]


def clusters_of(vectors: np.ndarray, limit: float = 1e9, **how: object) -> list[tuple[int, ...]]:
    return soft_clusters(vectors, [1.0] * len(vectors), limit, Clustering(**how))  # type: ignore[arg-type]


# ---------------------------------------------------------------- mixtures


@pytest.mark.parametrize("count", [1, 2, 13])
def test_the_number_of_components_is_the_planted_one(count: int) -> None:
    rng = np.random.default_rng(count)
    corners = np.stack(np.meshgrid(*[range(4)] * 4), axis=-1).reshape(-1, 4)
    centres = 30 * corners[rng.choice(len(corners), count, replace=False)]
    points = np.concatenate([centre + rng.normal(size=(50, 4)) for centre in centres])
    points /= points.std()
    shares = mixture(points, 0)
    assert shares.shape == (50 * count, count)
    members = [tuple(np.flatnonzero(share > 0.1).tolist()) for share in shares.T]
    assert sorted(members) == planted(count, 50)


def false_minimum() -> np.ndarray:
    """Points of seven clusters; beyond its minimum at 3 components, BIC rises at 4 and 6, and is lowest at 5."""
    rng = np.random.default_rng(38)
    dimensions, count, points = int(rng.integers(3, 9)), int(rng.integers(4, 12)), int(rng.integers(40, 120))
    sizes = np.maximum(2, (rng.dirichlet(np.full(count, 2.0)) * points).astype(int))
    blobs = [
        float(rng.choice([1.5, 3, 6])) * rng.normal(size=dimensions)
        + rng.normal(size=(size, dimensions)) * rng.uniform(0.3, 1.5, size=dimensions)
        for size in sizes
    ]
    together = np.concatenate(blobs)
    return together / together.std()


def test_the_lowest_bic_of_all_numbers_is_found_beyond_a_false_minimum() -> None:
    points = false_minimum()
    fits = (GaussianMixture(count, n_init=10, reg_covar=0.01, random_state=0) for count in range(1, 13))
    bics = [fit.fit(points).bic(points) for fit in fits]
    assert bics.index(min(bics)) + 1 == 5
    assert mixture(points, 0).shape[1] == 5
    assert mixture(points, 0, components="few").shape[1] == 3  # that search ends before it


def test_a_random_start_is_the_recipe_of_scikit_learn_over_all_numbers() -> None:
    points = np.random.default_rng(2).normal(size=(60, 2)) + 6 * np.random.default_rng(3).integers(0, 2, (60, 2))
    models = [GaussianMixture(count, random_state=7).fit(points) for count in range(1, 50)]
    lowest_bic = min(models, key=lambda model: model.bic(points))
    assert np.array_equal(mixture(points, 7, start="random"), lowest_bic.predict_proba(points))
    assert mixture(points, 7, least=5, start="random").shape[1] >= 5
    assert mixture(points[:3], 7, start="random").shape in ((3, 1), (3, 2))
    assert mixture(np.ones((9, 2)), 7, start="random").shape == (9, 1)


def test_clusters_may_be_long() -> None:
    rng = np.random.default_rng(5)
    long = rng.normal(size=(300, 2)) * [5, 0.5]
    points = np.concatenate([long, long[:, ::-1] + [0, 12]])
    points /= points.std()
    shares = mixture(points, 0)
    assert shares.shape == (600, 2)
    other = GaussianMixture(2, n_init=5, reg_covar=0.01, random_state=0).fit(points).predict_proba(points)
    same_way = (shares[0, 0] > 0.5) == (other[0, 0] > 0.5)
    assert np.abs(shares - (other if same_way else other[:, ::-1])).max() < 0.02


def test_the_search_is_sparse_and_finds_the_lowest_of_a_valley() -> None:
    counts: list[int] = []

    def value(count: int) -> float:
        counts.append(count)
        return abs(count - 20)

    assert lowest(value, 1, 49) == 20
    assert counts == [*range(1, 13), 16, 24, 32, 14, 20, 18, 22, 19, 21]
    counts.clear()
    assert lowest(value, 1, 49, "few") == 20
    assert counts == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 14, 20, 18, 22, 19, 21]


@given(st.integers(1, 3), st.integers(1, 49), st.integers(1, 49))
def test_every_valley_is_found(least: int, most: int, bottom: int) -> None:
    most = max(least, most)
    bottom = min(max(bottom, least), most)
    assert lowest(lambda count: abs(count - bottom) ** 1.5, least, most) == bottom


def test_two_rises_end_the_search_beyond_twelve() -> None:
    counts: list[int] = []
    assert lowest(lambda count: counts.append(count) or count, 1, 49) == 1  # type: ignore[func-returns-value]
    assert counts == [*range(1, 13)]


@given(st.lists(st.integers(0, 1000), min_size=12, max_size=12, unique=True))
def test_false_minima_of_few_components_are_passed(values: list[int]) -> None:
    assert lowest(lambda count: values[count - 1], 1, 12) == 1 + values.index(min(values))


def test_a_mixture_that_does_not_converge_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.concatenate([np.zeros((20, 2)), np.ones((20, 2))]) + np.random.default_rng(0).normal(size=(40, 2)) / 9
    assert mixture(points, 0).shape == (40, 2)
    monkeypatch.setattr(module, "_STEPS", 1)
    assert mixture(points, 0).shape == (40, 1)


# ---------------------------------------------------------------- both stages


def test_blobs_within_blobs() -> None:
    rng = np.random.default_rng(3)
    wide = np.eye(40)[:3]
    centres = [(wide[number // 2] + 0.4 * np.eye(40)[5 + number]) for number in range(6)]
    vectors = np.concatenate([centre + 0.02 * rng.normal(size=(40, 40)) for centre in centres])
    assert clusters_of(vectors.astype(np.float32)) == planted(6, 40)


def test_a_vector_between_two_is_in_both() -> None:
    turns = np.arange(8) * np.pi / 4
    ring = np.stack([np.ones(8), 0.5 * np.cos(turns), 0.5 * np.sin(turns)], axis=1)
    vectors = np.concatenate([ring, ring[:, [2, 0, 1]], 0.1 * ring[:3, [1, 2, 0]] + [0, 0, 1], [[1, 1, 0]]])
    first, second, third = (tuple(range(8)), tuple(range(8, 16)), (16, 17, 18))
    clusters = clusters_of(vectors.astype(np.float32), dimensions=2)
    assert clusters == [(*first, 19), (*second, 19), third]
    assert clusters_of(vectors.astype(np.float32), dimensions=2, threshold=0.5) == [(*first, 19), second, third]


def test_only_the_angle_counts() -> None:
    vectors = blobs(4, 40, 30, 1)
    lengths = np.random.default_rng(1).uniform(0.1, 10, size=(160, 1)).astype(np.float32)
    assert clusters_of(vectors * lengths) == clusters_of(vectors) == planted(4, 40)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 11])
def test_a_few_vectors_are_one_cluster(count: int) -> None:
    assert clusters_of(blobs(1, count, 20, 2)) == [tuple(range(count))] * (count > 0)


def test_fewer_vectors_than_dimensions() -> None:
    assert clusters_of(blobs(2, 10, 384, 4, spread=0.01)) == planted(2, 10)


def test_identical_vectors() -> None:
    same = np.tile(np.array([[1, 2, 3, 4]], np.float32), (500, 1))
    assert clusters_of(same) == [tuple(range(500))]
    by_limit = clusters_of(same, limit=130)
    assert by_limit == planted(4, 125)  # in their order
    two = np.concatenate([same, same[:, ::-1]])
    assert clusters_of(two) == [tuple(range(500)), tuple(range(500, 1000))]
    assert clusters_of(same[:1], limit=0.5) == [(0,)]
    assert clusters_of(same[:3], limit=0.5) == [(0, 1, 2)]  # not cut any more


def test_zero_vectors_are_in_no_cluster() -> None:
    vectors = blobs(2, 40, 20, 6)
    vectors[[3, 41, 79]] = 0
    left = [tuple(row for row in rows if row not in (3, 41, 79)) for rows in planted(2, 40)]
    assert clusters_of(vectors) == left
    assert clusters_of(np.zeros((40, 5), np.float32)) == []


def test_vectors_on_a_line_and_in_a_plane() -> None:
    line = np.stack([np.ones(60), np.linspace(0, 1, 60)], axis=1).astype(np.float32)
    assert sorted({row for rows in clusters_of(line) for row in rows}) == list(range(60))
    pair = np.tile(np.eye(2, dtype=np.float32), (30, 1))  # two points, thirty times each
    assert clusters_of(pair) == [tuple(range(0, 60, 2)), tuple(range(1, 60, 2))]


# ---------------------------------------------------------------- limits


def test_a_heavy_cluster_is_clustered_again_and_then_cut() -> None:
    vectors = blobs(3, 40, 30, 7)
    weights = [1.0] * 40 + [10.0] * 40 + [1.0] * 40
    clusters = soft_clusters(vectors, weights, 100, Clustering())
    assert clusters[0] == tuple(range(40))
    assert clusters[-1] == tuple(range(80, 120))
    between = clusters[1:-1]
    assert sorted({row for rows in between for row in rows}) == list(range(40, 80))
    assert max(map(len, between)) <= 10


@settings(max_examples=examples(25))
@given(st.integers(0, 60), st.integers(1, 6), st.floats(0.5, 40), st.integers(0, 5))
def test_clusters_are_sets_of_rows_within_the_limit(count: int, dimensions: int, limit: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = np.round(rng.normal(size=(count, dimensions))).astype(np.float32)  # many are equal, some are zero
    weights = rng.integers(0, 4, size=count).astype(float)
    clusters = soft_clusters(vectors, weights, limit, Clustering(dimensions=3))
    assert clusters == sorted({tuple(sorted(set(rows))) for rows in clusters})
    assert all(len(rows) < 4 or weights[list(rows)].sum() <= limit for rows in clusters)
    zero = set(np.flatnonzero(~vectors.any(axis=1)).tolist())
    assert not zero & {row for rows in clusters for row in rows}


def test_cells_cut_a_pool_in_parts_that_belong_together() -> None:
    vectors = blobs(5, 60, 40, 8).astype(np.float64)
    parts = cells(vectors, 130)
    assert sorted(row for rows in parts for row in rows.tolist()) == list(range(300))
    assert max(map(len, parts)) <= 130
    assert [sorted({row // 60 for row in rows.tolist()}) for rows in parts] == [[2, 4], [1], [0, 3]]
    clusters = clusters_of(vectors.astype(np.float32), partition=130)
    assert all(any(set(rows) <= set(part.tolist()) for part in parts) for rows in clusters)
    assert sorted({row for rows in clusters for row in rows}) == list(range(300))


# ---------------------------------------------------------------- the same everywhere


def test_principal_components_as_another_program_finds_them() -> None:
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(9)
    for shape in ((200, 12), (12, 200)):
        rows = rng.normal(size=shape) * np.linspace(3, 0.1, shape[1])
        ours, theirs = principal(rows, 4), PCA(4, svd_solver="full").fit_transform(rows)
        assert np.abs(np.abs(ours) - np.abs(theirs)).max() < 1e-9
    flat = np.outer(rng.normal(size=30), np.ones(7))
    assert principal(flat, 4).shape == (30, 1)
    assert principal(np.ones((5, 7)), 4).shape == (5, 0)


# ---------------------------------------------------------------- UMAP


def test_umap_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'umap-learn>=0\.5\.7'"):
        clusters_of(blobs(2, 20, 30, 1), reduction="umap")
