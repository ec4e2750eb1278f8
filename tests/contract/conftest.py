"""Every store, for the store contract."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from elasticsearch_node.node import store as elasticsearch_store
from made_records import STORES

from ragindex.interfaces import Store
from ragindex.plugins import registry


@pytest.fixture(params=STORES)
def written(request: pytest.FixtureRequest) -> Iterator[str]:
    """A store as it is written."""
    text = STORES[request.param]
    with elasticsearch_store() if text == "elasticsearch" else nullcontext(text) as usable:
        yield usable


@pytest.fixture
def store(written: str, tmp_path: Path) -> Store:
    """The store, opened."""
    return registry.store(written).open(tmp_path / "store")
