"""What was left out of a corpus or of its questions, and why, in the words that people are told it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ragindex.counts import many
from ragindex.errors import DataError

_NAMED = 3


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that was left out, or the item that starts at `line`; `reason` says what was expected and found."""

    path: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.path else self.reason

    @property
    def place(self) -> str:
        """The path, with the line if it is known."""
        return self.path if self.line is None else f"{self.path}, line {self.line}"


def left_out_by(error: DataError) -> LeftOut:
    """Return what `error` makes one leave out."""
    path = "" if error.path is None else str(error.path)
    return LeftOut(path, error.line, f"expected {error.expected}; found {error.found}.")


def describe_left_out(given: Iterable[LeftOut]) -> list[str]:
    """Return a sentence for each reason, with the first places and their number if several share it."""
    by_reason: dict[str, list[LeftOut]] = {}
    for one in given:
        by_reason.setdefault(one.reason, []).append(one)
    return [_describe_group(group) for group in by_reason.values()]


def describe_ignored(counts: Mapping[str, int]) -> list[str]:
    """Return the sentence on files of formats that no reader takes, by suffix; [] if there are none."""
    files = [many(count, f"{suffix} file") for suffix, count in sorted(counts.items())]
    return [f"ignored: {', '.join(files)}"] if files else []


def _describe_group(group: list[LeftOut]) -> str:
    if len(group) == 1:
        return str(group[0])
    more = f"; and {len(group) - _NAMED:,} more" if len(group) > _NAMED else ""
    return f"{len(group):,} ({'; '.join(one.place for one in group[:_NAMED])}{more}): {group[0].reason}"
