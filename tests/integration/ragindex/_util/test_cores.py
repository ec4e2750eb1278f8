"""Cores of this process, and BLAS kept to them, in processes of their own because limits are a process's."""

import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import joblib
import pytest

from ragindex._util.cores import available_cores, read_cgroup_limit

_BEGIN = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import scipy.linalg
from threadpoolctl import ThreadpoolController, threadpool_info
from ragindex._util import cores
from ragindex._util.cores import available_cores, limit_blas, search_slot


def threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def set_threads(count):  # by a thread that ends: threadpoolctl obeys the first one as long as it lives
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ThreadpoolController().limit, limits=count, user_api="blas").result()


def after_lingering():
    deadline = time.monotonic() + 60
    while threads() != {4} and time.monotonic() < deadline:
        time.sleep(0.02)
    return threads()


cores.LINGER = 0.3
set_threads(4)
assert threads() == {4}
"""


def _run(script: str, begin: str = _BEGIN) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", begin + "\n" + textwrap.dedent(script) + "\nprint('passed')"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("passed\n", "")


def test_blas_limits() -> None:
    _run("""
    # the lowest limit holds until the last block has ended
    first, second = limit_blas(2), limit_blas(3)
    first.__enter__()
    assert threads() == {2}
    second.__enter__()
    assert threads() == {2}
    with limit_blas(1):
        assert threads() == {1}
    assert threads() == {2}
    first.__exit__(None, None, None)
    assert threads() == {3}
    second.__exit__(None, None, None)
    assert after_lingering() == {4}

    # a limit ends with an error in the block too
    try:
        with limit_blas(1):
            assert threads() == {1}
            1 / 0
    except ZeroDivisionError:
        pass
    assert after_lingering() == {4}

    # an interrupt while a limit is set leaves no limit
    wait = cores._BlasLimits._await_lowest

    def interrupted(limits):
        cores._BlasLimits._await_lowest = wait
        wait(limits)
        raise KeyboardInterrupt

    cores._BlasLimits._await_lowest = interrupted
    try:
        with limit_blas(1):
            raise AssertionError("the block was entered")
    except KeyboardInterrupt:
        pass
    assert after_lingering() == {4}
    with limit_blas(2):
        assert threads() == {2}
    assert after_lingering() == {4}

    # a forked process limits anew
    import os
    with limit_blas(2):
        child = os.fork() if hasattr(os, "fork") else None
        if child == 0:
            with limit_blas(1):
                os._exit(0 if threads() == {1} else 1)
        assert child is None or os.waitpid(child, 0)[1] == 0
    assert after_lingering() == {4}
    """)


def test_libraries_that_are_loaded_inside_a_block_are_limited() -> None:
    """A package is among the modules before its library is loaded, and the limits are looked at in between."""
    begin = """
    import sys, time
    from threadpoolctl import ThreadpoolController, threadpool_info
    from ragindex._util import cores
    cores.LINGER = 0.01
    """
    _run(
        """
        assert "scipy" not in sys.modules
        with cores.limit_blas(2):
            import scipy
            time.sleep(0.1)
            with cores.limit_blas(1):
                pass
            import scipy.linalg
            with cores.limit_blas(1):
                counts = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
                assert counts == [1, 1], counts
        """,
        textwrap.dedent(begin),
    )


def test_texts_have_the_same_fit_whatever_the_threads(tmp_path: Path) -> None:
    script = """
    import json, random, sys
    from pathlib import Path
    from ragindex._util.cores import limit_blas
    from ragindex.encoders.lsa import Lsa
    words = random.Random(0)
    texts = [" ".join(f"w{int(words.paretovariate(0.4)) % 3000}" for _ in range(60)) for _ in range(400)]
    with limit_blas(int(sys.argv[1])):
        Lsa().fit(texts, "english", 0, Path(sys.argv[2]))
    print(json.loads(Path(sys.argv[2], "fit.json").read_text())["id"])
    """
    ids = []
    for count in ("1", "4"):
        folder = tmp_path / f"fit-{len(ids)}"
        folder.mkdir()
        command = [sys.executable, "-c", textwrap.dedent(script), count, str(folder)]
        environment = {**os.environ, "OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}
        ids.append(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
    assert ids[0] == ids[1]


def test_limits_of_searches() -> None:
    _run("""
    # at most one thread a core searches at once
    inside, most, lock = 0, 0, threading.Lock()

    def search(_):
        global inside, most
        with search_slot(), search_slot():  # a search within a search waits for nobody
            with lock:
                inside += 1
                most = max(most, inside)
            assert threads() == {1}
            time.sleep(0.01)
            with lock:
                inside -= 1

    workers = available_cores() + 3
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(search, range(8 * workers)))
    assert most == available_cores(), most

    # searches that follow one another keep the limit
    assert after_lingering() == {4}
    changes = []
    original = cores._limits._limit
    cores._limits._limit = lambda threads: (changes.append(threads), original(threads))
    cores.LINGER = 5.0
    for _ in range(50):
        with limit_blas(1):
            assert threads() == {1}
    assert changes == [1]
    """)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_cores_follow_affinity() -> None:
    begin = "import os; from ragindex._util.cores import available_cores"
    _run("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); assert available_cores() == 1", begin)
    assert 1 <= available_cores() <= len(os.sched_getaffinity(0))


V1, V2 = "3:cpu,cpuacct:{}\n1:memory:/other", "0::{}"


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        (V2.format("/"), {"cpu.max": "max 100000"}, math.inf),
        (V2.format("/"), {"cpu.max": "150000 100000"}, 1.5),  # a container with a group namespace of its own
        (V2.format("/a.slice/b.service"), {"cpu.max": "max 100000", "a.slice/b.service/cpu.max": "200000 100000"}, 2.0),
        (V2.format("/a/b"), {"a/cpu.max": "100000 100000", "a/b/cpu.max": "400000 100000"}, 1.0),
        (V2.format("/a/b"), {"a/b/cpu.weight": "100"}, math.inf),
        (V2.format("/../x"), {}, math.inf),
        (V1.format("/"), {"cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, math.inf),
        (
            V1.format("/docker/1"),  # the group is the container's topmost, and its path that of the host
            {"cpu,cpuacct/cpu.cfs_quota_us": "50000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"},
            0.5,
        ),
        (
            V1.format("/a"),
            {"cpu,cpuacct/a/cpu.cfs_quota_us": "300000", "cpu,cpuacct/a/cpu.cfs_period_us": "100000"},
            3.0,
        ),
        ("1:memory:/", {"cpu.max": "100000 100000"}, math.inf),
        (None, {}, math.inf),  # not Linux
    ],
)
def test_control_group_limits(membership: str | None, files: dict[str, str], cores: float, tmp_path: Path) -> None:
    written = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    written |= {} if membership is None else {"proc/self/cgroup": membership}
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert read_cgroup_limit(tmp_path) == cores


@pytest.fixture
def one_core() -> Iterator[Path]:
    """A control group of the kernel with a limit of half a core. Skipped if this process may not make one."""
    group = Path("/sys/fs/cgroup/cpu" if Path("/sys/fs/cgroup/cpu").is_dir() else "/sys/fs/cgroup", "ragindex-tests")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        v1 = (group / "cpu.cfs_quota_us").exists()
        if not v1 and not (group / "cpu.max").exists():
            pytest.skip("the parent group does not control processors")
        (group / ("cpu.cfs_quota_us" if v1 else "cpu.max")).write_text("50000" if v1 else "50000 100000")
        yield group
    finally:
        group.rmdir()


def test_limit_of_real_control_group(one_core: Path) -> None:
    shell_command = f'echo $$ > {one_core}/cgroup.procs && exec {sys.executable} -c "$1"'
    imports = "from ragindex._util.cores import available_cores, read_cgroup_limit"
    script = f"{imports}; print(available_cores(), read_cgroup_limit())"
    ran = subprocess.run(
        ["sh", "-c", shell_command, "sh", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ran.stdout, ran.stderr) == ("1 0.5\n", "")


@pytest.mark.parametrize("limit", [None, "1", "64"])
def test_cores_are_those_of_joblib(limit: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    available_cores.cache_clear()
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT", raising=False)
    if limit is not None:
        monkeypatch.setenv("LOKY_MAX_CPU_COUNT", limit)
    try:
        assert available_cores() == joblib.cpu_count()
    finally:
        available_cores.cache_clear()
