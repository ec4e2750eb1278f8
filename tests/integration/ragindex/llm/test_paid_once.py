"""Each distinct call is paid once: by whichever cache, thread, process and path of the file, whoever is forgotten."""

import gc
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import paying
import pytest
from filelock import Timeout
from hypothesis import given, settings
from hypothesis import strategies as st
from made_language import ANSWER, ECHO, ORIGIN, Echo, key, opened
from openai_server import KEY, Answer, Fault, OpenAIServer, Received, chat
from paying import KINDS
from rerank_server import reranking

from examples import examples
from ragindex import durable_files
from ragindex.errors import StoreError
from ragindex.llm import endpoint_features, key_locks
from ragindex.llm.cache import SQLiteCache

PATHS = ("same", "folder", "link", "dots", "relative")
"""How the second cache is told of the file of the first."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setattr(endpoint_features, "_memories", {})
    for name in ("OPENAI_API_KEY", "RERANK_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(paying.__file__).parent), *sys.path]))
    with OpenAIServer() as running:
        yield reranking(running)


def seen_as(how: str, path: Path) -> Path:
    """Another path of the file: through a linked folder, a link to the file itself, dots, or the working folder."""
    if how == "folder":
        linked = path.parent.parent / "linked"
        if not linked.exists():
            linked.symlink_to(path.parent, target_is_directory=True)
        return linked / path.name
    if how == "link":
        link = path.parent.parent / "link.sqlite"
        if not link.is_symlink():
            link.symlink_to(path)
        return link
    if how == "dots":
        return path.parent / ".." / path.parent.name / path.name
    return Path(os.path.relpath(path)) if how == "relative" else path


def paid(server: OpenAIServer) -> Counter[str]:
    """How often each call was asked for, whatever its headers."""
    return Counter(json.dumps(received.body, sort_keys=True) for received in server.requests)


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


# ---------------------------------------------------------------- two caches in one process


@pytest.mark.parametrize("how", PATHS)
@pytest.mark.parametrize("kind", KINDS)
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


@pytest.mark.parametrize("how", PATHS)
def test_who_makes_the_tables_excludes_others_under_any_path(how: str, tmp_path: Path) -> None:
    path = tmp_path / "w" / "kept.sqlite"
    path.parent.mkdir()
    with durable_files.lock_sqlite_file(path, 0), pytest.raises(Timeout), ThreadPoolExecutor(1) as pool:
        pool.submit(durable_files.lock_sqlite_file(seen_as(how, path), 0).__enter__).result()


def test_failures_that_are_asked_again_are_paid_once_more_by_all(server: OpenAIServer, tmp_path: Path) -> None:
    first, second = (opened(server, tmp_path / "calls.sqlite") for _ in range(2))
    server.faults.extend([chat(content="nothing")] * 2)
    first.map(ECHO, [{"text": "one"}])
    server.choose = Meeting(threading.Event())
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(one.map, ECHO, [{"text": "one"}] * 4, again=True) for one in (first, second)]
    assert [job.result() for job in jobs] == [[Echo(text="one")] * 4] * 2
    assert len(server.requests) == 3  # the question, its correction, and the question again


# ---------------------------------------------------------------- threads, caches, paths and processes, in any order


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


@pytest.mark.slow
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


# ---------------------------------------------------------------- a cache that is forgotten


ASK = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(sys.argv[2]))
except OSError:
    sys.exit(7)
"""


def kept_out(path: Path, number: int) -> bool:
    """Whether another process cannot take the claim on `key(number)` of the file."""
    command = [sys.executable, "-c", ASK, f"{os.path.realpath(path)}.claims", str(int(key(number)[:16], 16))]
    return subprocess.run(command, check=False).returncode == 7


@pytest.mark.parametrize("how", PATHS)
def test_a_cache_that_is_forgotten_drops_nobodys_claim(how: str, tmp_path: Path) -> None:
    path = tmp_path / "w" / "calls.sqlite"
    path.parent.mkdir()
    kept, other = SQLiteCache(path), SQLiteCache(seen_as(how, path))
    with other.claimed(key(3)):
        pass
    with kept.claimed(key(1)):
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
    assert (len(os.listdir("/proc/self/fd")), key_locks._files) == (before, {})


def test_a_claim_is_given_back_where_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), key_locks.hold_key(tmp_path / "calls.sqlite", key(1)):
        _ = 1 / 0
    assert not kept_out(tmp_path / "calls.sqlite", 1)


def test_a_file_of_claims_that_is_deleted_while_somebody_waits(tmp_path: Path) -> None:
    """Who waited for the deleted file claims the new one, as everybody does who comes now."""
    path, inside, order = tmp_path / "calls.sqlite", threading.Event(), []

    def wait() -> None:
        with key_locks.hold_key(path, key(1)):
            order.append(kept_out(path, 1))
            inside.set()

    with key_locks.hold_key(path, key(1)):
        thread = threading.Thread(target=wait)
        thread.start()
        while next(iter(key_locks._files.values())).users < 2:
            pass
        Path(f"{path}.claims").unlink()
        Path(f"{path}.claims").touch()
        assert not inside.is_set()
    thread.join()
    assert order == [True]
    assert key_locks._files == {}


# ---------------------------------------------------------------- forks


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.slow
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
                codes.append(ended(child))
        finally:
            stop.set()
    assert codes == [0] * 8
    assert [SQLiteCache(path).get(key(10_000 + number)) for number in range(8)] == [ANSWER] * 8


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
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


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_leaves_the_work_of_its_parent_gives_nothing_back(tmp_path: Path) -> None:
    """The block in which the parent has forked ends in the child too."""
    path = tmp_path / "calls.sqlite"
    with key_locks.hold_key(path, key(1)):
        child = os.fork()
    if child == 0:
        with key_locks.hold_key(path, key(1)):
            os._exit(0)
    assert ended(child) == 0
    assert key_locks._files == {}


# ---------------------------------------------------------------- a database has one name


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_with_two_names_is_refused(kind: str, server: OpenAIServer, tmp_path: Path) -> None:
    """SQLite would keep a log for each name: what is written by one is not seen by the other."""
    path, other = tmp_path / "kept.sqlite", tmp_path / "other.sqlite"
    KINDS[kind](server.url, path)(["one"])
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(StoreError, match=rf"{name} has 2 names \(hard links\).* Run: cp "):
            KINDS[kind](server.url, name)(["two"])
    with pytest.raises(StoreError) as error:
        KINDS[kind](server.url, other)(["two"])
    subprocess.run(str(error.value).partition("Run: ")[2], shell=True, check=True)  # what it says to do
    KINDS[kind](server.url, other)(["one"])
    KINDS[kind](server.url, path)(["one"])
    assert list(paid(server).values()) == [1]
