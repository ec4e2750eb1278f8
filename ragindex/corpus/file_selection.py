"""Which files of a folder are read, and how: by the options of a command, and by those that an index remembers."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from ragindex._util.ids import ROW_SUFFIXES
from ragindex.corpus import readers
from ragindex.corpus.readers.rows import Rows, parse_rows
from ragindex.corpus.readers.text_encodings import check_encoding
from ragindex.errors import UsageError

MAX_FILE_MB = 50.0
"""Default of the largest file that is read, in megabytes (10^6 bytes)."""
_PLACE = ("inside", "below")  # where a selection applies, which is no option


@dataclass(frozen=True, slots=True)
class FileSelection:
    """Which files of a folder are read, and how.

    `include` and `exclude` are patterns as of the shell (`*.md`, `drafts/*`), compared with the path in the folder and
    with the file's name; a file is read if it matches one of `include` (empty: all) and none of `exclude`. `encoding`
    is that of text files (None: detected), `max_file_mb` the largest size in megabytes, and `ocr` whether the text of
    scanned pages is recognised. With `rows` each row of a table is a document, and with `skip_stubs` pages whose
    content has moved are left out. Raises UsageError.

    `inside` is the path of the folder in that of its source, with a slash at the end: patterns are compared with the
    path in the source too. `below` are the selections of files and subfolders that are read otherwise, by path.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    encoding: str | None = None
    max_file_mb: float = MAX_FILE_MB
    ocr: bool = False
    rows: Rows | None = None
    skip_stubs: bool = False
    inside: str = ""
    below: Mapping[str, "FileSelection"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        if not self.max_file_mb > 0:
            raise UsageError(f"The largest size of a file must be more than 0 megabytes. Got {self.max_file_mb!r}.")

    def allows(self, id: str) -> bool:
        """Return whether the file with this path in the folder is to be read."""
        paths = {id, f"{self.inside}{id}", id.rpartition("/")[2]}
        return (not self.include or _matches(paths, self.include)) and not _matches(paths, self.exclude)

    def reads(self, suffix: str) -> bool:
        """Return whether files with this suffix are read."""
        return suffix in readers.READERS or (self.rows is not None and suffix in ROW_SUFFIXES)

    def choose(self, name: str) -> tuple["FileSelection", str]:
        """Return the selection that applies to the file with this path in the folder, and its path in that one's."""
        places = [place for place in self.below if name == place or name.startswith(f"{place}/")]
        if not places:
            return self, name
        place = max(places, key=len)
        return self.below[place], name.removeprefix(f"{place}/") if name != place else name.rpartition("/")[2]

    def narrow(self, place: str, *, is_file: bool) -> "FileSelection":
        """Return the selection of a subfolder or file of the folder ("": the folder itself)."""
        if not place or place in self.below:
            return self.below.get(place, self)
        folder, inner = place.rpartition("/")[0] if is_file else place, f"{place}/"
        below = {name.removeprefix(inner): each for name, each in self.below.items() if name.startswith(inner)}
        return replace(self, inside=f"{folder}/" if folder else "", below=below)

    def options(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, as JSON, which `restore_selection` reads."""
        default = FileSelection()
        chosen = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _PLACE}
        changed = {name: value for name, value in chosen.items() if value != getattr(default, name)}
        return {
            name: str(value) if isinstance(value, Rows) else list(value) if isinstance(value, tuple) else value
            for name, value in changed.items()
        }

    def flags(self) -> list[str]:
        """Return the flags of commands for the options that differ from their defaults, with their values."""
        options = (
            *(("--include", pattern) for pattern in self.include),
            *(("--exclude", pattern) for pattern in self.exclude),
            ("--encoding", self.encoding),
            ("--max-file-mb", f"{self.max_file_mb:g}" if self.max_file_mb != MAX_FILE_MB else None),
        )
        rows = [] if self.rows is None else ["--rows", *filter(None, [str(self.rows)])]
        words = [word for flag, value in options if value for word in (flag, value)]
        return [*words, *["--ocr"] * self.ocr, *["--skip-stubs"] * self.skip_stubs, *rows]


def restore_selection(options: Mapping[str, Any], inside: str = "") -> FileSelection:
    """Return the selection that `FileSelection.options` describes."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
    }
    if "rows" in values:
        values["rows"] = parse_rows(values["rows"])
    return FileSelection(**values, inside=inside)


@dataclass(frozen=True, slots=True)
class DataReading:
    """How the documents of DATA are read: all that must be known to read them again in the same way.

    `data` is the absolute path that was named, or the name of a generated corpus, and `format` the one that was named.
    Of a git repository, `ref` is what was named in it and `commit` the one that was read. `readers` is their version.
    """

    data: str
    format: str | None = None
    skip_bad: bool | None = None
    selection: FileSelection = field(default_factory=FileSelection)
    ref: str = ""
    commit: str = ""
    readers: str = ""


@dataclass(frozen=True, slots=True)
class NamedOptions:
    """The reading options that a command names. None: it does not, and what is remembered of the source counts."""

    include: Sequence[str] | None = None
    exclude: Sequence[str] | None = None
    encoding: str | None = None
    max_file_mb: float | None = None
    ocr: bool | None = None
    rows: str | None = None
    skip_stubs: bool | None = None

    def change(self, remembered: FileSelection) -> FileSelection:
        """Return the remembered selection with the options that are named. An empty value stands for none of them."""
        changes: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        changes = {name: value for name, value in changes.items() if value is not None}
        for name in {"include", "exclude"} & changes.keys():
            changes[name] = tuple(filter(None, changes[name]))
        if "encoding" in changes:
            changes["encoding"] = changes["encoding"] or None
        if "rows" in changes:
            changes["rows"] = parse_rows(changes["rows"])
        return replace(remembered, **changes)


def _matches(paths: set[str], patterns: Sequence[str]) -> bool:
    composed = [unicodedata.normalize("NFC", pattern) for pattern in patterns]  # as ids are
    return any(fnmatchcase(path, pattern) for path in paths for pattern in composed)
