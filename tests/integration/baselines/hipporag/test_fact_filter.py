"""HippoRAG 2's filter: a model keeps the facts that help; what it keeps alone starts the walk."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from letters import Letters
from made_extractions import asking, openie, spelt
from openai_server import KEY, OpenAIServer

from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.types import Query, Retrieval, Triple
from ragindex_baselines.dense import Dense
from ragindex_baselines.hipporag.fact_filter import FACT_FILTER
from ragindex_baselines.hipporag.method import HippoRAG

PLAIN, FILTERED = HippoRAG(mode="facts"), HippoRAG(mode="facts", filter="model")
DOCUMENTS = [
    spelt("A", "abc|rises in|xyz", "xyz|borders|mno"),
    spelt("B", "abc|flows to|uvw"),
    spelt("C", "uvw|holds|pqr"),
    spelt("D", "ghi|is near|def"),
]
NONE = json.dumps({"facts": []})
QUESTION = Query("q", "abc rises in xyz?")


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture(scope="module")
def index(server: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("facts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        index = asking(folder / "w", server, encoder=Letters())  # type: ignore[arg-type]
        index.import_part("extractions", openie(folder / "f.json", DOCUMENTS))
        index.add(DOCUMENTS)
        index.build(FILTERED)
        yield index


def search(index: Index, server: OpenAIServer, answer: str, query: Query) -> tuple[Retrieval, list[str]]:
    """Search while the model gives this answer; return the retrieval and what the model was shown."""
    prompts: list[str] = []

    def write(body: Mapping[str, Any]) -> str:
        prompts.append(body["messages"][-1]["content"])
        return answer

    server.write = write
    (retrieval,) = FILTERED.open(index).retrieve([query], 4)
    return retrieval, prompts


def test_facts_that_the_model_keeps_alone_start_the_walk(index: Index, server: OpenAIServer) -> None:
    (plain,) = PLAIN.open(index).retrieve([QUESTION], 4)
    nearest = plain.trace[0]
    assert nearest.triples[0] == Triple("abc", "rises in", "xyz")
    retrieval, (prompt,) = search(index, server, json.dumps({"facts": [1, 1, 99, 0, -3]}), QUESTION)
    for number, triple in enumerate(nearest.triples, start=1):
        assert f"[{number}] {triple.subject} | {triple.predicate} | {triple.object}" in prompt
    facts, helpful, seeds, passages = retrieval.trace
    assert facts.ids == nearest.ids
    assert (helpful.ids, helpful.triples) == (nearest.ids[:1], nearest.triples[:1])
    assert helpful.input_tokens > 0
    assert sorted(seeds.ids) == ["abc", "xyz"]
    assert passages.ids == tuple(hit.id for hit in retrieval.hits)
    assert retrieval.hits[0].id == "A"


def test_all_facts_kept_is_the_method_without_a_filter(index: Index, server: OpenAIServer) -> None:
    query = Query("q", "What does uvw hold?")
    (plain,) = PLAIN.open(index).retrieve([query], 4)
    everything = json.dumps({"facts": [*range(len(plain.trace[0].ids), 0, -1)]})
    retrieval, _ = search(index, server, everything, query)
    assert [(hit.id, hit.score) for hit in retrieval.hits] == [(hit.id, hit.score) for hit in plain.hits]


def test_without_a_fact_that_helps_passages_are_ranked_by_cosine(index: Index, server: OpenAIServer) -> None:
    query = Query("q", "Is ghi near def?")
    retrieval, _ = search(index, server, NONE, query)
    (dense,) = Dense().open(index).retrieve([query], 4)
    assert [(hit.id, hit.score) for hit in retrieval.hits] == [(hit.id, hit.score) for hit in dense.hits]
    assert retrieval.trace[1].ids == ()
    assert retrieval.trace[-1].note == "No fact helps: passages are ranked by cosine."


def test_facts_and_passages_pass_the_filter_of_the_question(index: Index, server: OpenAIServer) -> None:
    retrieval, (prompt,) = search(index, server, NONE, Query("q", "Where is abc?", meta("id", "C", "D")))
    assert "rises in" not in prompt
    assert {hit.id for hit in retrieval.hits} == {"C", "D"}


def test_the_rule_keeps_facts_that_share_a_word() -> None:
    facts = [
        {"number": 1, "subject": "Limpopo", "predicate": "passes", "object": "Beitbridge"},
        {"number": 2, "subject": "Oru", "predicate": "crosses", "object": "Tannmoor"},
    ]
    assert FACT_FILTER.rule is not None
    inputs = {"question": "Which river passes Gwanda?", "facts": facts, "language": "english"}
    assert FACT_FILTER.rule(inputs).facts == [1]


@pytest.mark.parametrize(("text", "numbers"), [("Facts 2 and 5 help.", [2, 5]), ("None of them.", [])])
def test_plain_answers(text: str, numbers: list[int]) -> None:
    assert FACT_FILTER.read is not None
    assert FACT_FILTER.read(text).facts == numbers


def test_a_plain_answer_without_a_number() -> None:
    assert FACT_FILTER.read is not None
    with pytest.raises(ValueError, match="no fact by its number"):
        FACT_FILTER.read("I would rather not.")


def test_tasks_of_the_filter() -> None:
    assert (PLAIN.tasks(), FILTERED.tasks()) == ((), (FACT_FILTER,))
