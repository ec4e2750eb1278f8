"""Filters in LanceDB's SQL, with indexes and without, agree with the reference."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_filters import SCHEMA, Row, build_batch, filters, list_passing, records, require_agreement

from examples import examples
from ragindex.filters import Filter
from ragindex.stores.lancedb import collection
from ragindex.stores.lancedb.store import LanceDB


@pytest.mark.parametrize("lookups_from", [1, 1000])
@settings(max_examples=examples(4))
@given(those=records, drawn_filters=st.lists(filters, min_size=40, max_size=60))
def test_filters_agree_with_reference(
    lookups_from: int, those: list[Row], drawn_filters: list[Filter], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection, "_LOOKUPS_FROM", lookups_from)
        written = LanceDB(memory_gib=0).open(Path(tmp_path_factory.mktemp("store"))).create("some", SCHEMA)
        written.upsert(build_batch(those))
        written.finish()
    require_agreement(written, those, drawn_filters)
    for where in drawn_filters[:20]:
        scanned = [id for batch in written.scan((), where) for id in batch.column("id").to_pylist()]
        assert sorted(scanned) == list_passing(where, those), where
