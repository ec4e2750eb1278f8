"""What was left out of a corpus or of its questions, and why, in the words that people are told it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragindex._util.text import first_names, many
from ragindex.errors import DataError

_NAMED = 3
MOST_LISTED = 19
"""Files that are all listed; of more, only the first are named."""
NO_TEXT = "a file with text in it"
"""What is expected of a file that has none: such a file was read."""
_ARCHIVES = (".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".tar", ".7z", ".rar", ".jar")
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".svg", ".ico", ".heic", ".avif")
_KINDS = {
    **dict.fromkeys(_ARCHIVES, ("archive", "archives, which are not opened: unpack them")),
    **dict.fromkeys(_PICTURES, ("picture", "pictures")),
    ".rtf": (".rtf file", ".rtf files: save them as .docx, or run soffice --headless --convert-to docx FILE"),
}
"""What files are that no reader takes, and how the reason names them, by suffix."""
_HINTS = {".parquet file": "; --rows reads them", ".rtf file": "; save them as .docx to read them"}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or an item of it that was left out: `place` and `reason` are those of the DataError.

    `kind` is what was expected, which is the same for files that are left out for the same reason.
    """

    path: str
    place: str
    reason: str
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason


def left_out_by(error: DataError) -> LeftOut:
    """Return what `error` makes one leave out."""
    return LeftOut("" if error.path is None else str(error.path), error.place, error.reason, error.expected)


def describe_left_out(given: Iterable[LeftOut]) -> list[str]:
    """Return a sentence for each reason, with all places; for many, one for each kind of reason, with the first."""
    left_out = list(given)
    is_few = len(left_out) <= MOST_LISTED
    groups: dict[str, list[LeftOut]] = {}
    for one in left_out:
        groups.setdefault(one.reason if is_few else one.kind or one.reason, []).append(one)
    return [f"skipped: {_describe_group(group, MOST_LISTED if is_few else _NAMED)}" for group in groups.values()]


def explain_ignored(suffix: str) -> str:
    """Return why a file with this suffix, which no reader takes, is not read."""
    if suffix in _KINDS:
        return f"no reader takes {_KINDS[suffix][1]}"
    return f"no reader takes {f'{suffix} files' if suffix else 'files without a suffix'}"


def describe_ignored(counts: Mapping[str, int], unread: Mapping[str, str]) -> list[str]:
    """Return a sentence for each kind of files that no reader takes, from the counts of `Corpus` and its `unread`."""
    kinds = Counter[tuple[str, str]]()
    for suffix, count in sorted(counts.items()):
        what = _KINDS[suffix][0] if suffix in _KINDS else f"{suffix} file" if suffix else "file without a suffix"
        kinds[what, explain_ignored(suffix)] += count
    sentences = []
    for (what, reason), count in kinds.items():
        names = [name for name, why in unread.items() if why == reason]
        plural = "files without a suffix" if what == "file without a suffix" else ""
        hint = _HINTS.get(what, "")
        sentences.append(f"ignored: {many(count, what, plural)}{f' ({name_files(names)})' if names else ''}{hint}")
    return sentences


def name_files(names: Sequence[str]) -> str:
    """Return the names of files, of many the first."""
    return ", ".join(names) if len(names) <= MOST_LISTED else first_names(names)


def describe_encodings(ids: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a sentence for each encoding other than UTF-8, with the documents that were read in it."""
    return [f"read as {encoding}: {len(names):,} ({first_names(names)})" for encoding, names in ids.items()]


def _describe_group(group: Sequence[LeftOut], named: int) -> str:
    if len(group) == 1:
        return str(group[0])
    more = f"; and {len(group) - named:,} more" if len(group) > named else ""
    return f"{len(group):,} ({'; '.join(one.place for one in group[:named])}{more}): {group[0].reason}"
