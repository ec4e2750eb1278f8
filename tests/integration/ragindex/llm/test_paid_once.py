"""Each distinct call is paid once: by whichever cache, thread, process and path of the file, whoever is forgotten."""

import fcntl
import gc
import os
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from made_language import ECHO, PRICES, Echo, key, opened, texts
from openai_server import KEY, Answer, Fault, OpenAIServer, Received, chat
from paying import KINDS, PATHS, paid, seen_as
from rerank_server import reranking

from ragindex.errors import StoreError
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import key_locks, openai_chat
from ragindex.llm.cache import CachedResponse, CallSource, SQLiteCache
from ragindex.llm.client import LLMClient
from ragindex.llm.tasks import Failure, retrying_failed

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setattr(openai_chat, "_memories", {})
    for name in ("OPENAI_API_KEY", "RERANK_API_KEY"):
        monkeypatch.setenv(name, KEY)
    with OpenAIServer() as running:
        yield reranking(running)


@dataclass
class Meeting:
    """A fault: an answer waits until another request comes, or for so long that one would have come."""

    second: threading.Event

    def __call__(self, received: Received, earlier: int) -> Fault:
        if earlier:
            self.second.set()

        def wait(answer: Answer) -> Answer:
            self.second.wait(0.5)
            return answer

        return wait


@pytest.mark.parametrize(("kind", "how"), [*(("chat", how) for how in PATHS), ("rerank", "link"), ("embed", "link")])
def test_two_caches_of_one_file_pay_once(kind: str, how: str, server: OpenAIServer, tmp_path: Path) -> None:
    path = tmp_path / "w" / "kept.sqlite"
    path.parent.mkdir()
    server.choose = Meeting(threading.Event())
    both = [KINDS[kind](server.url, path), KINDS[kind](server.url, seen_as(how, path))]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: both[number % 2](["one"]), range(8)))
    assert list(paid(server).values()) == [1]
    both[1](["one"])
    assert list(paid(server).values()) == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_in_which_another_writes_is_waited_for(kind: str, server: OpenAIServer, tmp_path: Path) -> None:
    """SQLite itself does not wait for a change of the journal mode; here the writer has not changed it."""
    writer = sqlite3.connect(tmp_path / "kept.sqlite", check_same_thread=False, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    end = threading.Timer(0.3, lambda: writer.execute("COMMIT"))
    end.start()
    KINDS[kind](server.url, tmp_path / "kept.sqlite")(["one"])
    assert list(paid(server).values()) == [1]
    end.join()
    writer.close()


def test_failures_that_are_asked_again_are_paid_once_more_by_all(server: OpenAIServer, tmp_path: Path) -> None:
    first, second = (opened(server, tmp_path / "calls.sqlite") for _ in range(2))
    server.faults.extend([chat(content="nothing")] * 2)
    first.map(ECHO, [{"text": "one"}])

    def retry(model: LLMClient) -> list[Echo | Failure]:
        with retrying_failed():
            return model.map(ECHO, [{"text": "one"}] * 4, again=True)

    server.choose = Meeting(threading.Event())
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(retry, llm) for llm in (first, second)]
    assert [job.result() for job in jobs] == [[Echo(text="one")] * 4] * 2
    assert len(server.requests) == 3  # the question, its correction, and the question again


def kept_out(path: Path, number: int) -> bool:
    """Whether nobody else can take the claim on `key(number)` of the file."""
    claim = Path(f"{os.path.realpath(path)}.keys", key(number))
    if not claim.exists():
        return False
    with claim.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class SlowCache(SQLiteCache):
    """A cache that stores nothing before it may."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.may_store, self.storing = threading.Event(), threading.Semaphore(0)

    def put(self, key: str, source: CallSource, response: CachedResponse) -> None:
        self.storing.release()
        assert self.may_store.wait(60)
        super().put(key, source, response)


def test_answer_holds_its_slot_until_it_is_stored(server: OpenAIServer, tmp_path: Path) -> None:
    """A kill loses what is in flight or not yet stored: together not more than the slots of `concurrency`."""
    cache = SlowCache(tmp_path / "calls.sqlite")
    model = opened(server, setting=LLMSettings(cache=cache, prices=PRICES), concurrency=2)
    with ThreadPoolExecutor(1) as pool:
        mapped = pool.submit(model.map, ECHO, texts(8))
        for _ in range(2):
            assert cache.storing.acquire(timeout=60)
        assert not cache.storing.acquire(timeout=0.5)  # a thread that waits for a slot has none to send in
        assert len(server.requests) == 2
        cache.may_store.set()
        assert len(mapped.result()) == 8
    assert len(server.requests) == 8


@pytest.mark.parametrize("how", ["same", "link"])
def test_a_cache_that_is_forgotten_drops_nobodys_claim(how: str, tmp_path: Path) -> None:
    path = tmp_path / "w" / "calls.sqlite"
    path.parent.mkdir()
    cache, other = SQLiteCache(path), SQLiteCache(seen_as(how, path))
    with other.claimed(key(3)):
        pass
    with cache.claimed(key(1)):
        assert kept_out(path, 1)
        with other.claimed(key(2)):
            assert kept_out(path, 2)
        assert not kept_out(path, 2)
        del other
        gc.collect()
        assert kept_out(path, 1)
    assert not kept_out(path, 1)


def test_nothing_stays_open_when_no_claim_is_held(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(50):
        with (
            key_locks.hold_key(tmp_path / "calls.sqlite", key(number)),
            key_locks.hold_key(tmp_path / f"{number}", key(number)),
        ):
            pass
    assert (len(os.listdir("/proc/self/fd")), key_locks._descriptors) == (before, set())
    assert list(tmp_path.glob("*.keys/*")) == []


def test_a_claim_is_given_back_where_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), key_locks.hold_key(tmp_path / "calls.sqlite", key(1)):
        _ = 1 / 0
    assert not kept_out(tmp_path / "calls.sqlite", 1)


def test_a_claim_is_given_back_where_its_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlink(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError("read-only")

    with monkeypatch.context() as patched, pytest.raises(PermissionError):
        patched.setattr(Path, "unlink", unlink)
        with key_locks.hold_key(tmp_path / "calls.sqlite", key(1)):
            pass
    assert not kept_out(tmp_path / "calls.sqlite", 1)


def test_claim_file_deleted_while_another_waits(tmp_path: Path) -> None:
    """Who waited for the deleted file claims the new one, as everybody does who comes now; its holder leaves that."""
    path, inside, order = tmp_path / "calls.sqlite", threading.Event(), list[bool]()

    def wait() -> None:
        with key_locks.hold_key(path, key(1)):
            order.append(kept_out(path, 1))
            inside.set()

    with key_locks.hold_key(path, key(1)):
        thread = threading.Thread(target=wait)
        thread.start()
        while len(key_locks._descriptors) < 2:
            pass
        claim = Path(f"{path}.keys", key(1))
        claim.unlink()
        claim.touch()
        assert not inside.is_set()
    thread.join()
    assert (order, claim.exists(), key_locks._descriptors) == ([True], False, set())


def test_killed_process_frees_its_claim(tmp_path: Path) -> None:
    """Its forked child, which lives on, does not keep it."""
    path = tmp_path / "calls.sqlite"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with key_locks.hold_key(path, key(1)):
            grandchild = os.fork()
            if grandchild == 0:
                signal.alarm(20)
                os.write(writing, str(os.getpid()).encode())
            signal.pause()
    grandchild = int(os.read(reading, 20))
    assert kept_out(path, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with key_locks.hold_key(path, key(1)):
        assert kept_out(path, 1)
    os.kill(grandchild, signal.SIGKILL)
    os.close(reading)
    os.close(writing)


def test_a_child_holds_no_claim_of_its_parents_and_drops_none(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    with key_locks.hold_key(path, key(1)):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            with key_locks.hold_key(path, key(2)):
                os._exit(0 if kept_out(path, 1) and kept_out(path, 2) else 1)
        assert ended(child) == 0
        assert kept_out(path, 1)
        assert not kept_out(path, 2)
    assert not kept_out(path, 1)


def test_a_child_that_leaves_the_work_of_its_parent_gives_nothing_back(tmp_path: Path) -> None:
    """The block in which the parent has forked ends in the child too."""
    path = tmp_path / "calls.sqlite"
    with key_locks.hold_key(path, key(1)):
        child = os.fork()
    if child == 0:
        with key_locks.hold_key(path, key(1)):
            os._exit(0)
    assert ended(child) == 0
    assert key_locks._descriptors == set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_with_two_names_is_refused(kind: str, server: OpenAIServer, tmp_path: Path) -> None:
    """SQLite would keep a log for each name: what is written by one is not seen by the other."""
    path, other = tmp_path / "kept.sqlite", tmp_path / "other.sqlite"
    KINDS[kind](server.url, path)(["one"])
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(StoreError, match=rf"{name} has 2 names \(hard links\).* Run: cp ") as error:
            KINDS[kind](server.url, name)(["two"])
    subprocess.run(str(error.value).partition("Run: ")[2], shell=True, check=True)  # what it says to do
    KINDS[kind](server.url, other)(["one"])
    KINDS[kind](server.url, path)(["one"])
    assert list(paid(server).values()) == [1]
