"""Filters on a server agree with the reference."""

from collections.abc import Iterator

import pytest
from elasticsearch_node.node import store as elasticsearch_store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_filters import SCHEMA, Row, build_batch, filters, records, require_agreement

from examples import examples
from ragindex.filters import Filter
from ragindex.plugins import registry


@pytest.fixture(scope="module")
def written() -> Iterator[str]:
    with elasticsearch_store() as usable:
        yield usable


@given(those=records, drawn_filters=st.lists(filters, min_size=60, max_size=80))
@settings(max_examples=examples(6), suppress_health_check=list(HealthCheck))
def test_filters_agree_with_reference(
    written: str, tmp_path_factory: pytest.TempPathFactory, those: list[Row], drawn_filters: list[Filter]
) -> None:
    store = registry.store(written).open(tmp_path_factory.mktemp("filters") / "store")
    store.drop("records")
    collection = store.create("records", SCHEMA)
    collection.upsert(build_batch(those))
    collection.finish()
    require_agreement(store.open("records", collection.version), those, drawn_filters)
