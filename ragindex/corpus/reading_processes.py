"""Files are read in processes that have limits: one that hangs, needs too much memory or crashes costs one file.

A process starts with the first file that needs one, stays for the next files and the next reading, and is replaced when
it has ended. It answers in JSON: what a process writes that has read a hostile file must not be unpickled. The workers
of an executor start such processes too.
"""

import atexit
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from ragindex._util.workers import available_workers, current_executor
from ragindex.corpus.readers.content import FileContent
from ragindex.corpus.readers.pdf import PASSWORD_VARIABLE
from ragindex.corpus.readers.process import (
    OUT_OF_MEMORY,
    ReadingLimits,
    dump_json,
    load_json,
    make_content,
    read_message,
    write_messages,
)
from ragindex.corpus.readers.rows import Rows
from ragindex.errors import DataError, RagindexError, UsageError

_In = TypeVar("_In")
_Out = TypeVar("_Out")
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from ragindex.corpus.readers.process import answer_requests
answer_requests()
"""
"""Run with -I: without it, modules would be imported from the current folder, which may be the one that is read."""
_START_SECONDS = 120.0
_KEPT_SECONDS = 30.0
"""Seconds without work after which a process gets no more; it ends by itself after 60."""
_ALONE_SECONDS = 1.0
"""Seconds of reading after which more than one process reads: to start one takes a third of a second."""
_AHEAD = 4
"""Files a process that are given out before the first of them is read."""
_MOST_ANSWER_BYTES = 1 << 30
_SENT_BYTES = range(32 << 10, 8 << 20)
"""Other files are read on this machine, not by workers of an executor: to send a small one takes longer."""
_SENT_AT_ONCE = 32
"""Files that workers of an executor read at once."""


class _Process:
    """A process that reads files, one after the other."""

    def __init__(self) -> None:
        options = [*(["-B"] if sys.dont_write_bytecode else []), *(["-X", "utf8"] if sys.flags.utf8_mode else [])]
        reachable = os.access(sys.executable, os.X_OK)  # not by a process that gave up its rights after it started
        try:
            self._inner = subprocess.Popen(  # noqa: S603  # nothing in it comes from a file
                [sys.executable, "-I", *options, "-c", _PROGRAM, json.dumps(sys.path)],
                executable=sys.executable if reachable else "/proc/self/exe",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        except OSError as error:
            raise _start_error(error.strerror or str(error)) from error
        self._requests, self._output = cast(BinaryIO, self._inner.stdin), cast(BinaryIO, self._inner.stdout)
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._owner, self._last_used = os.getpid(), time.monotonic()
        self.is_new = True
        threading.Thread(target=self._receive, name="ragindex-reading", daemon=True).start()

    @property
    def is_usable(self) -> bool:
        """Whether the process lives, goes on to live for a while, and is not that of a process that forked this one."""
        recent = time.monotonic() - self._last_used < _KEPT_SECONDS
        return recent and self._owner == os.getpid() and self._inner.poll() is None

    @property
    def exit_code(self) -> int:
        """The exit code of the process, which has ended; below 0: the number of the signal that ended it, negated."""
        return self._inner.wait()

    def end(self) -> None:
        """End the process, whatever it does, unless it is that of a process that forked this one."""
        if self._owner != os.getpid():
            return
        self._inner.kill()
        self._inner.wait()
        with suppress(OSError):  # a request that was not written
            self._requests.close()

    def ask(self, request: Sequence[bytes], seconds: float) -> bytes | None:
        """Return the answer; None if the process ended instead. Raises queue.Empty after so many seconds."""
        if self.is_new:  # imports are no reading
            ready: bytes | None = None
            with suppress(queue.Empty):
                ready = self._answers.get(timeout=_START_SECONDS)
            if ready is None:
                self.end()
                raise _start_error(_describe_exit(self.exit_code))
            self.is_new = False
        with suppress(OSError):  # it has ended, and its answers too
            write_messages(self._requests, *request)
        answer = self._answers.get(timeout=seconds)
        self._last_used = time.monotonic()
        return answer

    def _receive(self) -> None:
        answer: bytes | None = b""
        with self._output:
            while answer is not None:
                try:
                    answer = read_message(self._output, _MOST_ANSWER_BYTES)
                except OSError:
                    answer = None
                self._answers.put(answer)


_idle: deque[_Process] = deque()


@atexit.register
def _end_idle() -> None:
    while _idle:
        _idle.pop().end()


class ReadingProcesses:
    """The processes of one reading of files; afterwards they are kept for the next one.

    Leaving the context ends those that still read, as after an interrupt.
    """

    def __init__(self) -> None:
        self._busy: set[_Process] = set()
        self._left = False
        self._executor, self._here = current_executor(), threading.BoundedSemaphore(available_workers())

    def __enter__(self) -> "ReadingProcesses":
        return self

    def __exit__(self, *exception: object) -> None:
        self._left = True
        for process in tuple(self._busy):
            process.end()

    def map(self, function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
        """Yield `function(item)` for each item, in order, from several threads if there is enough work."""
        workers = available_workers() if self._executor is None else _SENT_AT_ONCE
        start, left = time.monotonic(), iter(items)
        while workers == 1 or time.monotonic() - start < _ALONE_SECONDS:
            for item in left:
                yield function(item)
                break
            else:
                return
        waiting: deque[Future[_Out]] = deque()
        with ThreadPoolExecutor(workers) as threads:
            try:
                for item in left:
                    waiting.append(threads.submit(function, item))
                    if len(waiting) == _AHEAD * workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                threads.shutdown(wait=False, cancel_futures=True)
                self.__exit__()

    def read(
        self,
        raw: bytes,
        path: Path,
        suffix: str,
        encoding: str | None,
        limits: ReadingLimits,
        ocr: bool = False,
        rows: Rows | None = None,
    ) -> FileContent:
        """Return what the reader of `suffix` finds in the bytes of a file. Raises DataError and UsageError.

        Workers get no password, so where one is set, files are read on this machine.
        """
        if self._executor is not None and len(raw) in _SENT_BYTES and not os.environ.get(PASSWORD_VARIABLE):
            call = (raw, path, suffix, encoding, limits, ocr, rows)
            ((content,), _) = self._executor.submit(_read_on_worker, [call], f"Reading {path}").take()
            return content
        columns = None if rows is None else asdict(rows)
        values = {
            **{"path": str(path), "suffix": suffix, "encoding": encoding, "ocr": ocr, "rows": columns},
            "limits": asdict(limits),
            "password": os.environ.get(PASSWORD_VARIABLE, ""),  # it may have changed since the process started
        }
        with self._here:
            process = self._take()
            answer = self._ask(process, (dump_json(values), raw), path, limits)
            if answer is None:  # what it read before may have left it short of memory, or broken, or it was the meter
                process = _Process()
                answer = self._ask(process, (dump_json(values | {"measured": False}), raw), path, limits)
        if answer is None:
            raise _describe_end(process.exit_code, path, limits)
        return load_answer(load_json(answer), path, limits)

    def _take(self) -> _Process:
        while _idle:
            process = _idle.pop()
            if process.is_usable:
                return process
            process.end()
        return _Process()

    def _ask(self, process: _Process, request: Sequence[bytes], path: Path, limits: ReadingLimits) -> bytes | None:
        self._busy.add(process)
        try:
            if self._left:
                process.end()
            answer = process.ask(request, limits.seconds)
        except queue.Empty as error:
            process.end()
            raise _limit_error(f"within {limits.seconds:g} seconds", "one that takes longer", path) from error
        except BaseException:  # an interrupt: its answer is not that to the next request
            process.end()
            raise
        finally:
            self._busy.discard(process)
        if answer is None:
            process.end()
        else:
            _idle.append(process)
        return answer


def _read_on_worker(
    call: tuple[bytes, Path, str, str | None, ReadingLimits, bool, Rows | None],
) -> FileContent:
    with ReadingProcesses() as processes:
        return processes.read(*call)


def load_answer(values: dict[str, Any], path: Path, limits: ReadingLimits) -> FileContent:
    """Return the content of a file from the values of `parse_file`. Raises DataError and UsageError."""
    if "text" in values:
        return make_content(values)
    if "usage" in values:
        raise UsageError(values["usage"])
    if "characters" in values:
        raise DataError(
            f"a file with at most {limits.characters:,} characters of text", f"{values['characters']:,}", path=path
        )
    if "fault" in values:
        raise DataError("a file that its reader can read", f"one on which it fails ({values['fault']})", path=path)
    raise DataError(values["expected"], values["found"], path=path, line=values["line"])


def _describe_end(code: int, path: Path, limits: ReadingLimits) -> DataError:
    if code in (OUT_OF_MEMORY, -signal.SIGABRT):  # libraries in Rust abort when they get no memory
        crashes = "" if code == OUT_OF_MEMORY else ", or that crashes its reader"
        return _limit_error(f"with {limits.memory / 1e9:g} GB of memory", f"one that needs more{crashes}", path)
    return DataError("a file that its reader can read", f"one that crashes it ({_describe_exit(code)})", path=path)


def _start_error(why: str) -> RagindexError:
    return RagindexError(
        f"The process that reads files did not start ({why}). Check that memory is free, and that this runs: "
        f"{sys.executable} -c 'import ragindex.corpus.readers'"
    )


def _limit_error(limit: str, got: str, path: Path) -> DataError:
    return DataError(f"a file that can be read {limit}", got, path=path)


def _describe_exit(code: int) -> str:
    """Describe the exit code of a process, in which signals are negative."""
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"exit code {code}"
