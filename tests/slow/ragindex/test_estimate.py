"""An estimate by a sample of documents, held against what the run then uses."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from counting_server import LLM, SCHEMES, build_and_count, counting
from openai_server import OpenAIServer

from ragindex.corpus import Corpus
from ragindex.estimate import EstimateScope, estimate
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.cache import SQLiteCache
from ragindex_eval.data import worlds


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
