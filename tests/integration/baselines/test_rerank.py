"""Reranking: the rule, a scripted language model, an endpoint that misbehaves, a scripted cross-encoder."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import make_desk, ragindex
from made_language import QUICK
from openai_server import KEY, OpenAIServer, drop, says, status
from rerank_server import change_body, reranking, results

from ragindex.accounting import ledger
from ragindex.errors import BudgetError, ServiceError, UsageError
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import Budget
from ragindex.llm.prices import Price, Prices
from ragindex.plugins import registry
from ragindex.types import Document, Query, Retrieval
from ragindex_baselines.rerank import rerankers
from ragindex_baselines.rerank.method import Rerank

TEXTS = {
    "a": "slate slate slate slate",
    "b": "slate slate slate barges",
    "c": "slate slate harbour barges",
    "d": "slate morning fog",
    "e": "slate slate quiet",
}
QUESTION = "barges slate harbour"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index that those of the tests are copies of."""
    folder = tmp_path_factory.mktemp("rerank") / "index"
    with Index.open(folder, chunking=None, create=True) as workspace:
        workspace.add(Document(id, "", text) for id, text in TEXTS.items())
        workspace.build(registry.scheme("bm25"))
    return folder


MakeIndex = Callable[..., Index]


@pytest.fixture
def make_index(index: Path, tmp_path: Path) -> MakeIndex:
    def copied(name: str = "w", **how: Any) -> Index:
        if not (tmp_path / name).exists():
            shutil.copytree(index, tmp_path / name)
        return Index.open(tmp_path / name, **how, create=True)

    return copied


def ask(workspace: Index, scheme: str | Mapping[str, Any], k: int = 5) -> tuple[Retrieval, ledger.Tally]:
    with ledger.record_calls() as tally:
        (retrieval,) = registry.scheme(scheme).open(workspace).retrieve([Query("q", QUESTION)], k)
    return retrieval, tally


def ids(retrieval: Retrieval) -> str:
    return "".join(hit.id for hit in retrieval.hits)


def base_order(workspace: Index) -> str:
    (retrieval,) = registry.scheme("bm25").open(workspace).retrieve([Query("q", QUESTION)], 5)
    return ids(retrieval)


# ---------------------------------------------------------------- without a model


def test_by_rule_without_a_model(make_index: MakeIndex) -> None:
    """c shares all three words, b two of them; the others stay as they were."""
    workspace = make_index()
    retrieval, tally = ask(workspace, "rerank(base=bm25)")
    assert ids(retrieval) == "cb" + "".join(sorted("ade", key=base_order(workspace).index))
    assert retrieval.trace[-1].note == "3 not returned"
    assert [hit.score for hit in retrieval.hits] == [5, 4, 3, 2, 1]
    assert {hit.source for hit in retrieval.hits} == {"rerank(base=bm25)"}
    assert [step.index for step in retrieval.trace] == ["text", "reranker"]
    assert (tally.rules, tally.calls, tally.first.money) == (1, 0, 0.0)
    assert registry.scheme("rerank(base=bm25)").tasks()[0].name == "rerank"


def test_deeper_ones_follow_as_the_base_has_them(make_index: MakeIndex) -> None:
    workspace = make_index()
    base = base_order(workspace)
    retrieval, _ = ask(workspace, "rerank(base=bm25, depth=2)", 4)
    assert ids(retrieval)[2:] == base[2:4]
    assert sorted(ids(retrieval)[:2]) == sorted(base[:2])
    assert ids(ask(workspace, "rerank(base=bm25, depth=2)", 1)[0]) == ids(retrieval)[0]


def test_nothing_found_is_nothing_asked(make_index: MakeIndex) -> None:
    with ledger.record_calls() as tally:
        (retrieval,) = registry.scheme("rerank(base=bm25)").open(make_index()).retrieve([Query("q", "unheard")], 5)
    assert (retrieval.hits, tally.entries) == ((), ())


# ---------------------------------------------------------------- a language model


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        for name in ("RERANK_BASE_URL", "RERANK_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield reranking(running)


@pytest.fixture
def workspace(server: OpenAIServer, make_index: MakeIndex) -> Index:
    """With a language model."""
    return make_index(llm="openai:small", llm_settings=LLMSettings(clock=QUICK))


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
    server: OpenAIServer, workspace: Index, answer: str, expected: str, note: str
) -> None:
    server.write = lambda body: answer
    base = base_order(workspace)
    retrieval, tally = ask(workspace, "rerank(base=bm25)")
    assert ids(retrieval) == "".join(base[int(place) - 1] for place in expected)
    step = retrieval.trace[-1]
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


def test_a_passage_is_cut_after_a_word_and_the_question_stands_behind_the_list(
    server: OpenAIServer, workspace: Index
) -> None:
    server.write = lambda body: '{"passages": [1]}'
    ask(workspace, "rerank(base=bm25, reranker=language-model(characters=8))")
    shown = server.requests[0].body["messages"][-1]["content"].strip()
    question, *passages, again = shown.split("\n\n")
    assert again == f"Question again: {question.removeprefix('Question: ')}"
    texts = TEXTS.values()
    for passage in passages:
        beginning = passage.partition("\n")[2]
        assert any(f"{text} ".startswith(f"{beginning} ") and len(beginning) <= 8 for text in texts), beginning


@pytest.mark.parametrize(("listed", "expected"), [([3, 1], 2), ([], 5), ([99], 5)])
def test_what_the_model_leaves_out_may_be_dropped(
    server: OpenAIServer, workspace: Index, listed: list[int], expected: int
) -> None:
    server.write = lambda body: json.dumps({"passages": listed})
    complete, _ = ask(workspace, "rerank(base=bm25)")
    retrieval, _ = ask(workspace, "rerank(base=bm25, left_out=drop)")
    assert ids(retrieval) == ids(complete)[:expected]
    assert len(ids(complete)) == 5


# ---------------------------------------------------------------- an endpoint

ENDPOINT = "rerank(base=bm25, reranker=endpoint(model=ranker, retries=2))"
PRICED = "rerank(base=bm25, reranker=endpoint(model=ranker, retries=2, search_price=2.0))"


def test_an_endpoint_is_asked_once_for_all(server: OpenAIServer, make_index: MakeIndex) -> None:
    workspace = make_index()
    base = base_order(workspace)
    retrieval, tally = ask(workspace, PRICED)
    assert ids(retrieval)[:2] == "cb"
    assert [round(hit.score, 2) for hit in retrieval.hits] == [0.03, 0.02, 0.01, 0.01, 0.01]
    assert ids(retrieval)[2:] == "ade"  # equal scores: by id
    (sent,) = server.requests
    assert sent.path == "/v1/rerank"
    documents = [TEXTS[id] for id in base]
    assert sent.body == {"model": "ranker", "query": QUESTION, "documents": documents, "top_n": 5}
    (entry,) = tally.entries
    words = 3 + sum(len(text.split()) for text in TEXTS.values())
    assert (entry.task, entry.model, entry.input_tokens, entry.estimated) == ("rerank", "ranker", words, False)
    assert (entry.money, retrieval.trace[-1].input_tokens) == (0.002, words)


def test_an_answer_is_kept(server: OpenAIServer, make_index: MakeIndex) -> None:
    first, paid = ask(make_index(), PRICED)
    again, replayed = ask(make_index(), PRICED)
    assert again.hits == first.hits
    assert len(server.requests) == 1
    assert (replayed.first, replayed.spent.money, replayed.replayed) == (paid.first, 0.0, 1)
    ask(make_index(keep_calls=False), PRICED)
    ask(make_index(), PRICED.replace("model=ranker", "model=other"))
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("change", "first", "last", "note"),
    [
        (lambda items: items[:2], "cb", "", "3 not returned"),
        (lambda items: [{**items[0], "index": "0"}, *items[1:]], "b", "c", "1 no such passage, 1 not returned"),
        (lambda items: [{**items[0], "relevance_score": None}, *items[1:]], "b", "c", "1 no score, 1 not returned"),
        (lambda items: [{**items[0], "relevance_score": "9"}, *items[1:]], "b", "c", "1 no score, 1 not returned"),
        (lambda items: items[::-1], "cb", "", ""),
    ],
)
def test_what_an_endpoint_may_say(
    server: OpenAIServer, make_index: MakeIndex, change: Any, first: str, last: str, note: str
) -> None:
    server.faults.append(results(change))
    retrieval, tally = ask(make_index(), ENDPOINT)
    assert sorted(ids(retrieval)) == sorted(TEXTS)
    assert (ids(retrieval).startswith(first), ids(retrieval).endswith(last)) == (True, True)
    assert retrieval.trace[-1].note == note
    assert ", ".join(f"{count} {what}" for what, count in tally.stages.get("rerank", {}).items()) == note


@pytest.mark.parametrize(
    "change",
    [
        lambda body: {
            "data": [{"index": result["index"], "score": result["relevance_score"]} for result in body["results"]]
        },
        lambda body: [{"index": result["index"], "score": result["relevance_score"]} for result in body["results"]],
        lambda body: {
            **body,
            "usage": None,
            "meta": {"tokens": {"input_tokens": 7}, "billed_units": {"search_units": 3}},
        },
    ],
)
def test_dialects(server: OpenAIServer, make_index: MakeIndex, change: Callable[[dict[str, Any]], Any]) -> None:
    def spoil(body: dict[str, Any]) -> Any:
        changed = change(body)
        return json.dumps(changed) if isinstance(changed, list) else changed

    server.faults.append(change_body(spoil))
    retrieval, tally = ask(make_index(), PRICED)
    assert ids(retrieval) == "cbade"
    (entry,) = tally.entries
    if not entry.estimated:
        assert (entry.input_tokens, entry.money) == (7, 0.006)
    else:
        assert (entry.input_tokens, entry.money) == (33, 0.002)  # 132 characters, four a token


@pytest.mark.parametrize("fault", [status(429, retry_after="0"), drop, says("{}")])
def test_what_passes_is_sent_again(server: OpenAIServer, make_index: MakeIndex, fault: Any) -> None:
    server.faults.append(fault)
    retrieval, tally = ask(make_index(llm_settings=LLMSettings(clock=QUICK)), ENDPOINT)
    assert ids(retrieval)[:2] == "cb"
    assert len(server.requests) == 2
    assert tally.stages["rerank"] == {"retried": 1}


@pytest.mark.parametrize(
    ("fault", "times", "message"),
    [
        (says(f"nonsense {KEY}"), 3, "expected JSON, got 'nonsense …'"),
        (says('{"results": [1]}'), 3, "expected a list of results"),
        (results(lambda items: [{**entry, "index": 99} for entry in items]), 3, "expected a score for a passage"),
        (
            results(lambda items: [{**entry, "relevance_score": nan} for entry in items]),
            3,
            "expected a score for a passage",
        ),
        (status(401, f"wrong key {KEY}"), 1, "Check RERANK_API_KEY or OPENAI_API_KEY"),
        (status(400, "no such model"), 1, "status 400: no such model"),
    ],
)
def test_what_does_not_pass_is_an_error(
    server: OpenAIServer, make_index: MakeIndex, fault: Any, times: int, message: str
) -> None:
    server.faults.extend([fault] * times)
    with pytest.raises(ServiceError, match="endpoint:ranker at http://127.0.0.1") as raised:
        ask(make_index(llm_settings=LLMSettings(clock=QUICK)), ENDPOINT)
    assert message in str(raised.value)
    assert KEY not in str(raised.value)
    assert len(server.requests) == times


def test_the_list_of_prices_and_a_budget(server: OpenAIServer, make_index: MakeIndex) -> None:
    prices = Prices({"ranker": Price(input=1000.0, output=0.0)})  # a thousandth a token
    _, tally = ask(make_index("a", llm_settings=LLMSettings(prices=prices, budget=Budget(1.0))), ENDPOINT)
    assert tally.first.money == pytest.approx(tally.first.input_tokens / 1000)
    with pytest.raises(BudgetError, match="is exhausted"):
        ask(make_index("b", llm_settings=LLMSettings(prices=prices, budget=Budget(0.01))), ENDPOINT)
    with pytest.raises(UsageError, match="A budget needs the price of ranker"):
        ask(make_index("c", llm_settings=LLMSettings(prices=Prices({}), budget=Budget(1.0))), ENDPOINT)
    assert len(server.requests) == 1


def test_the_key_of_one_address_goes_to_no_other(
    server: OpenAIServer, make_index: MakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("RERANK_BASE_URL", f"{server.url}/")
    workspace = make_index()
    with pytest.raises(UsageError, match="endpoint:ranker needs a key: set RERANK_API_KEY"):
        ask(workspace, ENDPOINT)
    monkeypatch.setenv("RERANK_API_KEY", KEY)
    assert ids(ask(workspace, ENDPOINT)[0])[:2] == "cb"


def test_an_endpoint_has_an_address_that_counts(monkeypatch: pytest.MonkeyPatch, make_index: MakeIndex) -> None:
    for name in ("RERANK_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=r"needs the address of its service: set RERANK_BASE_URL"):
        ask(make_index(), ENDPOINT)
    monkeypatch.setenv("RERANK_BASE_URL", "https://me:secret@one.example/v1/")
    scheme = registry.scheme(ENDPOINT)
    assert isinstance(scheme, Rerank)
    assert scheme.reranker.base_url == "https://one.example/v1"
    assert registry.label(scheme) == ENDPOINT
    monkeypatch.setenv("RERANK_BASE_URL", "https://other.example/v1")
    assert registry.plugin_fingerprint(registry.scheme(ENDPOINT)) != registry.plugin_fingerprint(scheme)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="must not contain a user, password, key or token"):
        registry.scheme('rerank(reranker=endpoint(model=x, base_url="https://me:secret@one.example/v1"))')


class Scripted:
    """In the place of sentence-transformers' CrossEncoder: more slate, a higher score."""

    def __init__(self, answer: Callable[[list[float]], Any] = np.array) -> None:
        self.answer, self.read = answer, list[list[str]]()

    def predict(self, pairs: list[list[str]], *, batch_size: int, **_: Any) -> Any:
        assert batch_size == 2
        self.read += pairs
        return self.answer([float(text.count("slate")) for _, text in pairs])


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    model = Scripted()
    monkeypatch.setattr(rerankers, "_load_cross_encoder", lambda *_: model)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(nn=SimpleNamespace(Identity=object)))
    return model


CROSS = "rerank(base=bm25, reranker=cross-encoder(model=made/up, batch_size=2))"


def test_a_cross_encoder_reads_equal_texts_once(scripted: Scripted, make_index: MakeIndex) -> None:
    with make_index() as workspace:
        workspace.add([Document("0", "", TEXTS["c"]), Document("f", "", TEXTS["c"])])
        workspace.build(registry.scheme("bm25"))
        retrieval, _ = ask(workspace, CROSS, 7)
    assert [(hit.id, hit.score) for hit in retrieval.hits] == [
        ("a", 4),
        ("b", 3),
        *((id, 2) for id in "0cef"),
        ("d", 1),
    ]
    assert sorted(scripted.read) == sorted([QUESTION, text] for text in TEXTS.values())
    assert retrieval.trace[-1].note == ""


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda scores: np.array([scores, scores]).T, r"Got an array of the shape \(5, 2\) with 10 numbers"),
        (lambda scores: np.array([nan] * 5), r"Got an array of the shape \(5,\) with 0 numbers"),
    ],
)
def test_a_cross_encoder_gives_one_number(answer: Any, message: str, scripted: Scripted, make_index: MakeIndex) -> None:
    scripted.answer = answer
    with pytest.raises(UsageError, match=f"'made/up' must give one number a passage. {message}"):
        ask(make_index(), CROSS)


def test_a_comparison_with_twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_desk(tmp_path, monkeypatch)
    rows = "Which hill is highest?,hill.md\nWhich river carries slate?,rivers/sarn.md\n"
    (tmp_path / "questions.csv").write_text(f"question,documents\n{rows}")
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
    # in one dimension all documents are equally near, and hill.md comes first
    assert [method["metrics"]["R@1"] for method in value["methods"]] == [1.0, 1.0, 1.0, 0.5]
    done = ragindex(*asked_for, "--reranker", "nobody")
    assert (done.code, "A reranker is one of cross-encoder" in done.err) == (2, True)
