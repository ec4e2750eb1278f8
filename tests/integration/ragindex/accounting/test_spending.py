"""What a service billed is what `spent` says, for every command and every kind of call; and `--budget` stops all."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import TEXTS, failed, make_desk, ragindex, write
from openai_server import KEY, NATIVE, Answer, OpenAIServer, embedding, usage
from rerank_server import reranking

from ragindex.llm import endpoint_features

DOLLARS = {"/v1/chat/completions": 0.001, "/v1/embeddings": 0.0005, "/v1/rerank": 0.0002}
"""For a token; what a chat writes costs three times as much."""
PRICES = "models:\n  small: {input: 1000.0, output: 3000.0}\n  vectors: {input: 500.0, output: 0}\n  ranker: {input: 200.0, output: 0}\n"  # noqa: E501
PAID = ("--encoder", "openai:vectors", "--llm", "openai:small")
RERANKED = "rerank(base=dense, reranker=endpoint(model=ranker))"
METHODS = f"dense,dense(over=topics),{RERANKED}"
SAID = {"answer": "Grey Anna", "passages": [1], "found": True, "topic": "hill", "candidates": []}


class Till:
    """A server that keeps the receipts: of each answer with status 200 that says what it counted, by path."""

    def __init__(self, server: OpenAIServer) -> None:
        self.server = server
        self.receipts: list[tuple[str, int, int]] = []
        answer = server.answer

        def billed(received: Any) -> Answer | None:
            sent = answer(received)
            if sent is not None and sent.status == 200 and isinstance(sent.body, Mapping):
                counts = sent.body.get("usage") or {}
                read = counts.get("prompt_tokens") or counts.get("total_tokens") or 0
                self.receipts.append((received.path, read, counts.get("completion_tokens") or 0))
            return sent

        server.answer = billed  # type: ignore[method-assign]

    @property
    def money(self) -> float:
        return sum(DOLLARS[path] * (read + 3 * written) for path, read, written in self.receipts)

    @property
    def tokens(self) -> int:
        return sum(read + written for _, read, written in self.receipts)

    @property
    def kinds(self) -> set[str]:
        return {path for path, _, _ in self.receipts}

    def empty(self) -> None:
        self.receipts.clear()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


@pytest.fixture
def till(desk: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Till]:
    (desk / "prices.yaml").write_text(PRICES)
    monkeypatch.setattr(endpoint_features, "_memories", {})
    for name in ("OPENAI_API_KEY", "RERANK_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("RAGINDEX_PRICES", str(desk / "prices.yaml"))
    with OpenAIServer() as server:
        reranking(server)
        server.write = lambda body: json.dumps(SAID)
        for name in ("OPENAI_BASE_URL", "RERANK_BASE_URL"):
            monkeypatch.setenv(name, server.url)
        yield Till(server)


def checked(till: Till, spent: Mapping[str, Any]) -> None:
    """What was billed is what is said, and the till is emptied."""
    assert spent["input_tokens"] + spent["output_tokens"] == till.tokens
    assert spent["money"] == pytest.approx(till.money)
    till.empty()


def of_comparison(value: Mapping[str, Any]) -> dict[str, Any]:
    """Of all methods and of the reader's bounds."""
    every = [one["usage"]["spent"] for one in (*value["methods"], *value.get("bounds", ()))]
    return {name: sum(one[name] for one in every) for name in ("input_tokens", "output_tokens", "money")}


# ---------------------------------------------------------------- every command


@pytest.mark.slow
def test_every_command_says_what_was_billed(till: Till, desk: Path) -> None:
    write(desk / "more", {"mill.txt": "The mill of Nether Quill grinds rye."})
    where = ("--index", "w")
    built = ragindex("index", "notes", *where, *PAID, "--methods", METHODS, "--json", "-")
    assert till.kinds == {"/v1/chat/completions", "/v1/embeddings"}
    checked(till, built.json["spent"])
    again = ragindex("index", "notes", *where, *PAID, "--methods", METHODS, "--json", "-")
    assert (again.json["spent"]["money"], till.receipts) == (0.0, [])
    found = ragindex("search", "Which hill?", *where, *PAID, "--method", RERANKED, "--json", "-")
    assert till.kinds == {"/v1/embeddings", "/v1/rerank"}
    checked(till, found.json["spent"])
    answered = ragindex("ask", "Which hill?", *where, *PAID, "--method", "dense", "--json", "-")
    assert till.kinds == {"/v1/chat/completions", "/v1/embeddings"}
    checked(till, answered.json["spent"])
    added = ragindex("add", "more", "--as", "more", *where, "--json", "-")
    assert till.kinds == {"/v1/chat/completions", "/v1/embeddings"}
    checked(till, added.json["spent"])
    checked(till, ragindex("remove", "more/mill.txt", *where, "--json", "-").json["spent"])
    assert ragindex("questions", "notes", "--out", "drafts.csv").code == 0
    assert till.receipts == []  # questions are drafted by rule


@pytest.mark.slow
def test_a_comparison_says_what_was_billed(till: Till, desk: Path) -> None:
    command = ("compare", "notes", "--questions", "questions.csv", *PAID, "--methods", METHODS, "--read", "--k", "1,2")
    first = ragindex(*command, "--index", "w", "--json", "-")
    assert first.code == 0, first.err
    assert till.kinds == set(DOLLARS)
    indexed = sum(
        part["money"] for part in first.json["methods"][1]["index"]["parts"].values()
    )  # as if built alone, so the same whoever came first
    assert indexed > 0
    checked(till, of_comparison(first.json))
    second = ragindex(*command, "--index", "w", "--json", "-")
    assert (of_comparison(second.json)["money"], till.receipts) == (0.0, [])
    fresh = ragindex(*command, "--index", "w", "--fresh", "--json", "-")
    assert till.kinds == {"/v1/embeddings"}  # the calls of models and rerankers are kept; questions are encoded again
    checked(till, of_comparison(fresh.json))
    for at in (0, 1, 2):
        for phase in ("index", "query"):
            told = [one.json["methods"][at]["usage"][phase]["money"] for one in (first, second, fresh)]
            assert told == pytest.approx([told[0]] * 3)


def test_methods_that_share_a_part_pay_for_it_once(till: Till, desk: Path) -> None:
    command = ("compare", "notes", "--questions", "questions.csv", *PAID[:2], "--k", "2", "--json", "-")
    both = ragindex(*command, "--methods", "dense,hybrid", "--index", "w").json
    assert both["methods"][0]["index"]["parts"]["vectors"]["money"] > 0
    assert both["methods"][0]["usage"]["index"]["money"] == both["methods"][1]["usage"]["index"]["money"]
    checked(till, of_comparison(both))


# ---------------------------------------------------------------- answers that are no use are billed too


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("/v1/chat/completions", lambda answer: spoilt(answer, choices=[])),
        ("/v1/rerank", lambda answer: spoilt(answer, results=[])),
        ("/v1/chat/completions", usage(None)),
        ("/v1/rerank", usage(None)),
    ],
    ids=["chat", "rerank", "chat uncounted", "rerank uncounted"],
)
def test_what_is_asked_twice_counts_twice(till: Till, desk: Path, path: str, fault: Any) -> None:
    """An answer that says what it counted is paid, also where it must be asked for again."""
    done: list[str] = []

    def once(received: Any, _: int) -> Any:
        if received.path != path or done:
            return None
        done.append(path)
        return fault

    ragindex("index", "notes", "--index", "w", *PAID, "--methods", "dense")
    till.empty()
    till.server.choose = once
    asked = ("ask", "Which hill?", "--index", "w", *PAID, "--method", RERANKED, "--json", "-")
    answered = ragindex(*asked)
    assert answered.code == 0, answered.err
    assert done == [path]
    assert [kind for kind, read, _ in till.receipts if kind == path and read] or fault is not None
    spent = answered.json["spent"]
    assert spent["money"] >= till.money - 1e-12
    if not any(read == 0 for _, read, _ in till.receipts):
        checked(till, spent)


def spoilt(answer: Answer, **changed: Any) -> Answer:
    assert isinstance(answer.body, Mapping)
    return Answer(answer.status, {**answer.body, **changed}, answer.headers)


def test_vectors_that_are_none_are_billed(till: Till, desk: Path) -> None:
    till.server.faults.append(embedding([0.0] * NATIVE))
    ended = ragindex("index", "notes", "--index", "w", *PAID, "--methods", "dense", "--budget", "100")
    assert ended.code == 6
    paid = till.money
    assert paid > 0
    till.empty()
    rest = ragindex("index", "notes", "--index", "w", *PAID, "--methods", "dense", "--json", "-")
    checked(till, rest.json["spent"])


# ---------------------------------------------------------------- the budget


LIMITED = {
    "documents": (("index", "notes", "--methods", "dense", "--encoder", "openai(model=vectors, batch_size=1)"), ()),
    "chats": (("index", "notes", "--methods", "dense(over=topics)", "--encoder", "lsa", "--llm", "openai:small"), ()),
    "questions": (
        ("compare", "--questions", "questions.csv", "--methods", "dense", "--encoder", "openai:vectors", "--k", "1"),
        ("index", "notes", "--methods", "dense", "--encoder", "openai:vectors"),
    ),
    "one question": (
        ("search", "Which hill is it?", "--method", "dense", "--encoder", "openai:vectors"),
        ("index", "notes", "--methods", "dense", "--encoder", "openai:vectors"),
    ),
    "reranking": (
        ("search", "Which hill?", "--method", "rerank(base=bm25, reranker=endpoint(model=ranker))"),
        ("index", "notes", "--methods", "bm25"),
    ),
    "added documents": (
        ("add", "more", "--as", "more", "--encoder", "openai:vectors"),
        ("index", "notes", "--methods", "dense", "--encoder", "openai:vectors"),
    ),
}


@pytest.mark.parametrize("kind", LIMITED)
def test_a_budget_stops_before_the_request_that_would_pass_it(till: Till, desk: Path, kind: str) -> None:
    write(desk / "more", {"mill.txt": "The mill of Nether Quill grinds rye."})
    command, before = LIMITED[kind]
    if before:
        assert ragindex(*before, "--index", "w").code == 0
    till.empty()
    said = failed(9, *command, "--index", "w", "--budget", "0.0005")
    assert said.startswith("The budget of $0.0005 is exhausted: $0.0000 spent; the next call could cost $0.")
    assert till.receipts == []
    assert ragindex(*command, "--index", "w", "--budget", "1000").code == 0
    assert 0.0005 < till.money <= 1000


def test_what_a_stopped_index_paid_is_not_paid_again(till: Till, desk: Path) -> None:
    command = ("index", "notes", "--index", "w", "--methods", "dense", "--json", "-")
    encoder = ("--encoder", "openai(model=vectors, dimensions=48, batch_size=1)")
    failed(9, *command, *encoder, "--budget", "0.02")
    paid, sent = till.money, len(till.receipts)
    assert 0 < paid <= 0.02
    assert 0 < sent < len(TEXTS)
    rest = ragindex(*command, *encoder, "--budget", "100")
    assert len(till.receipts) == len(TEXTS)
    assert rest.json["spent"]["money"] == pytest.approx(till.money - paid)


UNPRICED = {
    "encoder": ("dense", ("--encoder", "openai:unheard-of")),
    "chats of a part": ("dense(over=topics)", ("--encoder", "openai:vectors", "--llm", "openai:unheard-of")),
    "chats of a method": ("dense,ircot(base=dense)", ("--encoder", "openai:vectors", "--llm", "openai:unheard-of")),
    "reranker": ("dense,rerank(base=hybrid(bases=[dense]), reranker=endpoint(model=unheard-of))", PAID),
    "reader": ("dense", ("--encoder", "openai:vectors", "--llm", "openai:unheard-of", "--read")),
}


@pytest.mark.parametrize("kind", UNPRICED)
def test_a_budget_refuses_what_has_no_price_before_anything_is_paid(till: Till, desk: Path, kind: str) -> None:
    methods, given = UNPRICED[kind]
    command = ("compare", "notes", "--questions", "questions.csv", "--index", "w", "--methods", methods, *given)
    assert "A budget needs the price of unheard-of, which is not listed." in failed(2, *command, "--budget", "100")
    assert till.server.requests == []


@pytest.mark.parametrize("kind", ["search", "ask"])
def test_a_question_too_is_refused_before_anything_is_paid(till: Till, desk: Path, kind: str) -> None:
    where = ("--index", "w", "--encoder", "openai:unheard-of")
    assert ragindex("index", "notes", *where, "--methods", "dense").code == 0
    before = len(till.server.requests)
    said = failed(2, kind, "Which hill?", *where, "--method", "dense", "--budget", "1")
    assert said.startswith("A budget needs the price of unheard-of")
    assert len(till.server.requests) == before


def test_without_a_budget_unknown_money_is_unknown(till: Till, desk: Path) -> None:
    built = ragindex(
        "index", "notes", "--index", "w", "--encoder", "openai:unheard-of", "--methods", "dense", "--json", "-"
    )
    assert built.json["spent"]["money"] is None
    assert built.json["spent"]["input_tokens"] == till.tokens
    told = ragindex("search", "Which hill?", "--index", "w", "--method", "dense").out
    assert "no price is known for openai-unheard-of-native-" in told
    command = ("compare", "--questions", "questions.csv", "--index", "w", "--methods", "bm25,dense", "--json", "-")
    free, paid = ragindex(*command, "--encoder", "openai:unheard-of").json["methods"]
    assert (free["usage"]["index"]["money"], paid["usage"]["index"]["money"]) == (0.0, None)
