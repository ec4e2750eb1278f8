"""Soft clusters in processes of several threads."""

import json
import os
import subprocess
import sys


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
