"""Methods find the same on every processor: OpenBLAS computes with other kernels, that round in other ways."""

import json
import os
import subprocess
import sys
from pathlib import Path

import kernel_child
import numpy as np
import pytest
from threadpoolctl import threadpool_info

KERNELS = ("Haswell", "Prescott")


def test_methods_find_the_same_with_another_kernel(tmp_path: Path) -> None:
    if not any(library["internal_api"] == "openblas" for library in threadpool_info()):
        pytest.skip("numpy does not compute with OpenBLAS here")
    first, second = (answers(tmp_path / kernel, kernel) for kernel in KERNELS)
    assert first.keys() == second.keys()
    for method in first:
        for hits, other in zip(first[method], second[method], strict=True):
            assert [id for id, _ in hits] == [id for id, _ in other], method
            np.testing.assert_allclose([s for _, s in hits], [s for _, s in other], atol=1e-5, err_msg=method)


def answers(folder: Path, kernel: str) -> dict[str, list[list[tuple[str, float]]]]:
    command = [sys.executable, kernel_child.__file__, str(folder), "60", "0"]
    environment = os.environ | {"OPENBLAS_CORETYPE": kernel}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers_by_method: dict[str, list[list[tuple[str, float]]]] = json.loads(done.stdout)["0"]
    return answers_by_method
