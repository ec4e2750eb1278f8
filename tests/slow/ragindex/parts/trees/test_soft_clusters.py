"""Soft clusters in processes of several threads, and over vectors that UMAP has reduced."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from ragindex.parts.trees.soft_clusters import Clustering, Start, soft_clusters


def test_the_number_of_threads_does_not_matter() -> None:
    script = """
import json
import numpy as np
from ragindex.parts.trees.soft_clusters import Clustering, soft_clusters
rng = np.random.default_rng(1)
vectors = rng.normal(size=(600, 200)).astype(np.float32)
vectors[:, :4] += 6 * rng.integers(0, 2, size=(600, 4))
print(json.dumps(soft_clusters(vectors, [1.0] * 600, 40, Clustering(partition=400))))
"""
    runs = []
    for threads in ("1", "4"):
        given = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        ran = subprocess.run([sys.executable, "-c", script], env=given, capture_output=True, text=True, check=True)
        runs.append(json.loads(ran.stdout))
    assert runs[0] == runs[1]
    assert len(runs[0]) > 15


@pytest.mark.filterwarnings("ignore::ImportWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("start", ["ward", "random"])
def test_umap_keeps_planted_clusters_apart_and_is_repeatable(start: Start) -> None:
    rng = np.random.default_rng(1)
    centres = np.linalg.qr(rng.normal(size=(30, 30)))[0][:3]
    vectors = np.repeat(centres, 40, axis=0) + 0.1 * rng.normal(size=(120, 30))
    how = Clustering(reduction="umap", start=start)
    clusters = soft_clusters(vectors.astype(np.float32), [1.0] * 120, 1e9, how)
    assert all(len({row // 40 for row in rows}) == 1 for rows in clusters)
    assert {row for rows in clusters for row in rows} == set(range(120))
    assert clusters == soft_clusters(vectors.astype(np.float32), [1.0] * 120, 1e9, how)
    same = np.ones((30, 4), np.float32)
    assert soft_clusters(same, [1.0] * 30, 1e9, how) == [tuple(range(30))]
