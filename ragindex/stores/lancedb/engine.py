"""LanceDB itself: whether this processor runs it, steps into its thread, its errors, and reading around damage.

LanceDB's asynchronous operations run in a thread of its own. A step into that thread costs more than reading a few
records. LanceDB's synchronous classes take several steps for each query, so the store uses the asynchronous ones, and
one step for a whole operation.
"""

import hashlib
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from ragindex._util.durable_files import cache_root
from ragindex.errors import EngineError, StoreError

# ---------------------------------------------------------------- loading


_PROBE = """
import sys
sys.path[:] = sys.argv[1:]
import lancedb, pyarrow
rows = pyarrow.table({"v": pyarrow.array([[1.0] * 16], pyarrow.list_(pyarrow.float32(), 16))})
lancedb.connect("memory://").create_table("t", rows).search([1.0] * 16).limit(1).to_arrow()
"""
_PROBE_TIMEOUT = 120.0
_ILLEGAL_INSTRUCTION = (-signal.SIGILL, 0xC000001D)
"""The exit status of a process that executed one, on POSIX and on Windows."""


def load_lancedb() -> Any:
    """Import LanceDB, which takes a second. Raises StoreError if this processor cannot run it."""
    if "lancedb" not in sys.modules:
        check_processor()
    import lancedb

    return lancedb


def check_processor() -> None:
    """Raise StoreError if this processor lacks instructions that LanceDB is compiled for (AVX2).

    An illegal instruction ends a process and cannot be caught, so a child process tries LanceDB first: once for each
    installed version and kind of processor, which takes seconds and is then remembered in the user's cache folder.
    """
    try:
        version = metadata.version("lancedb")
    except metadata.PackageNotFoundError:
        return  # the import says so
    description = f"{platform.machine()} {platform.node()}"  # where the system does not list the processor's flags
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
        description = next((line for line in lines if line.startswith(("flags", "Features"))), description)
    processor = hashlib.sha256(description.encode()).hexdigest()[:16]
    marker = cache_root() / "processor" / f"lancedb-{version}-{processor}"
    if marker.exists() or not sys.executable:
        return
    try:
        process = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-c", _PROBE, *sys.path],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_PROBE_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # nothing is known of the processor
    if process.returncode in _ILLEGAL_INSTRUCTION:
        raise StoreError(
            f"This processor lacks instructions (AVX2) that LanceDB {version} is compiled for. Use another machine, "
            "or another store: --store elasticsearch:http://HOST:9200"
        )
    if process.returncode == 0:
        with suppress(OSError):
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()


# ---------------------------------------------------------------- steps


_Result = TypeVar("_Result")


def wait(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine in LanceDB's thread and return its result."""
    from lancedb.background_loop import LOOP

    return LOOP.run(work)  # type: ignore[no-any-return]  # LanceDB's function has no types


def fetch_batches(table: Any, query: Any, size: int) -> Iterator[pa.RecordBatch]:
    """Start a query of an asynchronous table and return its batches of at most `size` records.

    Each step reads batches until they have `size` records, so that a query with fewer takes one step.
    """
    reader, batches = wait(_start(table, query, size))
    return _iterate(reader, batches, size)


async def _start(table: Any, query: Any, size: int) -> tuple[Any, list[pa.RecordBatch]]:
    if not await table.count_rows():  # even a query that reads nothing takes milliseconds
        return None, []
    reader = await query.to_batches(max_batch_length=size)
    return reader, await _read_batches(reader, size)


def _iterate(reader: Any, batches: list[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    while batches:
        yield from batches
        batches = wait(_read_batches(reader, size)) if sum(map(len, batches)) >= size else []


async def _read_batches(reader: Any, size: int) -> list[pa.RecordBatch]:
    """Return the next batches, which have at least `size` records unless the query ends."""
    batches, rows = list[pa.RecordBatch](), 0
    while rows < size and (batch := await anext(reader, None)) is not None:
        batches.append(batch)
        rows += len(batch)
    return batches


# ---------------------------------------------------------------- errors


@contextmanager
def wrap_engine_errors(doing: str) -> Iterator[None]:
    """Raise EngineError for errors of LanceDB and the disk in the body."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, MemoryError, pa.ArrowException) as error:
        raise _build_engine_error(doing, error) from error
    except BaseException as error:
        # LanceDB raises PanicException over damaged files. It is no Exception subclass, and it cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise _build_engine_error(doing, error) from error


def _build_engine_error(doing: str, error: BaseException) -> EngineError:
    reason = " ".join(str(error).split())[:500].rstrip(".") or type(error).__name__
    return EngineError(f"The store could not {doing}: {reason}.")


# ---------------------------------------------------------------- damage


_BLOCK = 1024
_PROBES = 16
"""Records of a block that are tried one by one before it is halved: if all fail, so does the rest, as in a file that is
cut short."""


def read_around_damage(read: Callable[[Sequence[int]], pa.Table], count: int) -> Iterator[pa.Table]:
    """Yield the records numbered 0 to `count` that `read` returns without an EngineError."""
    for start in range(0, count, _BLOCK):
        yield from _read_block(read, range(start, min(start + _BLOCK, count)))


def _read_block(read: Callable[[Sequence[int]], pa.Table], block: range) -> Iterator[pa.Table]:
    table = _try(read, block)
    if table is not None:
        yield table
    elif len(block) > 1 and _has_readable(read, block):
        middle = len(block) // 2
        yield from _read_block(read, block[:middle])
        yield from _read_block(read, block[middle:])


def _has_readable(read: Callable[[Sequence[int]], pa.Table], block: range) -> bool:
    return len(block) <= _PROBES or any(
        _try(read, range(at, at + 1)) is not None for at in block[:: len(block) // _PROBES]
    )


def _try(read: Callable[[Sequence[int]], pa.Table], rows: range) -> pa.Table | None:
    try:
        return read(rows)
    except EngineError:
        return None
