"""Estimates by a sample, held against what the run then uses."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from comparing import compare
from counting_server import LLM, SCHEMES, build_and_count, counting
from openai_server import OpenAIServer

from ragindex.corpus import Corpus
from ragindex.estimate import EstimateScope, ReadingPlan, estimate, estimate_questions
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.cache import SQLiteCache
from ragindex.plugins import registry
from ragindex_eval.data import datasets, worlds


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenAIServer]:
    with counting(monkeypatch, tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus("world", "world", tuple(worlds.make_documents(120)), 0, (), True)


def test_a_sample_measures_the_answers_and_is_not_paid_twice(
    server: OpenAIServer, corpus: Corpus, tmp_path: Path
) -> None:
    setting = LLMSettings(cache=SQLiteCache(tmp_path / "calls.sqlite"))
    (estimated,) = estimate(corpus, SCHEMES, LLM, setting, EstimateScope(sample=20))
    assert estimated.sampled
    assert len(server.requests) == 20
    tally = build_and_count(corpus, tmp_path / "w", setting)
    assert len(server.requests) == 120
    assert tally.replayed == 20
    assert estimated.input_tokens == pytest.approx(tally.first.input_tokens, rel=0.05)
    assert estimated.output_tokens == pytest.approx(tally.first.output_tokens, rel=0.15)


def test_reading_is_estimated_for_each_method(server: OpenAIServer, tmp_path: Path) -> None:
    data = datasets.read_dataset("world:100", limit=40)
    server.write = lambda body: json.dumps({"answer": "x " * (1 + len(body["messages"][-1]["content"]) % 5)})
    setting = LLMSettings(cache=SQLiteCache(tmp_path / "calls.sqlite"))
    schemes = {"bm25": registry.scheme("bm25")}
    (estimated,) = estimate_questions(
        data.corpus, schemes, LLM, setting, data.queries, reading=ReadingPlan(LLM), scope=EstimateScope(sample=20)
    )
    assert (estimated.task, estimated.calls, estimated.sampled) == ("answer, bm25", 40, True)
    assert len(server.requests) == 20
    folder = tmp_path / "w"
    calls = {"llm": "openai:small", "read": True, "index": folder}
    result = compare(data, ["bm25"], k=(20,), **calls)  # type: ignore[arg-type]
    costs = [answer.reading.usage for answer in result.methods[0].final if answer.reading]
    assert estimated.input_tokens == pytest.approx(sum(cost.input_tokens for cost in costs), rel=0.05)
    assert estimated.output_tokens == pytest.approx(sum(cost.output_tokens for cost in costs), rel=0.15)
