"""Reranking beside bridges: candidates are judged with what is known already, by each kind of reranker."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_language import QUICK
from openai_server import KEY, OpenAIServer
from rerank_server import reranking

from ragindex.accounting import ledger
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.plugins import registry
from ragindex.types import Document, Query, Retrieval
from ragindex_baselines.rerank import rerankers

TEXTS = {
    "bridge": "Who designed the harbour bridge? Ilse Harrow designed the harbour bridge.",
    "ferry": "The harbour ferry was designed by nobody.",
    "fair": "The harbour fair is held each October.",
    "ilse": "Ilse Harrow was born in Port Callan, far from any harbour.",
}
QUESTION = Query("q", "Where was she born who designed the harbour bridge?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bridges") / "index"
    with Index.open(folder, chunking=None, create=True) as index:
        index.add(Document(id, "", text) for id, text in TEXTS.items())
        index.build("bm25")
    return folder


def search(index: Index, scheme: str) -> tuple[Retrieval, ledger.Tally]:
    with ledger.record_calls() as tally:
        (retrieval,) = registry.scheme(scheme).open(index).retrieve([QUESTION], 4)
    return retrieval, tally


def base_ids(index: Index) -> list[str]:
    return [hit.id for hit in search(index, "bm25")[0].hits]


def test_a_language_model_is_asked_once_for_each_bridge(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names `ilse` beside the bridge, and nothing beside others; so `ilse` comes first."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    prompts: list[str] = []

    def write(body: Mapping[str, Any]) -> str:
        prompt = body["messages"][-1]["content"]
        prompts.append(prompt)
        known, listed = prompt.split("\n\n[1]", 1)
        numbers = {
            text: number for number in range(1, 4) for text in TEXTS.values() if f"[{number}] \n{text}" in prompt
        }
        assert listed.endswith(f"Question again: {QUESTION.text}")
        return json.dumps({"passages": [numbers[TEXTS["ilse"]]] if TEXTS["bridge"] in known else []})

    with OpenAIServer() as server:
        server.write = write
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        index = Index.open(folder, llm="openai:small", llm_settings=LLMSettings(clock=QUICK))
        base = base_ids(index)
        retrieval, tally = search(index, "rerank(base=bm25, pair=bridge, bridges=2)")
    assert [prompt.split("\n\n")[1] for prompt in prompts] == [f"Known: \n{TEXTS[id]}" for id in base[:2]]
    assert [hit.id for hit in retrieval.hits] == ["ilse", *(id for id in base if id != "ilse")]
    assert [call.task for call in tally.entries] == ["rerank-beside"] * 2
    assert retrieval.trace[-1].note == "3 not returned"


def test_an_endpoint_reads_the_question_with_the_bridge(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer() as server:
        monkeypatch.setenv("RERANK_BASE_URL", reranking(server).url)
        monkeypatch.setenv("RERANK_API_KEY", KEY)
        index = Index.open(folder)
        base = base_ids(index)
        search(index, "rerank(base=bm25, pair=bridge, bridges=2, reranker=endpoint(model=ranker))")
    assert [request.body["query"] for request in server.requests] == [
        f"{QUESTION.text}\n{TEXTS[id]}" for id in base[:2]
    ]
    for request, bridge in zip(server.requests, base, strict=False):
        assert request.body["documents"] == [TEXTS[id] for id in base if id != bridge]


def test_a_cross_encoder_scores_each_candidate_beside_each_bridge(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The score is the number of different words that both texts have: the largest counts."""
    queries = set[str]()

    def predict(pairs: list[list[str]], **_: Any) -> Any:
        queries.update(query for query, _ in pairs)
        return np.array([float(len({*query.lower().split()} & {*text.lower().split()})) for query, text in pairs])

    monkeypatch.setattr(rerankers, "_load_cross_encoder", lambda *_: SimpleNamespace(predict=predict))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(nn=SimpleNamespace(Identity=object)))
    index = Index.open(folder)
    retrieval, _ = search(index, "rerank(base=bm25, pair=bridge, bridges=4, reranker=cross-encoder(model=made/up))")
    expected = {}
    for id, text in TEXTS.items():
        others = [f"{QUESTION.text}\n{TEXTS[other]}" for other in TEXTS if other != id]
        expected[id] = max(len({*other.lower().split()} & {*text.lower().split()}) for other in others)
    assert {hit.id: hit.score for hit in retrieval.hits} == expected
    assert queries == {f"{QUESTION.text}\n{text}" for text in TEXTS.values()}


def test_the_rule_reads_the_bridge(folder: Path) -> None:
    """Beside the bridge, `ilse` shares its name too; one bridge stays first."""
    retrieval, tally = search(Index.open(folder), "rerank(base=bm25, pair=bridge, bridges=1, depth=4)")
    assert [hit.id for hit in retrieval.hits][:2] == ["bridge", "ilse"]
    assert (tally.rules, tally.calls) == (1, 0)
