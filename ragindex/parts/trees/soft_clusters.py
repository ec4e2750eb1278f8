"""Soft clusters of vectors: mixtures of Gaussians over all of them, then over each cluster; a vector may be in several.

Sources: Sarthi et al. 2024 (RAPTOR) for the two stages and soft membership; Fraley and Raftery 2002 for mixtures that
begin with a hierarchy of the vectors and are chosen by BIC.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from ragindex.distribution import require_module
from ragindex.encoders.common import normalize_rows
from ragindex.interfaces import Floats
from ragindex.parts.support.arrays import Integers

Points: TypeAlias = npt.NDArray[np.float64]
Reduction: TypeAlias = Literal["pca", "umap"]

MOST_COMPONENTS = 49
_GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, MOST_COMPONENTS)
_PATIENCE = 2
"""The search for more components ends after so many rises of BIC in a row."""
_HIERARCHY = 2000
"""Vectors, at most, of which the hierarchy is made that mixtures begin with: its cost grows with their square."""
_FLOOR = 1e-2
"""The least variance of a component; that of all vectors is 1. Else BIC loves components of hardly any vectors."""
_STEPS = 500
_NOTHING = 1e-12
"""A variance below this is rounding."""
_LOCAL_NEIGHBOURS = 10
_ROWS_A_DIMENSION = 5
"""With fewer, a covariance would cost BIC more than clusters that lie far apart can gain."""
_FEWEST_TO_SPLIT = 4
_LARGEST_PART, _MOST_OVERLAP = 0.75, 1.25
"""Of a cluster that is clustered again: so large may a part be, and so many vectors may the parts have together."""


@dataclass(frozen=True, slots=True)
class Clustering:
    """How vectors are clustered. A vector is in each cluster whose probability is above `threshold`.

    Vectors are reduced to `dimensions` (a fifth of their number at most) by principal components, or by UMAP (the extra
    `umap`). More than `partition` of them are first cut into cells of at most so many.
    """

    threshold: float = 0.1
    dimensions: int = 10
    reduction: Reduction = "pca"
    partition: int = 25_000
    seed: int = 0


def soft_clusters(vectors: Floats, weights: Sequence[float], limit: float, how: Clustering) -> list[tuple[int, ...]]:
    """Different sets of rows, each sorted, by their first rows; a set may have one row, a row no set.

    The vectors (n, dimensions) are compared by cosine; zero vectors are in no cluster, equal ones in the same.
    A cluster heavier than `limit` is clustered again, and cut in two where that leaves it almost whole (then equal
    vectors may part); of fewer than four rows it stays as heavy as it is. One thread does it all, so that the number
    of threads changes nothing: the same vectors, seed, libraries and machine give the same clusters. Work grows
    linearly with the cells. Raises MissingExtraError for UMAP where it is not installed.
    """
    units = normalize_rows(vectors).astype(np.float64)
    heavy = np.asarray(weights, np.float64)
    with threadpool_limits(limits=1):
        parts = [
            part
            for cell in cells(units, how.partition)
            for cluster in _two_stages(units, cell, how)
            for part in _light(units, cluster, heavy, limit, how)
        ]
    return sorted({tuple(part.tolist()) for part in parts})


def cells(units: Points, most: int) -> list[Integers]:
    """The rows that are not zero, cut in two along their first principal component until none is above `most`."""

    def cut(rows: Integers) -> Iterator[Integers]:
        if len(rows) <= most:
            yield rows
        else:
            for half in _halves(units, rows):
                yield from cut(half)

    rows = np.flatnonzero(units.any(axis=1))
    return list(cut(rows)) if len(rows) else []


# ---------------------------------------------------------------- stages


def _two_stages(units: Points, rows: Integers, how: Clustering) -> Iterator[Integers]:
    for wide in _clusters(units, rows, how, int(max(len(rows) - 1, 0) ** 0.5)):
        yield from _clusters(units, wide, how, _LOCAL_NEIGHBOURS)


def _clusters(units: Points, rows: Integers, how: Clustering, neighbours: int, least: int = 1) -> list[Integers]:
    """The clusters of one mixture; so few rows that a covariance cannot be told are one."""
    if len(rows) <= how.dimensions + 1:
        return [rows]
    dimensions = min(how.dimensions, max(len(rows) // _ROWS_A_DIMENSION, 2))
    points = _reduced(units[rows], replace(how, dimensions=dimensions), neighbours)
    shares = mixture(points, how.seed, least)
    members = (rows[share > how.threshold] for share in shares.T)
    return [each for each in members if len(each)]


def _light(units: Points, rows: Integers, weights: Points, limit: float, how: Clustering) -> Iterator[Integers]:
    if weights[rows].sum() <= limit or len(rows) < _FEWEST_TO_SPLIT:
        yield rows
        return
    parts = _clusters(units, rows, how, _LOCAL_NEIGHBOURS, least=2)
    sizes = [len(part) for part in parts]
    if max(sizes) > _LARGEST_PART * len(rows) or sum(sizes) > _MOST_OVERLAP * len(rows):
        parts = _halves(units, rows)
    for part in parts:
        yield from _light(units, part, weights, limit, how)


def _halves(units: Points, rows: Integers) -> list[Integers]:
    """Two parts of at least a quarter (and two rows) each, with least variance along the first principal component.

    Rows that nothing tells apart are cut in the middle.
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


def _reduced(units: Points, how: Clustering, neighbours: int) -> Points:
    """(n, dimensions or fewer), the mean variance 1; rounded, so that equal vectors are equal points."""
    points = principal(units, how.dimensions)
    if how.reduction == "umap" and points.shape[1]:
        points = _umap(units, how, neighbours)
    scale = np.sqrt(points.var(axis=0).mean()) if points.shape[1] else 1.0
    rounded: Points = np.round((points - points.mean(axis=0)) / scale, 6)
    return rounded


def principal(rows: Points, dimensions: int) -> Points:
    """The first principal components of (n, d): (n, at most `dimensions`), without those that have no variance."""
    centred = rows - rows.mean(axis=0)
    n, d = centred.shape
    products = centred.T @ centred if d <= n else centred @ centred.T
    size = len(products)
    values, axes = eigh(products, subset_by_index=[max(size - dimensions, 0), size - 1])
    kept = np.flatnonzero(values > n * _NOTHING)[::-1]
    points: Points = centred @ axes[:, kept] if d <= n else axes[:, kept] * np.sqrt(values[kept])
    return points


def _umap(units: Points, how: Clustering, neighbours: int) -> Points:
    umap = require_module("umap", "umap-learn", "summary_tree(reduction=umap)")
    reducer = umap.UMAP(
        n_neighbors=min(max(neighbours, 2), len(units) - 1),
        n_components=how.dimensions,
        metric="cosine",
        random_state=how.seed % 2**32,
        n_jobs=1,
        init="spectral" if len(units) > 2 * how.dimensions + 2 else "random",
    )
    points: Points = np.asarray(reducer.fit_transform(units), np.float64)
    return points


# ---------------------------------------------------------------- mixtures


def mixture(points: Points, seed: int, least: int = 1) -> Points:
    """The probability of each component for each point, (n, components), of the mixture with the lowest BIC.

    There are `least` to 49 components with full covariances, never more than half the points; where that leaves no
    choice, one. The numbers 1, 2, 3, 4, 6, 8, 12, … are tried until BIC has risen twice, then those half way to the
    next numbers tried on either side of the best, until there are none. A mixture that does not converge, or whose
    covariances cannot be inverted, is not looked at.
    """
    most = min(MOST_COMPONENTS, len(points) // 2, len(np.unique(points, axis=0)))
    if most < max(least, 2):
        return np.ones((len(points), 1))
    begin = _beginnings(points, seed)
    models: dict[int, GaussianMixture] = {}

    def bic(count: int) -> float:
        model = _fitted(points, begin(count))
        if model is None:
            return np.inf
        models[count] = model
        return float(model.bic(points))

    model = models.get(lowest(bic, least, most))
    shares: Points = np.ones((len(points), 1)) if model is None else model.predict_proba(points)
    return shares


def lowest(value: Callable[[int], float], least: int, most: int) -> int:
    """Where `value` is lowest between `least` and `most`, as `mixture` searches; of equal ones the least."""
    held: dict[int, float] = {}
    best, rises = least, 0
    for count in sorted({least, most, *(each for each in _GRID if least < each < most)}):
        held[count] = value(count)
        best, rises = (count, 0) if count == least or held[count] < held[best] else (best, rises + 1)
        if rises == _PATIENCE:
            break
    while True:
        known = sorted(held)
        place = known.index(best)
        near = known[max(place - 1, 0)], known[min(place + 1, len(known) - 1)]
        fresh = [each for each in ((near[0] + best) // 2, (best + near[1] + 1) // 2) if each not in held]
        if not fresh:
            return best
        held |= {each: value(each) for each in fresh}
        best = min((best, *fresh), key=lambda each: (held[each], each))


_Labels: TypeAlias = tuple[Points, Integers] | None


def _beginnings(points: Points, seed: int) -> Callable[[int], _Labels]:
    """By a number of components: points, and which component each begins in; None where ties allow no such number."""
    chosen = np.arange(len(points))
    if len(points) > _HIERARCHY:
        chosen = np.sort(np.random.default_rng(seed).choice(len(points), _HIERARCHY, replace=False))
    sample = points[chosen]
    tree = linkage(sample, "ward")

    def cut(count: int) -> _Labels:
        labels = fcluster(tree, count, "maxclust").astype(np.int64) - 1
        return (sample, labels) if labels.max() + 1 == count else None

    return cut


def _fitted(points: Points, begin: _Labels) -> GaussianMixture | None:
    if begin is None:
        return None
    model = GaussianMixture(reg_covar=_FLOOR, max_iter=_STEPS, **_first(*begin))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            return model.fit(points)
        except (ConvergenceWarning, ValueError, np.linalg.LinAlgError):  # not a mixture that could be chosen
            return None


def _first(sample: Points, labels: Integers) -> dict[str, Any]:
    """What the first step of EM begins with: each component's covariance, drawn towards that within all of them."""
    counts = np.bincount(labels)
    d = sample.shape[1]
    means = np.stack([np.bincount(labels, column) for column in sample.T], axis=1) / counts[:, None]
    apart = sample - means[labels]
    common = apart.T @ apart / len(sample) + _FLOOR * np.eye(d)
    products = np.stack([apart[labels == one].T @ apart[labels == one] for one in range(len(counts))])
    prior = d + 2
    covariances = (products + prior * common) / (counts + prior)[:, None, None]
    inverted = np.linalg.inv(covariances)
    return {
        "n_components": len(counts),
        "weights_init": counts / counts.sum(),
        "means_init": means,
        "precisions_init": (inverted + inverted.transpose(0, 2, 1)) / 2,
    }
