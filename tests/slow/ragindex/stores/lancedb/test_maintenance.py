"""Whatever is written to a LanceDB collection, its answers stay exact."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_lance import SCHEMA, WORDS, records

from examples import examples
from ragindex.filters import Ids, Not, Terms
from ragindex.interfaces import FilterQuery, SearchRequest, SearchResult, TextQuery
from ragindex.stores.lancedb import collection as module
from ragindex.stores.lancedb import maintenance
from ragindex.stores.lancedb.store import LanceDB


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every threshold so low that a handful of records crosses it in some histories and not in others."""
    monkeypatch.setattr(maintenance, "_FEW_UNLIKE", 4)
    monkeypatch.setattr(maintenance, "_MANY_UNLIKE", 6)
    monkeypatch.setattr(maintenance, "_FRAGMENTS", 4)
    monkeypatch.setattr(maintenance, "_DELETED", 0.4)
    monkeypatch.setattr(maintenance, "_ANN_FROM", 8)
    monkeypatch.setattr(module, "_LOOKUPS_FROM", 6)


texts = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
ids = st.integers(0, 24).map("r{:02d}".format)
steps = st.one_of(
    st.tuples(st.just("put"), st.dictionaries(ids, texts, min_size=1, max_size=8)),
    st.tuples(st.just("drop"), st.sets(ids, min_size=1, max_size=6)),
    st.tuples(st.just("finish"), st.none()),
    st.tuples(st.just("clean"), st.none()),
)
questions = st.lists(st.sampled_from((*WORDS, "none")), min_size=1, max_size=4).map(" ".join)


def round_answer(answer: SearchResult) -> tuple[list[str], list[float], list[dict[str, object]]]:
    return answer.ids, np.round(answer.scores, 9).tolist(), answer.records.to_pylist()


def make_requests(question: str) -> list[SearchRequest]:
    return [
        TextQuery(question, 3, ("text", "tags")),
        TextQuery(question, 40, ("vector",)),
        TextQuery(question, 4, (), Terms("tags", ("t1",))),
        TextQuery(question, 4, ("text",), Not(Ids(("r03", "r05", "r07")))),
        TextQuery(question, 40, (), Ids(tuple(f"r{n:02d}" for n in range(0, 25, 3)))),
        FilterQuery(Terms("tags", ("t0",)), 5, ("text",)),
    ]


@pytest.mark.usefixtures("eager")
@given(st.lists(steps, min_size=1, max_size=14), questions)
@settings(max_examples=examples(20))
def test_any_history_answers_like_a_fresh_collection(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, object]], question: str
) -> None:
    """By LanceDB's indexes, however old they are, as from memory; a reader stays where it was opened."""
    store = LanceDB(memory_gib=0).open(tmp_path_factory.mktemp("beyond"))
    collection, contents = store.create("some", SCHEMA), dict[str, str]()
    reader, before = None, list[tuple[object, ...]]()
    for step, what in [*history, ("finish", None)]:
        if isinstance(what, dict):
            collection.upsert(records(what))
            contents |= what
        elif isinstance(what, set):
            collection.delete(what)
            contents = {id: text for id, text in contents.items() if id not in what}
        elif step == "finish":
            collection.finish()
            if reader is None:
                reader = store.open("some", collection.version)
                before = [round_answer(hit) for hit in reader.search(make_requests(question))]
        else:
            store.clean("some", {reader.version} if reader else set())
    fresh = LanceDB(memory_gib=1).open(tmp_path_factory.mktemp("fresh")).create("some", SCHEMA)
    if contents:
        fresh.upsert(records(contents))
    expected = [round_answer(hit) for hit in fresh.search(make_requests(question))]
    for opened in (collection, store.open("some", collection.version)):
        assert [round_answer(hit) for hit in opened.search(make_requests(question))] == expected
    assert reader is not None
    again = store.open("some", reader.version)
    assert [round_answer(hit) for hit in again.search(make_requests(question))] == before
