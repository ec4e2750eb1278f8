"""The order of the tests, and a real server for those that want one."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elasticsearch_node.node import store as elasticsearch_store

from ragindex import progress
from ragindex.plugins import registry

os.environ.setdefault("RAGINDEX_CACHE", str(Path(sys.prefix) / "ragindex-cache"))  # exported models, of all processes
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["RAGINDEX_WORKERS"] = "1"  # tests run on all cores already; those of workers ask for more


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What kills nodes comes first: of several workers the first then has all of it, and the nodes once."""
    items.sort(key=lambda item: item.get_closest_marker("faults") is None)


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """Restore the handler of Ctrl-C, which a command that runs in this process replaces."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)


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
