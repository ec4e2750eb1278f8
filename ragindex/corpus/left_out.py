"""What was left out of a corpus or of its questions, and why, in the words that people are told it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragindex.counts import first_names, many
from ragindex.errors import DataError

_NAMED = 3


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or an item of it that was left out: `place` and `reason` are those of the DataError."""

    path: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason


def left_out_by(error: DataError) -> LeftOut:
    """Return what `error` makes one leave out."""
    return LeftOut("" if error.path is None else str(error.path), error.place, error.reason)


def describe_left_out(given: Iterable[LeftOut]) -> list[str]:
    """Return a sentence for each reason, with the first places and their number if several share it."""
    by_reason: dict[str, list[LeftOut]] = {}
    for one in given:
        by_reason.setdefault(one.reason, []).append(one)
    return [f"skipped: {_describe_group(group)}" for group in by_reason.values()]


def describe_ignored(counts: Mapping[str, int]) -> list[str]:
    """Return the sentence on files of formats that no reader takes, by suffix; [] if there are none."""
    files = [many(count, f"{suffix} file") for suffix, count in sorted(counts.items()) if suffix]
    files += [f"{many(count, 'file')} without a suffix" for suffix, count in counts.items() if not suffix]
    return [f"ignored: {', '.join(files)}{' (--rows reads them)' if '.parquet' in counts else ''}"] if files else []


def describe_encodings(ids: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a sentence for each encoding other than UTF-8, with the documents that were read in it."""
    return [f"read as {encoding}: {len(names):,} ({first_names(names)})" for encoding, names in ids.items()]


def _describe_group(group: list[LeftOut]) -> str:
    if len(group) == 1:
        return str(group[0])
    more = f"; and {len(group) - _NAMED:,} more" if len(group) > _NAMED else ""
    return f"{len(group):,} ({'; '.join(one.place for one in group[:_NAMED])}{more}): {group[0].reason}"
