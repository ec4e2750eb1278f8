"""What coverage costs a passage, over 10,000, 100,000 and 1,000,000 passages: linear work costs each the same.

    .venv/bin/python -m benchmarks.coverage [SIZE …]

Batches of 1,024 passages are covered, changed, touched by neighbours and forgotten, as a sync does it, in the journal
and on LanceDB. The last column is the time of a passage over that at the first size.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ragindex.index.coverage import Journal, PartCoverage
from ragindex.stores.lancedb.store import LanceDB
from ragindex.types import Usage

SIZES = (10_000, 100_000, 1_000_000)
BATCH = 1024


def measured(size: int, folder: Path) -> dict[str, float]:
    """Microseconds a passage, by kind of work."""
    store, journal = LanceDB().open(folder / "store"), Journal.of(folder, "part")
    ids = [f"document{number:07d}#0" for number in range(size)]

    def passes(revision: str | None, neighbours: bool) -> Callable[[PartCoverage], None]:
        def work(coverage: PartCoverage) -> None:
            for start in range(0, size, BATCH):
                batch = ids[start : start + BATCH]
                coverage.begin(batch)
                if neighbours:
                    coverage.touch(ids[max(0, start - BATCH) : start + 2 * BATCH])
                if revision is None:
                    coverage.forget(batch)
                else:
                    coverage.cover(batch, [revision] * len(batch), Usage(1.0))
            coverage.flush()

        return work

    works = {
        "covered": passes("0123456789abcdef", neighbours=False),
        "changed, neighbours touched": passes("fedcba9876543210", neighbours=True),
        "read": lambda coverage: None,
        "forgotten": passes(None, neighbours=False),
    }
    found = {}
    for name, work in works.items():
        start = time.perf_counter()
        coverage = PartCoverage.open(store, "part", journal, shares=True)
        work(coverage)
        coverage.cost()
        found[name] = (time.perf_counter() - start) / size * 1e6
    return found


def main(sizes: tuple[int, ...]) -> None:
    """Print a line a size and kind of work."""
    first: dict[str, float] = {}
    print(f"{'passages':>10}  {'work':<28} {'µs a passage':>12} {'to the first':>12}")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(size, Path(folder))
        first = first or found
        for name, value in found.items():
            print(f"{size:>10,}  {name:<28} {value:>12.1f} {value / first[name]:>12.2f}")


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SIZES)
