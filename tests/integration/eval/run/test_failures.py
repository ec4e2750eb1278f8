"""What is wrong with settings, a service or the engine stops a comparison; what one question met is a score of 0."""

import json
import shutil
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from asking import GOLD, QUERIES, TEXTS
from command_line import failed, make_desk, ragindex
from comparing import compare
from made_language import ECHO, answering
from openai_server import KEY, Fault, OpenAIServer, chat, drop, says, status
from rerank_server import reranking

from ragindex.corpus import Corpus
from ragindex.errors import DataError, LLMError, RequestError, ServiceError, StoreError, UsageError
from ragindex.errors import WorkspaceError as BrokenWorkspaceError
from ragindex.index.index import Index
from ragindex.interfaces import Part, Retriever, Scheme
from ragindex.llm.tasks import Task
from ragindex.parts.text.passages import Passages
from ragindex.types import Document, Query, Retrieval
from ragindex_eval.conclusions.first_sentence import state_conclusion
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.results.model import Comparison


class Asking(Scheme):
    """BM25 that asks the model about every question first, `times` times."""

    version: ClassVar[int] = 1
    times: int = 1

    def _parts(self) -> tuple[Part[Any], ...]:
        return (Passages(),)

    def tasks(self) -> tuple[Task[Any], ...]:
        return (ECHO,)

    def _open(self, workspace: Index) -> "AskingRetriever":
        from ragindex_baselines.bm25 import BM25

        return AskingRetriever(BM25().open(workspace), workspace, self.times)


@dataclass(frozen=True)
class AskingRetriever:
    base: Retriever
    workspace: Index
    times: int

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        for query in queries:
            for time in range(self.times):
                self.workspace.llm.run(ECHO, {"text": f"{query.text} {time}"})
        return self.base.retrieve(queries, k)


class Raising(Scheme):
    """A scheme whose questions meet an error; or whose folder of the store is gone when it is asked."""

    version: ClassVar[int] = 1
    kind: str

    def _parts(self) -> tuple[Part[Any], ...]:
        return (Passages(),)

    def _open(self, workspace: Index) -> "RaisingRetriever":
        return RaisingRetriever(workspace, self.kind)


KINDS: dict[str, Exception] = {
    "usage": UsageError("a setting is wrong"),
    "data": DataError("a table", "a chair"),
    "workspace": BrokenWorkspaceError("a part is missing"),
    "store": StoreError("the engine failed"),
    "service": ServiceError("nobody is there"),
    "request": RequestError("this request failed"),
    "language": LLMError("this answer cannot be read"),
    "plugin": ValueError("a mistake"),
}


@dataclass(frozen=True)
class RaisingRetriever:
    workspace: Index
    kind: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        if self.kind == "engine":
            from ragindex_baselines.bm25 import BM25

            self.workspace.close()
            for name in ("data", "_copies"):
                for data in list((self.workspace.folder / "store").rglob(name)):
                    shutil.rmtree(data)
            return BM25().open(self.workspace).retrieve(queries, k)
        if any(query.id == "q1" for query in queries):
            raise KINDS[self.kind]
        return [Retrieval(())] * len(queries)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setenv("EMBEDDING_API_KEY", KEY)
    monkeypatch.setenv("RERANK_API_KEY", KEY)
    with answering(monkeypatch) as running:
        for name in ("OPENAI_BASE_URL", "EMBEDDING_BASE_URL", "RERANK_BASE_URL"):
            monkeypatch.setenv(name, running.url)
        yield reranking(running)


LLM, ENCODER = "openai(model=small, retries=0)", "openai(model=vectors, retries=0)"
RERANKED = {"name": "rerank", "params": {"base": "bm25", "reranker": "endpoint(model=ranker, retries=0)"}}
WHO: dict[str, tuple[Any, dict[str, Any]]] = {
    "language model": (Asking(), {"llm": LLM}),
    "encoder": ("dense", {"encoder": ENCODER}),
    "reranker": (RERANKED, {}),
}


def compared(folder: Path, *methods: Any, **options: Any) -> Comparison:
    documents = tuple(Document(id, id.title(), text) for id, text in TEXTS.items())
    data = Dataset("tiny", Corpus("tiny", "jsonl", documents, 0, (), True), QUERIES, GOLD, "0123456789abcdef")
    return compare(data, methods, index=folder / "w", **{"k": (1, 2), **options})


def of_questions(fault: Fault, *questions: str) -> Any:
    """The fault, for requests that hold one of these questions; documents are indexed in peace."""
    named = questions or tuple(query.text for query in QUERIES)
    return lambda received, earlier: fault if any(text in json.dumps(received.body) for text in named) else None


def dead_address() -> str:
    """An address that nobody listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


# ---------------------------------------------------------------- what stops, and what is a score


@pytest.mark.parametrize("who", WHO)
def test_faults_of_a_service(server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    """What every question would meet stops the run; one request that failed after its retries scores 0."""
    method, options = WHO[who]
    stops = [
        (status(401, f"wrong key {KEY}"), "status 401"),
        (status(400, "no such model", code="model_not_found"), "status 400"),
        (status(429, "You exceeded your current quota"), "status 429"),
    ]
    for fault, message in stops:
        server.choose = of_questions(fault)
        with pytest.raises(ServiceError, match=message) as caught:
            compared(tmp_path, "bm25", method, **options)
        assert not isinstance(caught.value, RequestError)
        assert KEY not in str(caught.value)
    assert not list((tmp_path / "w").rglob("latency-*"))
    for fault in (status(500, "broken"), drop, says("<html>busy</html>")):
        server.choose = of_questions(fault, "Which hill?")
        comparison = compared(tmp_path, "bm25", method, **options)
        failing = next(method for method in comparison.methods if method.label != "bm25")
        assert list(failing.failures) == ["q1"]
        assert failing.latency.questions == 1
    if who == "encoder":  # its documents are there; nobody answers when a question comes
        monkeypatch.setattr("ragindex.encoders.openai_compatible.strip_credentials", lambda _: server.url)
    for name in ("OPENAI_BASE_URL", "EMBEDDING_BASE_URL", "RERANK_BASE_URL"):
        monkeypatch.setenv(name, dead_address())
    with pytest.raises(ServiceError, match="refused|[Cc]onnect") as caught:
        compared(tmp_path, "bm25", method, **options)
    assert not isinstance(caught.value, RequestError)


def test_only_errors_of_one_question_are_scores(tmp_path: Path) -> None:
    for kind in ("request", "language", "plugin"):
        comparison = compared(tmp_path, "bm25", Raising(kind=kind))
        method = next(method for method in comparison.methods if method.label != "bm25")
        assert list(method.failures) == ["q1"]
        assert method.per_query["q1"]["R@1"] == 0
        assert method.latency.questions == 1
    for kind in ("usage", "data", "workspace", "store", "service"):
        with pytest.raises(type(KINDS[kind])):
            compared(tmp_path, "bm25", Raising(kind=kind))
    with pytest.raises(StoreError, match="The store could not"):
        compared(tmp_path, "bm25", Raising(kind="engine"))


def test_budget_needs_a_price(server: OpenAIServer, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="A budget needs the price of small, which is not listed"):
        compared(tmp_path, "bm25", Asking(), llm=LLM, budget=1.0)
    assert not server.requests


def test_command_that_stops_names_no_winner(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_desk(tmp_path, monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    server.choose = lambda received, earlier: status(401, "wrong")
    methods = ("--methods", "bm25,self-ask(base=bm25)", "--llm", LLM)
    arguments = ("compare", "notes", "--questions", "questions.csv", *methods)
    assert "rejects the API key, status 401: wrong. Check OPENAI_API_KEY" in failed(6, *arguments)
    monkeypatch.setenv("OPENAI_BASE_URL", dead_address())
    assert "cannot be reached (attempts: 1)" in failed(6, *arguments)
    assert not (tmp_path / "ragindex-results" / "notes").exists()


def test_usage_of_a_failed_question(server: OpenAIServer, tmp_path: Path) -> None:
    server.choose = lambda received, earlier: (
        chat(content="no JSON at all") if "Which hill? 1" in json.dumps(received.body["messages"]) else None
    )
    comparison = compared(tmp_path, "bm25", Asking(times=2), llm=LLM)
    asking = next(method for method in comparison.methods if method.label != "bm25")
    assert list(asking.failures) == ["q1"]
    q1, q2 = asking.final
    assert (q1.calls, q2.calls) == (3, 2)  # one that was read, one that was not, and that once more
    assert q1.usage.input_tokens > q2.usage.input_tokens > 0
    assert asking.calls == 2.5
    assert asking.query_usage.input_tokens == (q1.usage.input_tokens + q2.usage.input_tokens) / 2
    assert asking.query_usage.input_tokens * 2 == asking.spent.input_tokens
    assert comparison.pair(asking.label, "bm25", "input_tokens").questions == 2
    value = next(method for method in comparison.to_json()["methods"] if method["label"] == asking.label)
    assert value["usage"]["query"]["input_tokens"] == asking.query_usage.input_tokens


# ---------------------------------------------------------------- failing on every question


def test_method_that_always_failed_comes_back(server: OpenAIServer, tmp_path: Path) -> None:
    server.choose = lambda received, earlier: status(500, "broken")
    comparison = compared(tmp_path, "bm25", Asking(), llm=LLM)
    (broken,) = comparison.failed
    assert f"{broken.label} failed on every question, and is not compared: LLMError" in state_conclusion(comparison)
    server.choose = lambda received, earlier: None
    healthy = compared(tmp_path, "bm25", Asking(), llm=LLM)
    assert healthy.failed == ()
    assert all(method.latency.questions == 2 for method in healthy.methods)  # its latency was not lost for good


def test_exit_code_after_the_others_are_shown(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_desk(tmp_path, monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    server.choose = lambda received, earlier: status(500, "broken")
    arguments = ("compare", "notes", "--questions", "questions.csv", "--llm", LLM)
    done = ragindex(*arguments, "--methods", "bm25,self-ask(base=bm25)", "--fail-below", "self-ask(base=bm25):R@5=0.1")
    assert done.code == 7
    assert "bm25 reaches 100.0 at R@5; there is nothing to compare it with." in " ".join(done.out.split())
    assert "failed on every question and is not compared" in " ".join(done.out.split())
    assert "failed on every question, and is not compared: LLMError" in done.err
    value = json.loads((tmp_path / "ragindex-results" / "notes" / "comparison.json").read_text())
    assert [len(value[name]) for name in ("methods", "failed", "pairs")] == [1, 1, 0]
    alone = ragindex(*arguments, "--methods", "self-ask(base=bm25)")
    spending, error = alone.err.splitlines()[-2:]
    assert (alone.code, alone.out) == (7, "")
    assert spending.startswith("Spent: 0 tokens, $0.000000, possibly charged: up to ")
    assert error.startswith("error: No method answered any question.")
