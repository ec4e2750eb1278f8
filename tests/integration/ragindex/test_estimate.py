"""An estimate, held against what the run then uses; the tokenizer is a real one, made here and known to the server."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from comparing import compare
from counting_server import LLM, SCHEMES, build_and_count, count_tokens, counting
from openai_server import OpenAIServer

from ragindex import estimate as estimate_module
from ragindex.accounting.ledger import record_calls
from ragindex.corpus import Corpus
from ragindex.errors import UsageError
from ragindex.estimate import (
    Estimate,
    EstimateScope,
    Pricing,
    ReadingPlan,
    estimate,
    estimate_encoding,
    estimate_questions,
)
from ragindex.estimate_left import BuildPlan, estimate_left
from ragindex.index.index import Index
from ragindex.interfaces import OpenIndex, Part, Retriever, Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import tokens
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.output import schema_text
from ragindex.llm.prices import load_prices
from ragindex.llm.tasks import Task
from ragindex.parts.text.passages import Passages
from ragindex.parts.triples.extractions import EXTRACT
from ragindex.plugins import registry
from ragindex.types import Query, Retrieval
from ragindex_baselines.bm25 import BM25
from ragindex_eval.data import datasets, worlds


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenAIServer]:
    with counting(monkeypatch, tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus("world", "world", tuple(worlds.make_documents(50)), 0, (), True)


def test_without_a_sample_nothing_is_asked_and_input_is_near(
    server: OpenAIServer, corpus: Corpus, tmp_path: Path
) -> None:
    (estimated,) = estimate(corpus, SCHEMES, LLM, LLMSettings())
    assert server.requests == []
    assert (estimated.task, estimated.calls, estimated.sampled, estimated.counted) == ("extract", 50, False, True)
    real = build_and_count(corpus, tmp_path / "w", LLMSettings()).first
    assert estimated.input_tokens == pytest.approx(real.input_tokens, rel=0.05)
    assert estimated.money == pytest.approx(estimated.input_tokens / 1e6 + 4 * estimated.output_tokens / 1e6)


class Restating(Scheme):
    """BM25 that asks the model to extract from every question, twice."""

    version: ClassVar[int] = 1

    def _parts(self) -> tuple[Part[Any], ...]:
        return (Passages(),)

    def tasks(self) -> tuple[Task[Any], ...]:
        return (EXTRACT,)

    def _open(self, index: OpenIndex) -> Retriever:
        return RestatingRetriever(BM25().open(index), index)


@dataclass(frozen=True)
class RestatingRetriever:
    base: Retriever
    index: OpenIndex

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        for query in queries:
            for title in ("first", "second"):
                self.index.llm.run(EXTRACT, {"title": title, "text": query.text, "numbers_as_entities": False})
        return self.base.retrieve(queries, k)


def test_what_a_method_asks_for_each_question_is_estimated(server: OpenAIServer, tmp_path: Path) -> None:
    data = datasets.read_dataset("world:60", limit=5)
    schemes = {"restating": Restating(), "bm25": registry.scheme("bm25")}
    (question,) = estimate_questions(data.corpus, schemes, LLM, LLMSettings(), data.queries)
    assert (question.task, question.calls, question.sampled) == ("extract, restating", 10, False)
    assert server.requests == []
    method = compare(data, [Restating()], k=(20,), llm="openai:small", index=tmp_path / "w").methods[0]
    assert method.calls == 2.0
    assert question.input_tokens == pytest.approx(5 * method.query_usage.input_tokens, rel=0.05)


@pytest.mark.parametrize(
    ("method", "tasks"),
    [("ircot", {"thought"}), ("self-ask", {"follow-ups"}), ("gear", {"gear-read", "gear-reason", "gear-rewrite"})],
)
def test_methods_that_ask_are_estimated_by_what_their_rules_ask(method: str, tasks: set[str]) -> None:
    data = datasets.read_dataset("world:50", limit=2)
    schemes = {method: registry.scheme(method)}
    questions = estimate_questions(data.corpus, schemes, LLM, LLMSettings(), data.queries)
    assert {estimate_of_method.task for estimate_of_method in questions} == {f"{task}, {method}" for task in tasks}
    assert max(estimate_of_method.calls for estimate_of_method in questions) >= 2  # at least once a question
    assert all(estimate_of_method.input_tokens > 10 * estimate_of_method.calls for estimate_of_method in questions)


def test_a_paid_encoder_is_estimated_to_the_token(server: OpenAIServer, tmp_path: Path) -> None:
    data = datasets.read_dataset("world:50", limit=4)
    encoder = registry.encoder("openai(model=small-embedding, dimensions=48, price=2.0)")
    schemes = {name: registry.scheme(name) for name in ("bm25", "dense", "hybrid")}
    with record_calls() as tally:
        index, *estimates = estimate_encoding(data.corpus, schemes, encoder, load_prices(), queries=data.queries)
    assert (tally.spent.input_tokens, server.requests) == (0, [])
    with Index.open(tmp_path / "w", encoder=encoder, chunking=data.corpus.chunking, create=True) as workspace:
        workspace.add(data.corpus.documents)
        workspace.build(*schemes.values())
    sent = [text for request in server.requests for text in request.body["input"]]
    # without `dimensions`, the encoder asks about one more short text to learn them
    assert (index.task, index.calls, index.input_tokens) == ("encoding, index", len(sent), sum(map(count_tokens, sent)))
    assert index.money == pytest.approx(2.0 * index.input_tokens / 1e6)
    assert (index.output_tokens, index.counted) == (0, True)
    questions = sum(count_tokens(query.text) for query in data.queries)
    assert [(entry.task, entry.calls, entry.input_tokens) for entry in estimates] == [
        ("encoding, questions", 4, questions),  # once for all methods of a comparison
    ]
    assert estimates[0].methods == ("dense", "hybrid")


def test_an_encoder_that_costs_nothing_has_no_estimate() -> None:
    data = datasets.read_dataset("world:50", limit=4)
    schemes = {"dense": registry.scheme("dense")}
    assert estimate_encoding(data.corpus, schemes, registry.encoder("lsa"), load_prices()) == []
    paid = registry.encoder("openai:small-embedding")
    assert estimate_encoding(data.corpus, {"bm25": registry.scheme("bm25")}, paid, load_prices()) == []


def test_what_cannot_be_estimated(corpus: Corpus) -> None:
    with pytest.raises(UsageError, match="An estimate needs an LLM, as --llm openai:MODEL"):
        estimate(corpus, SCHEMES, registry.llm("offline"), LLMSettings())
    assert estimate(corpus, [registry.scheme("bm25")], LLM, LLMSettings()) == []


def test_money_is_unknown_without_a_price(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "load_tokenizer", lambda model: None)
    (estimated,) = estimate(corpus, SCHEMES, registry.llm("openai:nobody-knows"), LLMSettings())
    assert isinstance(estimated, Estimate)
    assert (estimated.money, estimated.counted) == (None, False)


def test_the_interval_of_a_sample_holds_the_charge(server: OpenAIServer, corpus: Corpus, tmp_path: Path) -> None:
    cache = SQLiteCache(tmp_path / "calls.sqlite")
    (plain,) = estimate(corpus, SCHEMES, LLM, LLMSettings())
    (sampled,) = estimate(corpus, SCHEMES, LLM, LLMSettings(cache=cache), EstimateScope(sample=20))
    real = build_and_count(corpus, tmp_path / "w", LLMSettings()).first
    for estimated in (plain, sampled):
        assert estimated.money_low < estimated.money < estimated.money_high <= 2 * estimated.money_low
    assert (plain.basis, sampled.basis, sampled.methods) == ("assumed", "sampled", ("bm25(over=triples)",))
    assert sampled.money_low <= real.money <= sampled.money_high
    assert sampled.money == pytest.approx(real.money, rel=0.15)
    assert sampled.money_high - sampled.money_low < plain.money_high - plain.money_low


def test_the_upper_end_has_the_schema_of_the_answers(
    server: OpenAIServer, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    (estimated,) = estimate(corpus, SCHEMES, LLM, LLMSettings())
    schema = count_tokens(schema_text(EXTRACT.output))
    monkeypatch.setattr(estimate_module, "_describe_schema", lambda task: "")
    (without,) = estimate(corpus, SCHEMES, LLM, LLMSettings())
    assert without.money_high is not None
    charged = estimated.calls * schema * 1.02 / 1e6  # at a dollar for a million tokens, one answer in fifty twice
    assert estimated.money_high - without.money_high == pytest.approx(charged, rel=0.01)
    assert estimated.money_low == without.money_low


@pytest.mark.parametrize(
    ("written", "thoughts"),
    [
        ("openai:gpt-4o-mini", 0),
        ("openai:gpt-5-mini", 450),
        ("openai:gpt-5-chat-latest", 0),
        ("openai:o3", 450),
        ("openai:openai/o4-mini", 450),
        ("openai(model=gpt-5-mini, reasoning_effort=low)", 200),
        ("openai(model=mine, reasoning_effort=high)", 1500),
    ],
)
def test_models_that_reason_are_assumed_to_think(written: str, thoughts: int) -> None:
    assert Pricing.of(registry.llm(written), LLMSettings()).thoughts == thoughts


def test_what_the_cache_has_costs_nothing(server: OpenAIServer, corpus: Corpus, tmp_path: Path) -> None:
    with Index.open(tmp_path / "w", llm=LLM, chunking=None, create=True) as index:
        index.add(corpus.documents[:20])
        index.build(*SCHEMES)
    server.requests.clear()
    labelled = {registry.label(scheme): scheme for scheme in SCHEMES}
    first = replace(corpus, documents=corpus.documents[:20])
    assert estimate_left(tmp_path / "w", first, labelled, LLMSettings()) == []
    (left,) = estimate_left(tmp_path / "w", corpus, labelled, LLMSettings())
    assert (left.task, left.calls, left.methods) == ("extract", 30, ("bm25(over=triples)",))
    (nothing_kept,) = estimate_left(tmp_path / "w", corpus, labelled, LLMSettings(), BuildPlan(keep_calls=False))
    assert nothing_kept.calls == 50
    (new,) = estimate_left(tmp_path / "other", corpus, labelled, LLMSettings(), BuildPlan(llm=LLM))
    assert new.calls == 50
    assert server.requests == []


def test_a_sample_of_questions_counts_the_rounds_of_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The model repeats its thought, which ends the rounds earlier than those of the rules."""
    data = datasets.read_dataset("world:50", limit=4)
    schemes = {"ircot": registry.scheme("ircot")}
    thinking = counting(monkeypatch, tmp_path, lambda body: '{"thought": "It has to be found who is meant."}')
    with thinking as server:
        (plain,) = estimate_questions(data.corpus, schemes, LLM, LLMSettings(), data.queries)
        setting = LLMSettings(cache=SQLiteCache(tmp_path / "c.sqlite"))
        (sampled,) = estimate_questions(data.corpus, schemes, LLM, setting, data.queries, scope=EstimateScope(sample=4))
        assert plain.calls > 8
        assert sampled.calls == len(server.requests) == 8  # all questions are sampled: two rounds each
        assert (sampled.task, sampled.basis, plain.basis) == ("thought, ircot", "sampled", "assumed")
        (half,) = estimate_questions(data.corpus, schemes, LLM, setting, data.queries, scope=EstimateScope(sample=2))
        assert 8 < half.calls < plain.calls  # the rest is as of rules


def test_sampled_questions_are_not_paid_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the index has after the sample is not left to pay, of rounds and of answers; again, it is the same."""
    data = datasets.read_dataset("world:50", limit=4)
    schemes = {"ircot": registry.scheme("ircot")}
    reply = '{"thought": "It has to be found who is meant.", "answer": "x", "passages": [1], "found": true}'
    setting = LLMSettings(cache=SQLiteCache(tmp_path / "c.sqlite"))
    with counting(monkeypatch, tmp_path, lambda body: reply) as server:
        scope = EstimateScope(paid=LLM.open(setting))

        def ask(scope: EstimateScope) -> list[Estimate]:
            reading = ReadingPlan(LLM, paid=scope.paid)
            return estimate_questions(data.corpus, schemes, LLM, setting, data.queries, reading=reading, scope=scope)

        plain, half = ask(scope), ask(replace(scope, sample=2))
        sent = len(server.requests)
        again = ask(replace(scope, sample=2))
        assert len(server.requests) == sent == 2 * 2 + 2
        every = ask(replace(scope, sample=4))
    assert [each.task for each in plain] == [each.task for each in half] == ["thought, ircot", "answer, ircot"]
    assert [plain[1].calls, half[1].calls, sum(each.calls for each in every)] == [4, 2, 0]
    assert 0 < half[0].calls < plain[0].calls
    assert again == half


def test_rounds_of_agents_have_the_widest_interval(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a sample, answers decide how often an agent asks; a method that asks once is surer."""
    data = datasets.read_dataset("world:50", limit=4)
    schemes = {name: registry.scheme(name) for name in ("ircot", "self-ask")}
    with counting(monkeypatch, tmp_path, lambda body: "{}"):
        widths = {
            each.task: each.money_high / each.money_low
            for each in estimate_questions(data.corpus, schemes, LLM, LLMSettings(), data.queries)
            if each.money_low and each.money_high
        }
    assert widths["thought, ircot"] == pytest.approx(2.0)
    assert 1.33**2 < widths["follow-ups, self-ask"] < 1.95
