"""LightRAG by hand: what keywords of a question lead to, in each mode, and what a filter keeps out."""

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_extractions import asking, openie, spelt
from openai_server import KEY, OpenAIServer

from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Query, Retrieval, Triple
from ragindex_baselines.dense import Dense
from ragindex_baselines.lightrag import KEYWORDS, LightRAG, add_places

DOCUMENTS = (
    spelt("1", "Ann|knows|Bob", "Bob|knows|Cid"),
    spelt("2", "Cid|knows|Ann", "Ann|knows|Bob"),
    spelt("3", "Cid|met|Dan"),
    spelt("4", "Dan|likes|Eve", "Eve|likes|Fay"),
    spelt("5", "Fay|likes|Dan"),
    spelt("6", "Gil|sold|Hal"),
)
MODES = ("local", "global", "hybrid", "mix")


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture(scope="module")
def index(server: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """An index with embeddings that count words, and a model that writes keywords."""
    folder = tmp_path_factory.mktemp("lightrag")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setenv("EMBEDDING_BASE_URL", server.url)
        index = asking(folder / "w", server, encoder="openai:words")
        index.import_part("extractions", openie(folder / "openie.json", DOCUMENTS))
        index.add(DOCUMENTS)
        index.build(LightRAG(mode="mix"))
        yield index


def search(
    index: Index, server: OpenAIServer, scheme: LightRAG, keywords: dict[str, Any], query: Query, k: int = 10
) -> Retrieval:
    server.write = lambda _: json.dumps(keywords)
    (retrieval,) = scheme.open(index).retrieve([query], k)
    return retrieval


def test_details_lead_to_entities(index: Index, server: OpenAIServer) -> None:
    keywords = {"details": [" Dan ", "", "Dan"], "themes": ["friendship"]}
    server.requests.clear()
    retrieval = search(index, server, LightRAG(mode="local", entities=2), keywords, Query("q", "Dan's friends?"))
    encoded = [request.body["input"] for request in server.requests if request.path == "/v1/embeddings"]
    assert encoded == [["Dan"]], "themes and question are not searched"
    written, entities, passages = retrieval.trace
    assert written.note == "details: Dan; themes: friendship"
    assert written.input_tokens > 0
    assert (entities.query, entities.ids[0]) == ("Dan", "Dan")
    assert {hit.id for hit in retrieval.hits} >= {"3", "4", "5"}
    assert retrieval.hits[0].score >= 1.0
    assert passages.ids == tuple(hit.id for hit in retrieval.hits)
    descriptions = retrieval.notes[0].splitlines()
    assert descriptions[0] == "Dan"
    assert set(descriptions[1:]) == {"Cid met Dan", "Dan likes Eve", "Fay likes Dan"}


def test_themes_lead_to_triples(index: Index, server: OpenAIServer) -> None:
    keywords = {"details": [], "themes": ["sold"]}
    retrieval = search(index, server, LightRAG(mode="global", relations=1), keywords, Query("q", "Which trade was it?"))
    _, triples, _ = retrieval.trace
    assert triples.triples == (Triple("Gil", "sold", "Hal"),)
    assert [(hit.id, hit.score) for hit in retrieval.hits] == [("6", 1.0)]
    assert retrieval.notes == ("Gil sold Hal",)


def test_hybrid_adds_both_and_mix_the_passages(index: Index, server: OpenAIServer) -> None:
    keywords, query = {"details": ["Ann"], "themes": ["sold"]}, Query("q", "Eve likes Fay")
    scores = {}
    for mode in MODES:
        retrieval = search(index, server, LightRAG(mode=mode, entities=3, relations=2), keywords, query)  # type: ignore[arg-type]
        scores[mode] = {hit.id: Fraction(hit.score).limit_denominator(1000) for hit in retrieval.hits}
    for id, score in scores["hybrid"].items():
        assert score == scores["local"].get(id, 0) + scores["global"].get(id, 0)
    more = {id: score - scores["hybrid"].get(id, 0) for id, score in scores["mix"].items()}
    (dense,) = Dense().open(index).retrieve([query], 6)
    assert {id: gain for id, gain in more.items() if gain} == {
        hit.id: Fraction(1, place) for place, hit in enumerate(dense.hits, start=1)
    }


def test_an_empty_list_is_replaced_by_the_question(index: Index, server: OpenAIServer) -> None:
    retrieval = search(index, server, LightRAG(), {"details": [], "themes": []}, Query("q", "Gil sold Hal"))
    assert [step.query for step in retrieval.trace[1:3]] == ["Gil sold Hal"] * 2
    assert retrieval.hits[0].id == "6"


def test_keywords_by_rule() -> None:
    assert KEYWORDS.rule is not None
    keywords = KEYWORDS.rule({"question": "How did the floods of the Oru change trade in Port Callan?"})
    assert (keywords.details, keywords.themes) == (
        ["Oru", "Port Callan"],
        ["floods Oru change trade Port Callan"],
    )


@given(st.lists(st.lists(st.lists(st.sampled_from("abcde"), unique=True, max_size=4), max_size=6), max_size=3))
def test_scores_of_passages(rankings: list[list[list[str]]]) -> None:
    exact: dict[str, Fraction] = {}
    for ranking in rankings:
        for place, ids in enumerate(ranking):
            for id in ids:
                exact[id] = exact.get(id, Fraction()) + Fraction(1, 1 + place)
    scores = add_places(rankings)
    assert list(scores) == sorted(exact, key=lambda id: (-exact[id], id))
    assert scores == pytest.approx({id: float(score) for id, score in exact.items()})


def test_parts_of_each_mode() -> None:
    names = {mode: [registry.name_of(part) for part in LightRAG(mode=mode).parts()] for mode in MODES}  # type: ignore[arg-type]
    assert names == {
        "local": ["passages", "entity_graph", "entity_vectors"],
        "global": ["passages", "entity_graph", "vectors"],
        "hybrid": ["passages", "entity_graph", "entity_vectors", "vectors"],
        "mix": ["passages", "entity_graph", "entity_vectors", "vectors", "vectors"],
    }
