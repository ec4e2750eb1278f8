"""Soft clustering of vectors: Gaussian mixtures over all of them, then over each cluster; clusters may overlap.

Sources: Sarthi et al. 2024 (RAPTOR) for the two stages and soft membership; Fraley and Raftery 2002 for
mixtures that are initialised by a hierarchical clustering and selected by BIC.

scikit-learn and the larger modules of scipy are imported where they are used, since they take seconds to import.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ragindex._util.cores import limit_blas
from ragindex._util.distribution import require_module
from ragindex._util.progress import progress_bar
from ragindex._util.time_limit import require_time
from ragindex._util.workers import map_in_processes
from ragindex.encoders.vectors import normalize_rows
from ragindex.interfaces import Floats
from ragindex.parts.records import Integers

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

Points: TypeAlias = npt.NDArray[np.float64]
Reduction: TypeAlias = Literal["pca", "umap"]
Start: TypeAlias = Literal["ward", "random"]
Components: TypeAlias = Literal["all", "few"]

MOST_COMPONENTS = 49
ALL_TRIED = 12
"""Every number of components up to this one is tried: BIC may rise twice and still be lowest at the next number."""
_FEW = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, MOST_COMPONENTS)
"""The numbers that version 0.1 tried."""
_PATIENCE = 2
"""Beyond `ALL_TRIED`, or from the first if few are tried, the search ends after this many rises of BIC in a row."""
_HIERARCHY = 2000
"""Maximum number of vectors in the hierarchy that initialises mixtures: its cost is quadratic."""
_FLOOR = 1e-2
"""The least variance of a component; that of all vectors is 1. Without it, BIC favours tiny components."""
_STEPS = 500
_ZERO_VARIANCE = 1e-12
"""Variances below this are rounding errors."""
_LOCAL_NEIGHBOURS = 10
_ROWS_A_DIMENSION = 5
"""With fewer rows, a covariance would cost more BIC than well separated clusters can gain."""
_FEWEST_TO_SPLIT = 4
_LARGEST_PART, _MOST_OVERLAP = 0.75, 1.25
"""Limits on splitting a cluster: the size of one part and of all parts together, relative to the cluster."""


@dataclass(frozen=True, slots=True)
class Clustering:
    """Parameters of the clustering. A vector belongs to each cluster whose probability is above `threshold`.

    Vectors are reduced to `dimensions` (at most a fifth of their number, but at least 2) by principal
    components, or by UMAP (the extra `umap`). More than `partition` vectors are first cut into cells of at
    most that size. Mixtures begin at a hierarchy (`start="ward"`), or as in RAPTOR's own recipe (`"random"`).
    `components="few"` tries the numbers of components that version 0.1 did, so that clusters are those of its trees.
    """

    threshold: float = 0.1
    dimensions: int = 10
    reduction: Reduction = "pca"
    start: Start = "ward"
    components: Components = "all"
    partition: int = 25_000
    seed: int = 0


def soft_clusters(vectors: Floats, weights: Sequence[float], limit: float, how: Clustering) -> list[tuple[int, ...]]:
    """Cluster vectors (n, dimensions) by cosine, and return distinct sets of rows, each sorted, in order of first rows.

    A set may have a single row, and a row may be in no set. Zero vectors are in no cluster; equal vectors are
    in the same ones. A cluster heavier than `limit` is clustered again, or cut in two if that leaves it
    almost whole, which may separate equal vectors; a cluster of fewer than four rows is not split. The clusters
    of the first stage are divided on several processes (ragindex._util.workers), each in one thread, so that the
    result does not depend on their numbers: the same vectors, seed, libraries and machine give the same
    clusters. The work grows linearly with the number of cells. Raises MissingExtraError if UMAP is asked for
    and not installed.
    """
    units = normalize_rows(vectors).astype(np.float64)
    heavy = np.asarray(weights, np.float64)
    with progress_bar(f"clustering {len(units):,} texts", None):
        wide = list(_cluster_widely(units, how))
    jobs = ((units[rows], heavy[rows], limit, how) for rows in wide)
    sets = set[tuple[int, ...]]()
    with progress_bar("clustering within clusters", len(wide)) as advance:
        for rows, parts in zip(wide, map_in_processes(_cluster_closely, jobs), strict=True):
            sets.update(tuple(rows[part].tolist()) for part in parts)
            advance(1)
            require_time()
    return sorted(sets)


def cells(units: Points, most: int) -> list[Integers]:
    """Cut the nonzero rows in two along their first principal component, recursively, down to `most` rows per cell."""

    def cut(rows: Integers) -> Iterator[Integers]:
        if len(rows) <= most:
            yield rows
        else:
            for half in _cut_in_two(units, rows):
                yield from cut(half)

    rows = np.flatnonzero(units.any(axis=1))
    return list(cut(rows)) if len(rows) else []


# ---------------------------------------------------------------- stages


def _cluster_widely(units: Points, how: Clustering) -> Iterator[Integers]:
    """Yield the clusters of the first stage, cell by cell."""
    for cell in cells(units, how.partition):
        with _one_thread():
            clusters = _fit_clusters(units, cell, how, int(max(len(cell) - 1, 0) ** 0.5))
        yield from clusters


def _cluster_closely(job: tuple[Points, Points, float, Clustering]) -> list[Integers]:
    """Return the clusters of the second stage within one of the first: vectors, their weights, limit, parameters."""
    units, weights, limit, how = job
    with _one_thread():
        return [
            part
            for cluster in _fit_clusters(units, np.arange(len(units)), how, _LOCAL_NEIGHBOURS)
            for part in _split_heavy(units, cluster, weights, limit, how)
        ]


@contextmanager
def _one_thread() -> Iterator[None]:
    with limit_blas(1), threadpool_limits(limits=1, user_api="openmp"):
        yield


def _fit_clusters(units: Points, rows: Integers, how: Clustering, neighbours: int, least: int = 1) -> list[Integers]:
    """Return the clusters of one mixture. Rows too few to estimate a covariance form one cluster."""
    if len(rows) <= how.dimensions + 1:
        return [rows]
    dimensions = min(how.dimensions, max(len(rows) // _ROWS_A_DIMENSION, 2))
    points = _reduce(units[rows], replace(how, dimensions=dimensions), neighbours)
    shares = mixture(points, how.seed, least, how.start, how.components)
    members = (rows[share > how.threshold] for share in shares.T)
    return [each for each in members if len(each)]


def _split_heavy(units: Points, rows: Integers, weights: Points, limit: float, how: Clustering) -> Iterator[Integers]:
    if weights[rows].sum() <= limit or len(rows) < _FEWEST_TO_SPLIT:
        yield rows
        return
    parts = _fit_clusters(units, rows, how, _LOCAL_NEIGHBOURS, least=2)
    sizes = [len(part) for part in parts]
    if max(sizes) > _LARGEST_PART * len(rows) or sum(sizes) > _MOST_OVERLAP * len(rows):
        parts = _cut_in_two(units, rows)
    for part in parts:
        yield from _split_heavy(units, part, weights, limit, how)


def _cut_in_two(units: Points, rows: Integers) -> list[Integers]:
    """Cut rows in two, so that the variance within the parts along the first principal component is least.

    Each part has at least a quarter of the rows, and two rows if possible. Rows that are all equal are cut in
    the middle.
    """
    axis = principal(units[rows], 1)
    along = axis[:, 0] if axis.shape[1] else np.zeros(len(rows))
    order = np.argsort(along, kind="stable")
    n = len(rows)
    fewest = max(n // 4, min(2, n // 2))
    cuts = np.arange(fewest, n - fewest + 1)
    sums = np.cumsum(along[order])[cuts - 1]
    between = np.round((sums - along.sum() * cuts / n) ** 2 / (cuts * (n - cuts)), 12)
    best = cuts[np.lexsort((np.abs(2 * cuts - n), -between))[0]]
    return [np.sort(rows[order[:best]]), np.sort(rows[order[best:]])]


# ---------------------------------------------------------------- reducing


def _reduce(units: Points, how: Clustering, neighbours: int) -> Points:
    """Reduce rows to (n, at most `dimensions`), with a mean variance of 1.

    Points are rounded, so that equal vectors become equal points.
    """
    points = principal(units, how.dimensions)
    if how.reduction == "umap" and points.shape[1]:
        umap = require_module("umap", "umap-learn", "summary_tree(reduction=umap)")
        reducer = umap.UMAP(
            n_neighbors=min(max(neighbours, 2), len(units) - 1),
            n_components=how.dimensions,
            metric="cosine",
            random_state=how.seed % 2**32,
            n_jobs=1,
            init="spectral" if len(units) > 2 * how.dimensions + 2 else "random",
        )
        points = np.asarray(reducer.fit_transform(units), np.float64)
    scale = np.sqrt(points.var(axis=0).mean()) if points.shape[1] else 1.0
    rounded: Points = np.round((points - points.mean(axis=0)) / scale, 6)
    return rounded


def principal(rows: Points, dimensions: int) -> Points:
    """Return the first principal components of rows (n, d), (n, at most `dimensions`), without those of no variance."""
    from scipy.linalg import eigh

    centred = rows - rows.mean(axis=0)
    n, d = centred.shape
    products = centred.T @ centred if d <= n else centred @ centred.T
    size = len(products)
    values, axes = eigh(products, subset_by_index=[max(size - dimensions, 0), size - 1])
    components = np.flatnonzero(values > n * _ZERO_VARIANCE)[::-1]
    points: Points = centred @ axes[:, components] if d <= n else axes[:, components] * np.sqrt(values[components])
    return points


# ---------------------------------------------------------------- mixtures


def mixture(points: Points, seed: int, least: int = 1, start: Start = "ward", components: Components = "all") -> Points:
    """Fit the Gaussian mixture with the lowest BIC, and return the membership probabilities, (n, components).

    It has `least` to 49 components with full covariances. With `start="ward"` it has at most half as many as
    points, and its covariances have a floor. The search tries every number of components up to 12, then 16, 24,
    32 and 49 until BIC has risen twice in a row; with `components="few"` it tries 1, 2, 3, 4, 6, 8, 12, 16, … and
    may end at any of them. It then tries the numbers half way between the best one and its
    nearest tried neighbours, until there are none left. Mixtures that do not converge are ignored. With
    `start="random"` every number below that of the points is tried, from centres that k-means finds from random
    ones. Mixtures whose covariances cannot be inverted are ignored. If that leaves no choice, it has one component.
    """
    half_or_all = len(points) // 2 if start == "ward" else len(points) - 1
    most = min(MOST_COMPONENTS, half_or_all, len(np.unique(points, axis=0)))
    if most < max(least, 2):
        return np.ones((len(points), 1))
    fit = _fit_from_hierarchy(points, seed) if start == "ward" else _fit_from_random(points, seed)
    models: dict[int, GaussianMixture] = {}

    def bic(count: int) -> float:
        require_time()
        model = fit(count)
        if model is None:
            return np.inf
        models[count] = model
        return float(model.bic(points))

    best = lowest(bic, least, most, components) if start == "ward" else min(range(least, most + 1), key=bic)
    model = models.get(best)
    shares: Points = np.ones((len(points), 1)) if model is None else model.predict_proba(points)
    return shares


def lowest(value: Callable[[int], float], least: int, most: int, components: Components = "all") -> int:
    """Return the argument from `least` to `most` with the lowest `value`, by the search described in `mixture`.

    Of equal values, the smallest argument wins.
    """
    values: dict[int, float] = {}
    best, rises = least, 0
    every = ALL_TRIED if components == "all" else 1
    grid = {*range(1, every + 1), *(count for count in _FEW if count > every)}
    for count in sorted({least, most, *(count for count in grid if least < count < most)}):
        values[count] = value(count)
        best, rises = (count, 0) if count == least or values[count] < values[best] else (best, rises + 1)
        if rises >= _PATIENCE and count >= every:
            break
    while True:
        known = sorted(values)
        place = known.index(best)
        near = known[max(place - 1, 0)], known[min(place + 1, len(known) - 1)]
        fresh = [each for each in ((near[0] + best) // 2, (best + near[1] + 1) // 2) if each not in values]
        if not fresh:
            return best
        values |= {each: value(each) for each in fresh}
        best = min((best, *fresh), key=lambda each: (values[each], each))


_Fit: TypeAlias = "Callable[[int], GaussianMixture | None]"
"""Fits a mixture of so many components; None if it cannot be selected."""


def _fit_from_hierarchy(points: Points, seed: int) -> _Fit:
    """Return the fit from the clusters of a hierarchy by Ward's criterion, which ties may rule out for a number."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from sklearn.mixture import GaussianMixture

    chosen = np.arange(len(points))
    if len(points) > _HIERARCHY:
        chosen = np.sort(np.random.default_rng(seed).choice(len(points), _HIERARCHY, replace=False))
    sample = points[chosen]
    tree = linkage(sample, "ward")

    def fit(count: int) -> "GaussianMixture | None":
        labels = fcluster(tree, count, "maxclust").astype(np.int64) - 1
        if labels.max() + 1 != count:
            return None
        model = GaussianMixture(reg_covar=_FLOOR, max_iter=_STEPS, **_initialize_em(sample, labels))
        return _fit(model, points, unconverged="error")

    return fit


def _fit_from_random(points: Points, seed: int) -> _Fit:
    """Return the fit of RAPTOR's own recipe: scikit-learn's defaults, whether they converge or not."""
    from sklearn.mixture import GaussianMixture

    return lambda count: _fit(GaussianMixture(count, random_state=seed % 2**32), points, unconverged="ignore")


def _fit(model: "GaussianMixture", points: Points, unconverged: Literal["error", "ignore"]) -> "GaussianMixture | None":
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter(unconverged, ConvergenceWarning)
        try:
            return model.fit(points)
        except (ConvergenceWarning, ValueError, np.linalg.LinAlgError):  # this mixture cannot be selected
            return None


def _initialize_em(sample: Points, labels: Integers) -> dict[str, Any]:
    """Return the initial parameters of EM.

    The covariance of each component is shrunk towards the covariance within all components.
    """
    counts = np.bincount(labels)
    d = sample.shape[1]
    means = np.stack([np.bincount(labels, column) for column in sample.T], axis=1) / counts[:, None]
    apart = sample - means[labels]
    common = apart.T @ apart / len(sample) + _FLOOR * np.eye(d)
    products = np.stack([apart[labels == label].T @ apart[labels == label] for label in range(len(counts))])
    prior = d + 2
    covariances = (products + prior * common) / (counts + prior)[:, None, None]
    inverted = np.linalg.inv(covariances)
    return {
        "n_components": len(counts),
        "weights_init": counts / counts.sum(),
        "means_init": means,
        "precisions_init": (inverted + inverted.transpose(0, 2, 1)) / 2,
    }
