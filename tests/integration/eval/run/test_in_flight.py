"""Questions in flight: as many as the model's limit allows, each with its own cost, and what Ctrl-C does to them."""

import logging
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import pytest
from made_language import ECHO, answering
from openai_server import Answer, OpenAIServer

from ragindex.index.index import Index
from ragindex.interfaces import Part, Retriever, Scheme
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.tasks import Task
from ragindex.parts.text.passages import Passages
from ragindex.types import Document, Query, Retrieval
from ragindex_baselines.bm25 import BM25
from ragindex_eval.run import ask
from ragindex_eval.run.ask import Batching, batching_for

QUERIES = tuple(Query(f"q{number}", "slate " * (number + 1) + "?") for number in range(18))
CALLS = 3  # of a question
LIMIT = 6


class Asking(Scheme):
    """BM25 that first asks the model three times about a question: one after the other, or by one `map`."""

    version: ClassVar[int] = 1
    together: bool = False

    def _parts(self) -> tuple[Part[Any], ...]:
        return (Passages(),)

    def tasks(self) -> tuple[Task[Any], ...]:
        return (ECHO,)

    def _open(self, workspace: Index) -> Retriever:
        return AskingRetriever(BM25().open(workspace), workspace, self.together)


@dataclass(frozen=True)
class AskingRetriever:
    base: Retriever
    workspace: Index
    together: bool

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        for query in queries:
            inputs = [{"text": f"{query.id} {number} {query.text}"} for number in range(CALLS)]
            if self.together:
                self.workspace.llm.map(ECHO, inputs)
            else:
                for task_input in inputs:
                    self.workspace.llm.run(ECHO, task_input)
        return self.base.retrieve(queries, k)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with answering(monkeypatch) as running:
        yield running


@pytest.fixture
def workspace(server: OpenAIServer, tmp_path: Path) -> Iterator[Index]:
    llm = OpenAICompatibleChat(model="small", concurrency=LIMIT, base_url=server.url)
    with Index.open(tmp_path / "w", llm=llm, chunking=None, create=True) as opened:
        opened.add([Document("a", "A", "slate")])
        opened.build(Asking())
        yield opened


def hold(server: OpenAIServer, release: Event, when_full: Callable[[], None] = lambda: None) -> None:
    """The first LIMIT answers wait until LIMIT requests are in flight, and then for `release`."""
    full = Event()

    def choose(received: object, earlier: int) -> Callable[[Answer], Answer]:
        first = len(server.requests) <= LIMIT
        if server.in_flight == LIMIT and not full.is_set():
            full.set()
            when_full()

        def answer(right: Answer) -> Answer:
            assert not first or (full.wait(30) and release.wait(30))
            return right

        return answer

    server.choose = choose


@pytest.mark.parametrize("together", [False, True])
def test_requests_in_flight_reach_the_limit_and_costs_stay_with_their_questions(
    server: OpenAIServer, workspace: Index, tmp_path: Path, together: bool
) -> None:
    release, scheme = Event(), Asking(together=together)
    hold(server, release, release.set)
    answers = ask.answer_all(
        scheme.open(workspace), QUERIES, 1, tmp_path / "a.jsonl", ask.Asking("asking", batching_for(workspace, scheme))
    )
    assert server.most_in_flight == LIMIT
    for query, answer in zip(QUERIES, answers, strict=True):
        sent = [
            request.body["messages"] for request in server.requests if f"{query.id} " in str(request.body["messages"])
        ]
        assert answer.calls == len(sent) == CALLS
        tokens = sum(server.count(message["content"]) for messages in sent for message in messages)
        assert answer.usage.input_tokens == tokens
        assert answer.usage.output_tokens == CALLS * (2 + 1 + len(query.text.split()))


def test_methods_that_ask_no_model_are_asked_in_batches(workspace: Index) -> None:
    assert batching_for(workspace, BM25()) == Batching()
    assert batching_for(workspace, Asking()) == Batching(1, 8)  # two more than LIMIT, for the work between requests


@pytest.mark.parametrize("together", [False, True])
def test_ctrl_c_begins_no_further_request_and_keeps_what_was_in_flight(
    server: OpenAIServer, workspace: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    release, scheme, main = Event(), Asking(together=together), threading.main_thread().ident
    assert main is not None
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts without it
    hold(server, release, lambda: signal.pthread_kill(main, signal.SIGINT))
    monkeypatch.setattr(ask, "_PATIENCE", 0.0)
    messages: list[str] = []
    watch = logging.Handler()
    watch.emit = lambda record: (messages.append(record.getMessage()), release.set())[0]  # type: ignore[method-assign]
    monkeypatch.setattr(ask._log, "handlers", [watch])
    monkeypatch.setattr(ask._log, "propagate", False)
    with pytest.raises(KeyboardInterrupt):
        ask.answer_all(
            scheme.open(workspace),
            QUERIES,
            1,
            tmp_path / "a.jsonl",
            ask.Asking("asking", batching_for(workspace, scheme)),
        )
    assert messages == ["asking: waiting for requests in flight, whose answers will be saved (Ctrl-C: do not wait)"]
    assert len(server.requests) == LIMIT
    with sqlite3.connect(tmp_path / "w" / "calls.sqlite") as calls:
        tables = [name for (name,) in calls.execute("select name from sqlite_master where type = 'table'")]
        assert LIMIT in [calls.execute(f"select count(*) from {name}").fetchone()[0] for name in tables]
    calls.close()
    finished = ask.answer_all(
        scheme.open(workspace), QUERIES, 1, tmp_path / "a.jsonl", ask.Asking("asking", batching_for(workspace, scheme))
    )
    assert [answer.calls for answer in finished] == [CALLS] * len(QUERIES)
    assert len(server.requests) == CALLS * len(QUERIES)  # nothing was paid twice
