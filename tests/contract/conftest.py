"""Every store, for the store contract."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from elasticsearch_node.node import store as elasticsearch_store
from made_records import STORES

from ragindex.interfaces import Store
from ragindex.plugins import registry

NODE = {"elasticsearch": pytest.mark.slow}


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of the index that the checks of a scheme share, by how the scheme is written."""
    root = tmp_path_factory.mktemp("built")
    return lambda written: root / hashlib.sha256(written.encode()).hexdigest()[:12]


@pytest.fixture(params=[pytest.param(one, marks=NODE.get(one, ())) for one in STORES])
def written(request: pytest.FixtureRequest) -> Iterator[str]:
    """A store as it is written. A test of Elasticsearch is slow: it takes a node."""
    text = STORES[request.param]
    with elasticsearch_store() if text == "elasticsearch" else nullcontext(text) as usable:
        yield usable


@pytest.fixture
def store(written: str, tmp_path: Path) -> Store:
    """The store, opened."""
    return registry.store(written).open(tmp_path / "store")
