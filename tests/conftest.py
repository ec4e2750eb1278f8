"""The cost of the tests, which follows from what they use, and a real server for those that want one.

| folder | what its tests use | run by |
|---|---|---|
| unit | functions and files: no index, process or socket, which is checked | `make test`, `make check` |
| contract | an index on disk; every registered plugin | `make test`; wider in `make test-slow` |
| integration | an index on disk, a command, a server in this process | `make test` |
| slow | processes that are killed, nodes, wheels, browsers, torch, long histories | `make test-slow` |

Property tests run twice: always with the same examples in `make test`, with random ones in `make test-slow`.
"""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from elasticsearch_node.node import store as elasticsearch_store
from memory_folder import folder_in_memory

import examples
from ragindex._util import progress
from ragindex.corpus.readers.process import ReadingLimits, parse_file
from ragindex.corpus.reading_processes import ReadingProcesses, load_answer
from ragindex.plugins import registry

gc.disable()  # until all tests are collected: imports leave little garbage, and looking for it takes time
tempfile.tempdir = os.environ.setdefault("TMPDIR", str(folder_in_memory(4 << 30)))  # of `tmp_path` and of processes
os.environ.setdefault("RAGINDEX_CACHE", str(Path(sys.prefix) / "ragindex-cache"))  # exported models, of all processes
_state = tempfile.TemporaryDirectory(prefix="ragindex-state-")
os.environ["RAGINDEX_STATE"] = _state.name  # no test writes into the log of the user, nor is stopped by a limit
os.environ.pop("RAGINDEX_DAILY_BUDGET", None)
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["LANGSMITH_TRACING"] = "false"
os.fsync = lambda descriptor: None  # type: ignore[assignment]  # killed processes lose nothing; no test cuts the power
os.environ["RAGINDEX_WORKERS"] = "1"  # tests run on all cores already; those of workers ask for more
examples.load_profile()

_UNIT, _SLOW = (Path(__file__).parent / name for name in ("unit", "slow"))
_COSTLY_EVENTS = ("os.fork", "os.posix_spawn", "socket.bind", "socket.connect", "subprocess.Popen")
_costs: list[str] = []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the modules of slow tests where none of them is to run: they import torch and what is built on it."""
    return True if collection_path == _SLOW and config.option.markexpr == "not slow" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow and what takes random examples.

    What kills nodes comes first: of several workers the first then has all of it, and the nodes once.
    """
    for item in items:
        if item.path.is_relative_to(_SLOW):
            item.add_marker("slow")
        if hasattr(getattr(item, "obj", None), "hypothesis"):
            item.add_marker("property")
    items.sort(key=lambda item: item.get_closest_marker("faults") is None)


def pytest_collection_finish() -> None:
    """Take what is imported out of garbage collection: tests that collect garbage then look at their own alone."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 50)  # a test leaves little garbage, and looking for it takes time


def pytest_report_header(config: pytest.Config) -> str:
    """Say which examples property tests take, so that a failure can be repeated."""
    seed = config.getoption("--hypothesis-seed", None)
    return f"examples: RANDOM_EXAMPLES=1 --hypothesis-seed={seed}" if examples.RANDOM else "examples: always the same"


def _note_cost(event: str, arguments: tuple[Any, ...]) -> None:
    if arguments[:1] == ("lscpu",):  # numpy.testing of NumPy 1 looks at the processor when it is imported
        return
    if event in _COSTLY_EVENTS or (event == "open" and str(arguments[0]).endswith("workspace.json")):
        _costs.append(f"{event} {str(arguments)[:80]}")


sys.addaudithook(_note_cost)


# ---------------------------------------------------------------- around each test, by hooks: fixtures cost more


def _parse_here(
    self: object,
    raw: bytes,
    path: Path,
    suffix: str,
    encoding: str | None,
    limits: ReadingLimits,
    ocr: bool = False,
    rows: Any = None,
) -> Any:
    columns = None if rows is None else asdict(rows)
    return load_answer(parse_file(raw, str(path), suffix, encoding, limits, ocr, columns), path, limits)


_PARSE_IN_PROCESS = ReadingProcesses.read
_COSTS_BEFORE, _HANDLER_BEFORE = pytest.StashKey[int](), pytest.StashKey[Any]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Parse files in this process in tests/unit; elsewhere a process that stays for all tests does it."""
    unit = item.path.is_relative_to(_UNIT)
    ReadingProcesses.read = _parse_here if unit else _PARSE_IN_PROCESS  # type: ignore[assignment,method-assign]
    item.stash[_COSTS_BEFORE] = len(_costs)
    item.stash[_HANDLER_BEFORE] = signal.getsignal(signal.SIGINT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test in tests/unit that opens an index, a process or a socket: it belongs to tests/integration.

    A command that runs in this process replaces the handler of Ctrl-C, which is restored.
    """
    yield
    if signal.getsignal(signal.SIGINT) is not item.stash[_HANDLER_BEFORE]:
        signal.signal(signal.SIGINT, item.stash[_HANDLER_BEFORE])
    _forget_mlflow_of_folder()
    if item.path.is_relative_to(_UNIT):
        costs = _costs[item.stash[_COSTS_BEFORE] :]
        assert costs == [], "Move this test to tests/integration: tests in tests/unit use none of these."


def _forget_mlflow_of_folder() -> None:
    """Let MLflow forget `sqlite:///mlflow.db`: it keeps the file of the first test, in a folder that is gone."""
    store = sys.modules.get("mlflow.store.tracking.sqlalchemy_store")
    if store is not None and (engine := store.SqlAlchemyStore._engine_map.pop("sqlite:///mlflow.db", None)) is not None:
        engine.dispose()
        registry = sys.modules["mlflow.tracking._tracking_service.registry"]
        registry.TrackingStoreRegistry._get_store_with_resolved_uri.cache_clear()


@pytest.fixture(autouse=True, scope="session")
def _no_lines_of_progress() -> None:
    """Print no progress on a slow machine, where tests read all of standard error; those of progress set it again."""
    progress._LINE_SECONDS = 1e9


@pytest.fixture
def written() -> Iterator[str]:
    """A store on a real Elasticsearch, as it is written; its indices are deleted in the end."""
    with elasticsearch_store() as usable:
        yield usable


@pytest.fixture
def store(written: str, tmp_path: Path) -> Any:
    """The store, opened."""
    return registry.store(written).open(tmp_path / "work space" / "store")
