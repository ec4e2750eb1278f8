"""The cache of paid answers in children that are forked while threads are at work."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from made_language import ANSWER, ORIGIN, key

from ragindex.llm.cache import SQLiteCache


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
