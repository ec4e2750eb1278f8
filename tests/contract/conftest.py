"""Every store, for the store contract."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from elasticsearch_node.node import store as elasticsearch_store
from made_records import FILTERED, STORES

from ragindex.interfaces import Store
from ragindex.plugins import registry


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of the index that the checks of a scheme share, by how the scheme is written."""
    root = tmp_path_factory.mktemp("built")
    return lambda written: root / hashlib.sha256(written.encode()).hexdigest()[:12]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Test every store, and each way of filtering in the tests of filters. Elasticsearch is slow: it takes a node."""
    if "written" in metafunc.fixturenames and "store_contract" in metafunc.module.__name__:
        names = FILTERED if metafunc.module.__name__.endswith("filters") else STORES
        marks = {"elasticsearch": pytest.mark.slow}
        metafunc.parametrize("written", [pytest.param(n, marks=marks.get(n, ())) for n in names], indirect=True)


@pytest.fixture
def written(request: pytest.FixtureRequest) -> Iterator[str]:
    """A store as it is written."""
    text = STORES[request.param]
    with elasticsearch_store() if text == "elasticsearch" else nullcontext(text) as usable:
        yield usable


@pytest.fixture
def store(written: str, tmp_path: Path) -> Store:
    """The store, opened."""
    return registry.store(written).open(tmp_path / "store")
