"""Estimates by a sample, held against what the run then uses."""

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import openai_server
import pytest
import tiktoken
from comparing import compare
from openai_server import OpenAIServer

from ragindex.accounting.ledger import record_calls
from ragindex.corpus import Corpus
from ragindex.estimate import estimate, estimate_questions
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import openai_chat, tokens
from ragindex.llm.cache import SQLiteCache
from ragindex.plugins import registry
from ragindex_eval.data import datasets, worlds

ENCODING = tiktoken.Encoding(
    "words and signs", pat_str=r"\w+|\s|[^\w\s]", mergeable_ranks={bytes([n]): n for n in range(256)}, special_tokens={}
)


SCHEMES = [registry.scheme("bm25(over=triples)")]


LLM = registry.llm("openai:small")


def count(text: str) -> int:
    return len(ENCODING.encode(text))


def answer(body: Mapping[str, Any]) -> str:
    """Longer than the rules' answers, and not always as long."""
    text = body["messages"][-1]["content"]
    rng = random.Random(text)
    triples = [[f"subject {n}", "is related to", f"object {n}"] for n in range(rng.randrange(6, 13))]
    return json.dumps({"entities": [f"object {n}" for n in range(10)], "triples": triples})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenAIServer]:
    prices = tmp_path / "prices.yaml"
    prices.write_text("models:\n  small: {input: 1.0, output: 4.0}\n")
    monkeypatch.setattr(tokens, "load_tokenizer", lambda model: ENCODING)
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", openai_server.KEY)
    monkeypatch.setenv("RAGINDEX_PRICES", str(prices))
    with OpenAIServer() as running:
        running.write, running.count = answer, count
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus("world", "world", tuple(worlds.make_documents(120)), 0, (), True)


def used(corpus: Corpus, folder: Path, setting: LLMSettings) -> Any:
    with (
        record_calls() as tally,
        Index.open(folder, llm=LLM, chunking=None, llm_settings=setting, create=True) as workspace,
    ):
        workspace.add(corpus.documents)
        workspace.build(*SCHEMES)
    return tally


def test_a_sample_measures_the_answers_and_is_not_paid_twice(
    server: OpenAIServer, corpus: Corpus, tmp_path: Path
) -> None:
    setting = LLMSettings(cache=SQLiteCache(tmp_path / "calls.sqlite"))
    (one,) = estimate(corpus, SCHEMES, LLM, setting, sample=20)
    assert one.sampled
    assert len(server.requests) == 20
    tally = used(corpus, tmp_path / "w", setting)
    assert len(server.requests) == 120
    assert tally.replayed == 20
    assert one.input_tokens == pytest.approx(tally.first.input_tokens, rel=0.05)
    assert one.output_tokens == pytest.approx(tally.first.output_tokens, rel=0.15)


def test_reading_is_estimated_for_each_method(server: OpenAIServer, tmp_path: Path) -> None:
    data = datasets.read_dataset("world:100", limit=40)
    server.write = lambda body: json.dumps({"answer": "x " * (1 + len(body["messages"][-1]["content"]) % 5)})
    setting = LLMSettings(cache=SQLiteCache(tmp_path / "calls.sqlite"))
    schemes = {"bm25": registry.scheme("bm25")}
    (one,) = estimate_questions(data.corpus, schemes, LLM, setting, data.queries, reads=True, sample=20)
    assert (one.task, one.calls, one.sampled) == ("answer, bm25", 40, True)
    assert len(server.requests) == 20
    folder = tmp_path / "w"
    calls = {"llm": "openai:small", "read": True, "index": folder}
    result = compare(data, ["bm25"], k=(20,), **calls)  # type: ignore[arg-type]
    costs = [answer.reading.usage for answer in result.methods[0].final if answer.reading]
    assert one.input_tokens == pytest.approx(sum(cost.input_tokens for cost in costs), rel=0.05)
    assert one.output_tokens == pytest.approx(sum(cost.output_tokens for cost in costs), rel=0.15)
