"""Reranking: rankings by hand, the rule, a scripted language model, an endpoint that misbehaves, a cross-encoder.

The cross-encoder is a tiny BERT with random weights from a seed: it says nothing about quality.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import make_desk, ragindex
from hypothesis import given
from hypothesis import strategies as st
from made_language import QUICK
from openai_server import KEY, OpenAIServer, drop, says, status
from rerank_server import reranking, results, whole

from ragindex.accounting import ledger
from ragindex.errors import BudgetError, LLMError, ServiceError, UsageError
from ragindex.llm.budget import Budget
from ragindex.llm.prices import Price, Prices
from ragindex.llm.settings import LLMSettings
from ragindex.plugins import registry
from ragindex.types import Document, Query, Retrieval
from ragindex.workspace.workspace import Workspace
from ragindex_baselines.rerank.ordering import order_candidates
from ragindex_baselines.rerank.rerankers import CrossEncoder, read_choice
from ragindex_baselines.rerank.scheme import Rerank
from ragindex_eval.run.methods import add_reranked, choose_methods

TEXTS = {
    "a": "slate slate slate slate",
    "b": "slate slate slate barges",
    "c": "slate slate harbour barges",
    "d": "slate morning fog",
    "e": "slate slate quiet",
}
QUESTION = "barges slate harbour"


def made(folder: Path, **how: Any) -> Workspace:
    workspace = Workspace.open(folder, chunking=None, **how)
    workspace.add(Document(id, "", text) for id, text in TEXTS.items())
    workspace.sync([registry.scheme("bm25")])
    return workspace


def asked(workspace: Workspace, scheme: str | Mapping[str, Any], k: int = 5) -> tuple[Retrieval, ledger.Tally]:
    with ledger.record_calls() as tally:
        (found,) = registry.scheme(scheme).open(workspace).retrieve([Query("q", QUESTION)], k)
    return found, tally


def ids(found: Retrieval) -> str:
    return "".join(hit.id for hit in found.hits)


def base_order(workspace: Workspace) -> str:
    (found,) = registry.scheme("bm25").open(workspace).retrieve([Query("q", QUESTION)], 5)
    return ids(found)


# ---------------------------------------------------------------- orders

NAN, INFINITY = math.nan, math.inf


@pytest.mark.parametrize(
    ("said", "places", "scores", "counts"),
    [
        ([(2, 0.5), (0, 0.9), (1, 0.7)], (0, 1, 2), (0.9, 0.7, 0.5), {}),
        ([(2, 0.5)], (2, 0, 1), (0.5, -0.5, -1.5), {"not returned": 2}),
        ([(1, 0.5), (2, 0.5), (0, 0.5)], (2, 1, 0), (0.5, 0.5, 0.5), {}),  # ids z, y, x
        ([(2, 0.5), (2, 0.9), (0, 0.4), (1, 0.1)], (2, 0, 1), (0.5, 0.4, 0.1), {"said twice": 1}),
        ([(3, 9.0), (-1, 8.0), (1, 0.5)], (1, 0, 2), (0.5, -0.5, -1.5), {"no such passage": 2, "not returned": 2}),
        ([(0, NAN), (1, INFINITY), (2, 0.5)], (2, 0, 1), (0.5, -0.5, -1.5), {"no score": 2, "not returned": 2}),
        (
            [(0, NAN), (0, 0.7), (1, 1e13), (2, -INFINITY)],
            (0, 1, 2),
            (0.7, -0.3, -1.3),
            {"no score": 3, "not returned": 2},
        ),
        ([], (0, 1, 2), (3.0, 2.0, 1.0), {"not returned": 3}),
    ],
)
def test_orders_by_hand(said: Any, places: tuple[int, ...], scores: tuple[float, ...], counts: dict[str, int]) -> None:
    order = order_candidates(said, ["z", "y", "x"])
    assert (order.places, order.counts) == (places, counts)
    assert order.scores == pytest.approx(scores)
    assert order.note == ", ".join(f"{count} {what}" for what, count in counts.items())


def test_those_that_nobody_was_asked_about_come_last_and_are_not_counted() -> None:
    order = order_candidates([(1, 3.0)], ["x", "y"], 2)
    assert (order.places, order.scores, order.counts) == ((1, 0, 2, 3), (3.0, 2.0, 1.0, 0.0), {"not returned": 1})


@given(
    st.lists(st.tuples(st.integers(-2, 6), st.floats() | st.integers(-3, 3).map(float)), max_size=12),
    st.lists(st.text(max_size=2), max_size=5, unique=True),
    st.integers(0, 3),
)
def test_nothing_gets_lost_whatever_is_said(said: list[tuple[int, float]], candidates: list[str], rest: int) -> None:
    order = order_candidates(said, candidates, rest)
    n = len(candidates)
    assert sorted(order.places) == list(range(n + rest))
    keys = [(-score, candidates[place]) for place, score in zip(order.places, order.scores, strict=True) if place < n]
    assert keys == sorted(keys)
    assert list(order.scores) == sorted(order.scores, reverse=True)
    unscored = [place for place in order.places if place >= n or not any(place == one for one, _ in said)]
    assert unscored == sorted(unscored)
    usable = {place for place, score in said if 0 <= place < n and abs(score) <= 1e12}
    assert order.counts.get("not returned", 0) == n - len(usable)
    wrong = sum(order.counts.get(what, 0) for what in ("said twice", "no such passage", "no score"))
    assert wrong == len(said) - len(usable)


# ---------------------------------------------------------------- without a model


def test_by_rule_without_a_model(tmp_path: Path) -> None:
    """c shares all three words, b two of them; the others stay as they were."""
    workspace = made(tmp_path)
    found, tally = asked(workspace, "rerank(base=bm25)")
    assert ids(found) == "cb" + "".join(sorted("ade", key=base_order(workspace).index))
    assert found.trace[-1].note == "3 not returned"
    assert [hit.score for hit in found.hits] == [5, 4, 3, 2, 1]
    assert {hit.source for hit in found.hits} == {"rerank(base=bm25)"}
    assert [step.index for step in found.trace] == ["text", "reranker"]
    assert (tally.rules, tally.calls, tally.first.money) == (1, 0, 0.0)
    assert registry.scheme("rerank(base=bm25)").tasks()[0].name == "rerank"


def test_deeper_ones_follow_as_the_base_has_them(tmp_path: Path) -> None:
    workspace = made(tmp_path)
    base = base_order(workspace)
    found, _ = asked(workspace, "rerank(base=bm25, depth=2)", 4)
    assert ids(found)[2:] == base[2:4]
    assert sorted(ids(found)[:2]) == sorted(base[:2])
    assert ids(asked(workspace, "rerank(base=bm25, depth=2)", 1)[0]) == ids(found)[0]


def test_nothing_found_is_nothing_asked(tmp_path: Path) -> None:
    workspace = made(tmp_path)
    with ledger.record_calls() as tally:
        (found,) = registry.scheme("rerank(base=bm25)").open(workspace).retrieve([Query("q", "unheard")], 5)
    assert (found.hits, tally.entries) == ((), ())


# ---------------------------------------------------------------- a language model


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        for name in ("RERANK_BASE_URL", "RERANK_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield reranking(running)


def with_model(folder: Path, **how: Any) -> Workspace:
    return made(folder, llm="openai:small", asking=LLMSettings(clock=QUICK, **how))


@pytest.mark.parametrize(
    ("answer", "expected", "note"),
    [
        ('{"passages": [2, 1, 3, 5, 4]}', "21354", ""),
        ('{"passages": [3]}', "31245", "4 not returned"),
        ('{"passages": [4, 9, 4, 0, "2"]}', "42135", "2 no such passage, 1 said twice, 3 not returned"),
        ('{"passages": []}', "12345", "5 not returned"),
    ],
)
def test_a_language_model_lists_numbers(
    server: OpenAIServer, tmp_path: Path, answer: str, expected: str, note: str
) -> None:
    server.write = lambda body: answer
    workspace = with_model(tmp_path)
    base = base_order(workspace)
    found, tally = asked(workspace, "rerank(base=bm25)")
    assert ids(found) == "".join(base[int(place) - 1] for place in expected)
    step = found.trace[-1]
    assert step.note == note
    (sent,) = server.requests
    shown = sent.body["messages"][-1]["content"]
    assert shown.startswith(f"Question: {QUESTION}\n")
    assert [shown.index(f"[{rank}] \n{TEXTS[id]}") for rank, id in enumerate(base, start=1)] == sorted(
        shown.index(f"\n{TEXTS[id]}") - 4 for id in base
    )
    words = sum(len(message["content"].split()) for message in sent.body["messages"])
    assert (step.input_tokens, step.output_tokens) == (words, len(answer.split()))
    assert tally.first.input_tokens == words
    counted = {what: count for what, count in tally.stages["rerank"].items() if what != "strict"}
    assert {f"{count} {what}" for what, count in counted.items() if what in step.note} == set(
        filter(None, note.split(", "))
    )


def test_a_language_model_that_gives_no_usable_answer_is_an_error(server: OpenAIServer, tmp_path: Path) -> None:
    server.write = lambda body: "I would rather not."
    with pytest.raises(LLMError, match="rerank: small gave no usable answer"):
        asked(with_model(tmp_path), "rerank(base=bm25)")


def test_only_the_start_of_a_passage_is_shown(server: OpenAIServer, tmp_path: Path) -> None:
    server.write = lambda body: '{"passages": [1]}'
    asked(with_model(tmp_path), "rerank(base=bm25, reranker=language-model(characters=5))")
    (sent,) = server.requests
    assert "slate\n" in sent.body["messages"][-1]["content"]
    assert "barges\n" not in sent.body["messages"][-1]["content"].partition("\n")[2]


def test_a_passage_is_cut_after_a_word_and_the_question_stands_behind_the_list(
    server: OpenAIServer, tmp_path: Path
) -> None:
    server.write = lambda body: '{"passages": [1]}'
    asked(with_model(tmp_path), "rerank(base=bm25, reranker=language-model(characters=8))")
    shown = server.requests[0].body["messages"][-1]["content"].strip()
    question, *passages, again = shown.split("\n\n")
    assert again == f"Question again: {question.removeprefix('Question: ')}"
    texts = TEXTS.values()
    for passage in passages:
        beginning = passage.partition("\n")[2]
        assert any(f"{text} ".startswith(f"{beginning} ") and len(beginning) <= 8 for text in texts), beginning


@pytest.mark.parametrize(
    ("left_out", "said", "expected"),
    [("keep", [2], 5), ("drop", [2], 1), ("drop", [3, 1], 2), ("drop", [], 5), ("drop", [99], 5)],
)
def test_what_the_model_leaves_out_may_be_dropped(
    server: OpenAIServer, tmp_path: Path, left_out: str, said: list[int], expected: int
) -> None:
    server.write = lambda body: json.dumps({"passages": said})
    whole, _ = asked(with_model(tmp_path / "whole"), "rerank(base=bm25)")
    found, _ = asked(with_model(tmp_path / "cut"), f"rerank(base=bm25, left_out={left_out})")
    assert ids(found) == ids(whole)[:expected]
    assert len(ids(whole)) == 5


@pytest.mark.parametrize(
    ("text", "numbers"), [("[3] > [1] > [12]", [3, 1, 12]), ("None of them.", []), ("2, then 2", [2, 2])]
)
def test_plain_texts(text: str, numbers: list[int]) -> None:
    assert read_choice(text).passages == numbers


def test_a_plain_text_without_numbers() -> None:
    with pytest.raises(ValueError, match="names no passage"):
        read_choice("The first one.")


# ---------------------------------------------------------------- an endpoint

ENDPOINT = "rerank(base=bm25, reranker=endpoint(model=ranker, retries=2))"
PRICED = "rerank(base=bm25, reranker=endpoint(model=ranker, retries=2, search_price=2.0))"


def test_an_endpoint_is_asked_once_for_all(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = made(tmp_path)
    base = base_order(workspace)
    found, tally = asked(workspace, PRICED)
    assert ids(found)[:2] == "cb"
    assert [round(hit.score, 2) for hit in found.hits] == [0.03, 0.02, 0.01, 0.01, 0.01]
    assert ids(found)[2:] == "ade"  # equal scores: by id
    (sent,) = server.requests
    assert sent.path == "/v1/rerank"
    documents = [TEXTS[id] for id in base]
    assert sent.body == {"model": "ranker", "query": QUESTION, "documents": documents, "top_n": 5}
    (entry,) = tally.entries
    words = 3 + sum(len(text.split()) for text in TEXTS.values())
    assert (entry.task, entry.model, entry.input_tokens, entry.estimated) == ("rerank", "ranker", words, False)
    assert (entry.money, found.trace[-1].input_tokens) == (0.002, words)


def test_an_answer_is_kept(server: OpenAIServer, tmp_path: Path) -> None:
    first, paid = asked(made(tmp_path / "w"), PRICED)
    again, replayed = asked(Workspace.open(tmp_path / "w"), PRICED)
    assert again.hits == first.hits
    assert len(server.requests) == 1
    assert (replayed.first, replayed.spent.money, replayed.replayed) == (paid.first, 0.0, 1)
    asked(Workspace.open(tmp_path / "w", keep_calls=False), PRICED)
    asked(Workspace.open(tmp_path / "w"), PRICED.replace("model=ranker", "model=other"))
    assert len(server.requests) == 3


Changed = Callable[[list[dict[str, Any]]], Any]


@pytest.mark.parametrize(
    ("change", "expected", "note"),
    [
        (lambda items: items[:2], "cb+", "3 not returned"),
        (lambda items: [{**items[0], "index": 7}, *items[1:]], "b", "1 no such passage, 1 not returned"),
        (lambda items: [{**items[0], "index": "0"}, *items[1:]], "b", "1 no such passage, 1 not returned"),
        (lambda items: [*items, items[1], items[0]], "cb", "2 said twice"),
        (lambda items: [{**items[0], "relevance_score": NAN}, *items[1:]], "b", "1 no score, 1 not returned"),
        (lambda items: [{**items[0], "relevance_score": None}, *items[1:]], "b", "1 no score, 1 not returned"),
        (lambda items: [{**items[0], "relevance_score": "9"}, *items[1:]], "b", "1 no score, 1 not returned"),
        (lambda items: items[::-1], "cb", ""),
    ],
)
def test_what_an_endpoint_may_say(
    server: OpenAIServer, tmp_path: Path, change: Changed, expected: str, note: str
) -> None:
    server.faults.append(results(change))
    workspace = made(tmp_path)
    found, tally = asked(workspace, ENDPOINT)
    assert sorted(ids(found)) == sorted(TEXTS)
    first, plus, _ = expected.partition("+")
    assert ids(found).startswith(first)
    assert found.trace[-1].note == note
    if plus:
        assert ids(found)[2:] == "".join(id for id in base_order(workspace) if id not in first)
        assert [hit.score for hit in found.hits][2:] == pytest.approx([-0.98, -1.98, -2.98])
    elif "not returned" in note:
        assert ids(found)[-1] == "c"
    counted = tally.stages.get("rerank", {})
    assert ", ".join(f"{count} {what}" for what, count in counted.items()) == note


@pytest.mark.parametrize(
    "change",
    [
        lambda body: {"data": [{"index": one["index"], "score": one["relevance_score"]} for one in body["results"]]},
        lambda body: [{"index": one["index"], "score": one["relevance_score"]} for one in body["results"]],
        lambda body: {
            **body,
            "usage": None,
            "meta": {"tokens": {"input_tokens": 7}, "billed_units": {"search_units": 3}},
        },
    ],
)
def test_dialects(server: OpenAIServer, tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    def spoil(body: dict[str, Any]) -> Any:
        changed = change(body)
        return json.dumps(changed) if isinstance(changed, list) else changed

    server.faults.append(whole(spoil))
    found, tally = asked(made(tmp_path), PRICED)
    assert ids(found) == "cbade"
    (entry,) = tally.entries
    if not entry.estimated:
        assert (entry.input_tokens, entry.money) == (7, 0.006)
    else:
        assert (entry.input_tokens, entry.money) == (33, 0.002)  # 132 characters, four a token


@pytest.mark.parametrize("fault", [status(429, retry_after="0"), status(503), drop, says("<html>"), says("{}")])
def test_what_passes_is_sent_again(server: OpenAIServer, tmp_path: Path, fault: Any) -> None:
    server.faults.append(fault)
    workspace = made(tmp_path, asking=LLMSettings(clock=QUICK))
    found, tally = asked(workspace, ENDPOINT)
    assert ids(found)[:2] == "cb"
    assert len(server.requests) == 2
    assert tally.stages["rerank"] == {"retried": 1}


@pytest.mark.parametrize(
    ("fault", "times", "message"),
    [
        (says(f"nonsense {KEY}"), 3, "expected JSON, got 'nonsense …'"),
        (says('{"results": [1]}'), 3, "expected a list of results"),
        (results(lambda items: []), 3, "expected a score for a passage"),
        (results(lambda items: [{**one, "index": 99} for one in items]), 3, "expected a score for a passage"),
        (
            results(lambda items: [{**one, "relevance_score": NAN} for one in items]),
            3,
            "expected a score for a passage",
        ),
        (status(401, f"wrong key {KEY}"), 1, "Check RERANK_API_KEY or OPENAI_API_KEY"),
        (status(400, "no such model"), 1, "status 400: no such model"),
    ],
)
def test_what_does_not_pass_is_an_error(
    server: OpenAIServer, tmp_path: Path, fault: Any, times: int, message: str
) -> None:
    server.faults.extend([fault] * times)
    workspace = made(tmp_path, asking=LLMSettings(clock=QUICK))
    with pytest.raises(ServiceError, match="endpoint:ranker at http://127.0.0.1") as raised:
        asked(workspace, ENDPOINT)
    assert message in str(raised.value)
    assert KEY not in str(raised.value)
    assert len(server.requests) == times


def test_money_is_unknown_without_a_price(server: OpenAIServer, tmp_path: Path) -> None:
    _, tally = asked(made(tmp_path), ENDPOINT)
    assert (tally.entries[0].money, tally.unpriced) == (None, {"ranker"})


def test_the_list_of_prices_and_a_budget(server: OpenAIServer, tmp_path: Path) -> None:
    prices = Prices({"ranker": Price(input=1000.0, output=0.0)})  # a thousandth a token
    _, tally = asked(made(tmp_path / "a", asking=LLMSettings(prices=prices, budget=Budget(1.0))), ENDPOINT)
    assert tally.first.money == pytest.approx(tally.first.input_tokens / 1000)
    with pytest.raises(BudgetError, match="is exhausted"):
        asked(made(tmp_path / "b", asking=LLMSettings(prices=prices, budget=Budget(0.01))), ENDPOINT)
    with pytest.raises(UsageError, match="A budget needs the price of ranker"):
        asked(made(tmp_path / "c", asking=LLMSettings(prices=Prices({}), budget=Budget(1.0))), ENDPOINT)
    assert len(server.requests) == 1


def test_the_key_of_one_address_goes_to_no_other(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("RERANK_BASE_URL", f"{server.url}/")
    workspace = made(tmp_path)
    with pytest.raises(UsageError, match="endpoint:ranker needs a key: set RERANK_API_KEY"):
        asked(workspace, ENDPOINT)
    monkeypatch.setenv("RERANK_API_KEY", KEY)
    assert ids(asked(workspace, ENDPOINT)[0])[:2] == "cb"


def test_an_endpoint_has_an_address_that_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RERANK_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=r"needs the address of its service: set RERANK_BASE_URL"):
        asked(made(tmp_path), ENDPOINT)
    monkeypatch.setenv("RERANK_BASE_URL", "https://me:secret@one.example/v1/")
    one = registry.scheme(ENDPOINT)
    assert isinstance(one, Rerank)
    assert one.reranker.base_url == "https://one.example/v1"
    assert registry.label(one) == ENDPOINT
    monkeypatch.setenv("RERANK_BASE_URL", "https://other.example/v1")
    assert registry.plugin_fingerprint(registry.scheme(ENDPOINT)) != registry.plugin_fingerprint(one)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="must not contain a user, password, key or token"):
        registry.scheme('rerank(reranker=endpoint(model=x, base_url="https://me:secret@one.example/v1"))')


# ---------------------------------------------------------------- a cross-encoder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Cross-encoders of 2 layers and 16 numbers, made from a seed, that give so many numbers a pair."""
    pytest.importorskip("sentence_transformers", reason="the extra neural is not installed")
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    def saved(numbers: int) -> Path:
        folder = tmp_path_factory.mktemp("tiny")
        torch.manual_seed(3)
        words = sorted({word for text in TEXTS.values() for word in text.split()})
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
        (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
        BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
        sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        config = BertConfig(vocab_size=len(vocabulary), num_labels=numbers, initializer_range=0.5, **sizes)
        BertForSequenceClassification(config).save_pretrained(folder)
        return folder

    return saved


def crossed(folder: Path, **params: Any) -> dict[str, Any]:
    reranker = {"name": "cross-encoder", "params": {"model": str(folder), **params}}
    return {"name": "rerank", "params": {"base": "bm25", "reranker": reranker}}


def test_a_cross_encoder_scores_as_transformers_does(tiny: Callable[[int], Path], tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = tiny(1)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
    model.eval()
    with torch.no_grad():
        expected = {
            id: float(model(**tokenizer(QUESTION, text, return_tensors="pt")).logits[0, 0])
            for id, text in TEXTS.items()
        }
    workspace = made(tmp_path)
    workspace.add([Document("0", "", TEXTS["c"]), Document("f", "", TEXTS["c"])])
    workspace.sync([registry.scheme("bm25")])
    found, _ = asked(workspace, crossed(folder, batch_size=2), 7)
    expected |= {"0": expected["c"], "f": expected["c"]}
    assert list(ids(found)) == sorted(expected, key=lambda id: (-expected[id], id))
    assert [hit.score for hit in found.hits] == pytest.approx([expected[hit.id] for hit in found.hits], abs=1e-5)
    assert len({hit.score for hit in found.hits if hit.id in "0cf"}) == 1
    assert found.trace[-1].note == ""


def test_a_cross_encoder_that_gives_two_numbers(tiny: Callable[[int], Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"must give one number a passage. Got an array of the shape \(5, 2\)"):
        asked(made(tmp_path), crossed(tiny(2)))


def test_a_cross_encoder_goes_by_its_files(tiny: Callable[[int], Path], tmp_path: Path) -> None:
    folder = tiny(1)
    scheme = registry.scheme(crossed(folder))
    assert registry.scheme(registry.label(scheme)) == scheme  # type: ignore[arg-type]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 0.1}))
    other = registry.scheme(crossed(folder))
    assert registry.plugin_fingerprint(other) != registry.plugin_fingerprint(scheme)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the files in .* have changed"):
        scheme.open(made(tmp_path))
    assert CrossEncoder(model="a-name/on-the-hub").revision == ""


# ---------------------------------------------------------------- how rerankers are written, and twins


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("nobody", "A reranker is one of cross-encoder, endpoint, language-model. Got 'nobody'"),
        ("language-model:x", "language-model takes no argument after a colon"),
        ("cross-encoder", "The 'model' parameter of cross-encoder: Field required"),
        ("language-model(words=3)", "The 'words' parameter of language-model: Extra inputs are not permitted"),
        (7, r"A reranker is written NAME, NAME:MODEL or \{name, params\}. Got 7"),
        ({"name": "endpoint", "model": "x"}, "A reranker is written"),
    ],
)
def test_rerankers_that_cannot_be(written: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        registry.scheme({"name": "rerank", "params": {"reranker": written}})


def test_twins_follow_their_methods() -> None:
    methods, _ = choose_methods(
        ["bm25", {"name": "hybrid", "label": "deep", "params": {"depth": 7}}, "rerank(base=dense)"]
    )
    found = {method.label: registry.label(method.scheme) for method in add_reranked(methods, True)}
    assert found == {
        "bm25": "bm25",
        "bm25 + rerank": "rerank(base=bm25)",
        "deep": "hybrid(depth=7)",
        "deep + rerank": "rerank(base=hybrid(depth=7))",
        "rerank(base=dense)": "rerank(base=dense)",
    }
    assert add_reranked(methods, False) == methods
    named = add_reranked(methods[:1], "language-model(characters=9)")
    assert registry.label(named[1].scheme) == "rerank(base=bm25, reranker=language-model(characters=9))"
    both, _ = choose_methods(["dense", "rerank(base=dense)"])
    assert [method.label for method in add_reranked(both, True)] == ["dense", "rerank(base=dense)"]


def test_a_comparison_with_twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_desk(tmp_path, monkeypatch)
    asked = "Which hill is highest?,hill.md\nWhich river carries slate?,rivers/sarn.md\n"
    (tmp_path / "questions.csv").write_text(f"question,documents\n{asked}")
    asked_for = (
        "compare",
        "notes",
        "--questions",
        "questions.csv",
        "--methods",
        "bm25,dense",
        "--k",
        "1",
        "--encoder",
        "lsa:1",  # one dimension: cosines of 1, equal on every processor
        "--json",
        "-",
    )
    value = ragindex(*asked_for, "--with-rerank").json
    assert value["asked"] == ["bm25", "bm25 + rerank", "dense", "dense + rerank"]
    assert [method["label"] for method in value["methods"]] == ["bm25", "bm25 + rerank", "dense + rerank", "dense"]
    assert value["methods"][1]["params"]["base"] == {"name": "bm25", "params": value["methods"][0]["params"]}
    # one dimension knows no hill, and three documents of rivers and slate are equally near
    assert [method["metrics"]["R@1"] for method in value["methods"]] == [1.0, 1.0, 0.5, 0.0]
    other = ragindex(*asked_for, "--reranker", "language-model(characters=1)", "--methods", "bm25").json
    assert [method["params"].get("reranker") for method in other["methods"]] == [
        None,
        {"name": "language-model", "params": {"characters": 1}},
    ]
    done = ragindex(*asked_for, "--reranker", "nobody")
    assert (done.code, "A reranker is one of cross-encoder" in done.err) == (2, True)
