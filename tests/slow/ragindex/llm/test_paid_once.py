"""Caches, threads, paths and forked or other processes, in any order: each distinct call is paid once."""

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paying
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_language import ANSWER, ORIGIN, key
from openai_server import KEY, OpenAIServer
from paying import KINDS, PATHS, paid, seen_as
from rerank_server import reranking

from examples import examples
from ragindex.llm import openai_chat
from ragindex.llm.cache import SQLiteCache


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setattr(openai_chat, "_memories", {})
    for name in ("OPENAI_API_KEY", "RERANK_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(paying.__file__).parent), *sys.path]))
    with OpenAIServer() as running:
        yield reranking(running)


@pytest.fixture(params=list(KINDS))
def child(request: pytest.FixtureRequest, server: OpenAIServer) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    command = [sys.executable, paying.__file__, request.param, server.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield request.param, process
        assert process.stdin is not None
        process.stdin.close()


WORDS = st.lists(st.sampled_from(["one", "two", "three", "four"]), min_size=1, max_size=4)
JOBS = st.lists(st.tuples(st.sampled_from(PATHS), st.booleans(), WORDS), min_size=2, max_size=4)


@pytest.mark.filterwarnings("ignore:.*unclosed <socket:pytest.PytestUnraisableExceptionWarning")  # forgotten clients
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@settings(max_examples=examples(6))
@given(jobs=JOBS, theirs=WORDS)
def test_any_caches_threads_and_paths_beside_a_process(
    child: tuple[str, "subprocess.Popen[str]"],
    server: OpenAIServer,
    tmp_path_factory: pytest.TempPathFactory,
    jobs: list[tuple[str, bool, list[str]]],
    theirs: list[str],
) -> None:
    """A job has a cache of its own, which some forget while others are at work."""
    kind, process = child
    path = tmp_path_factory.mktemp("paid") / "w" / "kept.sqlite"
    path.parent.mkdir()
    server.requests.clear()
    assert process.stdin is not None
    assert process.stdout is not None

    def work(job: tuple[str, bool, list[str]]) -> None:
        how, forgotten, texts = job
        ask = KINDS[kind](server.url, seen_as(how, path))
        ask(texts)
        if forgotten:
            del ask
            gc.collect()

    seen_as("folder", path), seen_as("link", path)  # made before the threads want them
    process.stdin.write(" ".join([str(path), *theirs]) + "\n")
    process.stdin.flush()
    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(work, jobs))
    assert process.stdout.readline() == "done\n"
    wanted = {text for _, _, texts in jobs for text in texts} | set(theirs)
    assert sorted(paid(server).values()) == [1] * len(wanted)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_children_that_are_forked_while_threads_are_at_work(tmp_path: Path) -> None:
    """A child may begin while another thread holds a claim, a lock or a transaction."""
    path, stop = tmp_path / "calls.sqlite", threading.Event()
    cache, other = SQLiteCache(path), SQLiteCache(path)

    def work(start: int) -> None:
        number = start
        while not stop.is_set():
            with cache.claimed(key(number)):
                cache.put(key(number), ORIGIN, ANSWER)
            number += 1

    with ThreadPoolExecutor(4) as pool:
        for place in range(4):
            pool.submit(work, 1000 * place)
        codes = []
        try:
            for number in range(8):
                child = os.fork()
                if child == 0:
                    signal.alarm(20)
                    with other.claimed(key(10_000 + number)), cache.claimed(key(20_000 + number)):
                        cache.put(key(10_000 + number), ORIGIN, ANSWER)
                    os._exit(0 if other.get(key(10_000 + number)) == ANSWER else 1)
                codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        finally:
            stop.set()
    assert codes == [0] * 8
    assert [SQLiteCache(path).get(key(10_000 + number)) for number in range(8)] == [ANSWER] * 8
