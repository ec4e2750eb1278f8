"""Methods that find nothing and say in a file that they were asked, to be timed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ragindex.index.index import Index
from ragindex.interfaces import Part, Scheme
from ragindex.types import Query, Retrieval
from ragindex_eval.run import latency
from ragindex_eval.run.latency import LazyRetriever, MethodTimes, Timing

QUERIES = [Query(f"q{number}", f"What is {number}?") for number in range(4)]


class Named(Scheme):
    """A scheme that needs no part, finds nothing, and says in a file that it was asked."""

    version: ClassVar[int] = 1
    name: str
    journal: str
    raises: bool = False

    def _parts(self) -> tuple[Part[Any], ...]:
        return ()

    def _open(self, workspace: Index) -> "NamedRetriever":
        return NamedRetriever(self)


@dataclass(frozen=True)
class NamedRetriever:
    scheme: Named

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        with Path(self.scheme.journal).open("a") as file:
            file.writelines(f"{self.scheme.name}\n" for _ in queries)
        if self.scheme.raises:
            raise ValueError("not today")
        return [Retrieval(())] * len(queries)


def timings(workspace: Index, names: str, *, failed: Sequence[str] = (), raises: str = "") -> list[Timing]:
    """One method a letter, each with the file that it has in every comparison on this machine."""
    root = workspace.folder
    schemes = [Named(name=name, journal=str(root / "journal"), raises=name in raises) for name in names]
    return [
        Timing(scheme.name, LazyRetriever(scheme, workspace), root / scheme.name / latency.latency_file_name(5), failed)
        for scheme in schemes
    ]


def read_journal(workspace: Index) -> str:
    """Which methods were asked since the last look, in the order of their first question."""
    journal = workspace.folder / "journal"
    lines = journal.read_text().split() if journal.exists() else []
    journal.unlink(missing_ok=True)
    return "".join(dict.fromkeys(lines))


def runs(timed: Sequence[MethodTimes]) -> set[str]:
    return {times.times.run for times in timed if times.times}
