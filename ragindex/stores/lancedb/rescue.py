"""Reading the records of a damaged table that can still be read: in blocks, each halved around what fails."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from ragindex.errors import EngineError

_BLOCK = 1024
_PROBES = 16
"""Records of a block that are tried one by one before it is halved: if all fail, so does the rest, as in a file that is
cut short."""


def read_around_damage(read: Callable[[Sequence[int]], pa.Table], count: int) -> Iterator[pa.Table]:
    """Yield the records numbered 0 to `count` that `read` returns without an EngineError."""
    for start in range(0, count, _BLOCK):
        yield from _read_block(read, range(start, min(start + _BLOCK, count)))


def _read_block(read: Callable[[Sequence[int]], pa.Table], block: range) -> Iterator[pa.Table]:
    found = _try(read, block)
    if found is not None:
        yield found
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
