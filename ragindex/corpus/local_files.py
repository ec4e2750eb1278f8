"""Reading the documents of a folder, which others may have filled, or of one file."""

import hashlib
import math
import os
import stat
import unicodedata
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

import regex

from ragindex._util.distribution import require_all_installed
from ragindex._util.ids import is_row
from ragindex._util.progress import progress_bar
from ragindex._util.text import MAX_NAMED, first_names
from ragindex.corpus.corpus import MOST_LISTED, NO_TEXT, Gathered, RawDocument, explain_ignored, gather, name_files
from ragindex.corpus.file_selection import FileSelection
from ragindex.corpus.json_reader import Item, Problems, read_bounded, unreadable_error
from ragindex.corpus.readers import DOCUMENT_SUFFIXES, READERS, name_reader
from ragindex.corpus.readers.content import FileContent
from ragindex.corpus.readers.meter import LEAST_SHARE
from ragindex.corpus.readers.pdf import OCR_PACKAGES
from ragindex.corpus.readers.plain_text import read_source_code, read_text
from ragindex.corpus.readers.process import ReadingLimits
from ragindex.corpus.readers.text_encodings import check_encoding
from ragindex.corpus.reading_processes import ReadingProcesses
from ragindex.corpus.stubs import describe_stubs, is_stub
from ragindex.errors import DataError
from ragindex.types import MODIFIED, MetadataValue

SUFFIXES = tuple(READERS)
"""The suffixes of files that can be read."""
_TEXT_NAMES = frozenset(
    (
        *("AUTHORS", "CHANGELOG", "CHANGES", "CONTRIBUTING", "COPYING", "Dockerfile", "HISTORY", "INSTALL", "LICENCE"),
        *("LICENSE", "Makefile", "NEWS", "NOTICE", "README"),
    )
)
_HEADER_BYTES = 4096
OCR_LIMITS = ReadingLimits(3_600, 4_000_000_000)  # a page takes seconds
READ_SHARE = "read_share"
"""Metadata key of the share of a file's words that was read, where it is too low."""
KnownFiles: TypeAlias = Mapping[str, Set[str]]
"""The hashes of the files that documents were read from, by name; two where documents of a file differ in it."""
NO_FILES: KnownFiles = MappingProxyType({})
_SMALL = 1_000_000  # bytes of a text that is read in this process: nothing in it is parsed
PassedOver: TypeAlias = Literal["links", "outside", "special", "generated"]
"""Why a walk passes over a link to a folder, a link out of the folder, a file without content, a generated folder."""
GENERATED_FOLDERS = frozenset(("__pycache__", "node_modules", "site-packages"))


@dataclass(slots=True)
class FolderListing:
    """The files of a folder that can be read, and the names of what is passed over; of `ignored`, with suffixes."""

    files: list[Path] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)
    excluded: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    special: list[str] = field(default_factory=list)
    submodules: list[str] = field(default_factory=list)
    generated: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    stubs: list[str] = field(default_factory=list)
    """The pages that were read and only say where their content is now."""
    skipped_stubs: list[str] = field(default_factory=list)
    remarks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What readers say of files that they read, by name."""
    digests: dict[str, str] = field(default_factory=dict)
    """The hash of the file of each document, by id."""
    untouched: frozenset[str] = frozenset()
    """The names of files that were not read, as their contents are known."""

    @property
    def foreign(self) -> Mapping[str, list[str]]:
        """The names of what may lead out of the folder, by what it is."""
        return {
            "links to folders, which are not followed": self.links,
            "links to files outside of the folder": self.outside,
            "named pipes, devices and sockets": self.special,
            "submodules": self.submodules,
        }

    @property
    def _kinds(self) -> Mapping[str, list[str]]:
        return {
            **self.foreign,
            "generated files": self.generated,
            "empty files of source code": self.empty,
            "files of questions": self.questions,
            "pages whose content has moved": self.skipped_stubs,
        }

    def notes(self) -> tuple[str, ...]:
        """Return a sentence per kind of what is passed over."""
        passed = [f"passed over: {what}: {name_files(names)}" for what, names in self._kinds.items() if names]
        remarks = [f"{name}: {remark}" for name, notes in self.remarks.items() for remark in notes]
        if len(remarks) > MOST_LISTED:
            more = f"and {len(remarks) - MAX_NAMED:,} more notes on files. All of them: ragindex read FOLDER"
            remarks = [*remarks[:MAX_NAMED], more]
        excluded = [f"excluded: {_count_files(len(self.excluded))}"] if self.excluded else []
        stubs = [describe_stubs(self.stubs)] if self.stubs else []
        return (*excluded, *passed, *stubs, *remarks)

    def unread(self) -> dict[str, str]:
        """Return why each file or folder is passed over, by name."""
        return {
            **{name: f"one of the {what}" for what, names in self._kinds.items() for name in names},
            **dict.fromkeys(self.excluded, "excluded by --include or --exclude"),
            **{name: explain_ignored(suffix) for name, suffix in self.ignored.items()},
        }


def read_folder(
    path: Path,
    problems: Problems,
    selection: FileSelection | None = None,
    limits: ReadingLimits | None = None,
    known: KnownFiles = NO_FILES,
) -> tuple[Gathered, FolderListing]:
    """Read the documents of a folder or of one file; also return the files, read and passed over.

    Hidden files and folders are skipped. A document's id is its path relative to the folder, with slashes, in Unicode's
    normal form C. `limits` are those of reading one file. Of files with `known` contents only the bytes are compared;
    they are `untouched`. Raises DataError if the folder has no supported file, and MissingExtraError.
    """
    selection = selection or FileSelection()
    listing = list_folder(path, problems, selection)
    root = path if path.is_dir() else path.parent
    names = {file: name_file(file, root) for file in listing.files} if known else {}
    listing.untouched = frozenset(name for file, name in names.items() if _is_known(file, name, selection, known))
    changed = [file for file in listing.files if names.get(file) not in listing.untouched]

    def take(read: FileContent | DataError, file: Path) -> list[RawDocument]:
        if isinstance(read, DataError):
            raise read
        day = datetime.fromtimestamp(_get_status(file).st_mtime, UTC).date().isoformat()
        return take_content(read, name_file(file, root), file, {MODIFIED: day}, selection, listing)

    with closing(read_files(changed, root, selection, limits)) as contents:
        files = problems.each(lambda pair: take(*pair), contents)
        return gather(chain.from_iterable(files), problems), listing


def take_content(
    read: FileContent,
    name: str,
    file: Path,
    metadata: Mapping[str, MetadataValue],
    selection: FileSelection,
    listing: FolderListing,
) -> list[RawDocument]:
    """Return the documents of what was read of a file, with its `metadata`, and note in the listing what it says."""
    if is_stub(read):
        if selection.choose(name)[0].skip_stubs:
            listing.skipped_stubs.append(name)
            return []
        listing.stubs.append(name)
    if read.notes:
        listing.remarks[name] = read.notes
    documents = _list_documents(read, name, file, metadata)
    listing.digests.update((document.id, read.digest) for document in documents if document.id is not None)
    return documents


def list_folder(path: Path, problems: Problems, selection: FileSelection) -> FolderListing:
    """Return the files of a folder, or one file. Raises DataError if none of them is supported."""
    if path.is_dir():
        listing = FolderListing()

        def pass_over(passed: Path, why: PassedOver) -> None:
            name, suffix = name_file(passed, path), find_suffix(passed)
            if why in ("outside", "special") and not selection.choose(name)[0].reads(suffix):
                listing.ignored[name] = suffix
            else:
                getattr(listing, why).append(name)

        for file in walk_files(path, problems, pass_over):
            _list_file(file, path, selection, listing)
    elif selection.reads(suffix := find_suffix(path)):
        listing = FolderListing(files=[path])
    else:
        listing = FolderListing(ignored={path.name: suffix})
    if not listing.files:
        suffixes = Counter(listing.ignored.values()).most_common(10)
        kinds = ((count, suffix or "without a suffix") for suffix, count in suffixes)
        kind_counts = ", ".join(f"{count} {kind}" for count, kind in kinds)
        expected = f"a folder with files ending in {', '.join(DOCUMENT_SUFFIXES)}, or in a suffix of source code"
        got = f"only {kind_counts}" if kind_counts else "no files"
        got += "".join(f"; {what}: {first_names(names)}" for what, names in listing.foreign.items() if names)
        chosen = f" ({_count_files(len(listing.excluded))} excluded)" if listing.excluded else ""
        raise DataError(expected, got + chosen, path=path)
    return listing


def read_files(
    files: Sequence[Path], root: Path, selection: FileSelection, limits: ReadingLimits | None = None
) -> Generator[tuple[FileContent | DataError, Path], None, None]:
    """Yield what is read of each file, or why it cannot be read, in order. Raises MissingExtraError."""
    if any(each.ocr for each in (selection, *selection.below.values())):
        require_all_installed(OCR_PACKAGES, "--ocr")
    with progress_bar("reading files", len(files)) as advance, ReadingProcesses() as processes:

        def read(file: Path) -> tuple[FileContent | DataError, Path]:
            name = name_file(file, root)
            own, _ = selection.choose(name)
            most = limits or (OCR_LIMITS if own.ocr else ReadingLimits())
            try:
                item = Item({}, file)
                item.unicode(name, "a file name")
                return read_raw(_read_bytes(file, own, item), file, own, most, processes), file
            except DataError as error:
                return error, file

        for result in processes.map(read, files):
            advance(1)
            yield result


def _list_file(file: Path, root: Path, selection: FileSelection, listing: FolderListing) -> None:
    suffix, name = find_suffix(file), name_file(file, root)
    selection, inner_name = selection.choose(name)
    if not selection.reads(suffix):
        listing.ignored[name] = suffix
    elif file.name == "searchindex.js" and (file.parent / "search.html").is_file():
        listing.generated.append(name)  # of HTML that Sphinx made: the words of all pages
    elif not selection.allows(inner_name):
        listing.excluded.append(name)
    elif suffix in (".csv", ".tsv") and _has_questions(file):
        listing.questions.append(name)
    elif suffix not in DOCUMENT_SUFFIXES and _is_empty(file):
        listing.empty.append(name)
    else:
        listing.files.append(file)


def find_suffix(file: Path) -> str:
    """Return the suffix that says how a file is read: that of text for README and others that have none."""
    return ".txt" if file.name in _TEXT_NAMES else file.suffix.lower()


def name_reader_of(file: Path) -> str:
    """Return the library that reads a file ("own": none)."""
    return name_reader(find_suffix(file))


def is_taken_whole(file: Path) -> bool:
    """Return whether the text of a file is all that stands in it: it is text without markup, or source code."""
    return READERS.get(find_suffix(file)) in (read_text, read_source_code)


def _is_empty(file: Path) -> bool:
    try:
        return file.stat().st_size == 0
    except OSError:
        return False  # reported when it is read


def _has_questions(file: Path) -> bool:
    """Return whether a table has questions and their gold, which must not be among the documents."""
    try:
        with file.open("rb") as opened:
            return names_questions(opened.read(_HEADER_BYTES))
    except OSError:
        return False  # reported when it is read


def names_questions(raw: bytes) -> bool:
    """Return whether the header of a table is that of questions and their gold."""
    header = raw[:_HEADER_BYTES].lstrip(b"\xef\xbb\xbf").partition(b"\n")[0]
    columns = {column.strip(b" \r\"'").lower() for column in regex.split(rb"[,;\t|]", header)}
    return {b"question", b"documents"} <= columns


def _is_known(file: Path, name: str, selection: FileSelection, known: KnownFiles) -> bool:
    """Return whether the bytes of a file are those that its documents were read from. False if it cannot be read."""
    if name not in known:
        return False
    try:
        raw = _read_bytes(file, selection.choose(name)[0], Item({}, file))
    except DataError:
        return False  # reported when it is read
    return known[name] == {_compute_digest(raw)}


def _read_bytes(file: Path, selection: FileSelection, item: Item) -> bytes:
    require_size(_get_status(file).st_size, selection, item)
    most_bytes = int(selection.max_file_mb * 1e6)
    return read_bounded(Path(os.path.realpath(file)) if file.is_symlink() else file, most_bytes)


def require_size(size: int, selection: FileSelection, item: Item) -> None:
    """Raise DataError if a file of so many bytes is too large."""
    if size > int(selection.max_file_mb * 1e6):
        limit = f"a file of at most {selection.max_file_mb:g} MB (or leave it out with --exclude)"
        raise item.error(limit, f"{size / 1e6:.4g} MB; to read it: --max-file-mb {math.ceil(size / 1e6)}")


def read_raw(
    raw: bytes, file: Path, selection: FileSelection, limits: ReadingLimits, processes: ReadingProcesses
) -> FileContent:
    """Return what is read of the bytes of a file, whose name says how. Raises DataError."""
    item = Item({}, file)
    suffix, encoding = find_suffix(file), check_encoding(selection.encoding)
    if len(raw) <= _SMALL and is_taken_whole(file):
        read = READERS[suffix](raw, file, encoding)
    else:
        read = processes.read(raw, file, suffix, encoding, limits, selection.ocr, selection.rows)
    if not read.text.strip() and not read.inner:
        raise item.error(NO_TEXT, "none")
    return replace(read, digest=_compute_digest(raw))


def _compute_digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]


def _list_documents(
    read: FileContent, name: str, file: Path, metadata: Mapping[str, MetadataValue]
) -> list[RawDocument]:
    """Return the document of a file, unless it has no text of its own, and those inside of it as `FILE/NAME`."""
    own: dict[str, MetadataValue] = {"source": name, **metadata}
    if read.reading is not None and read.reading.share < LEAST_SHARE:
        own[READ_SHARE] = math.floor(100 * read.reading.share) / 100
    parts = [("", read.title or file.stem, read)] if read.text.strip() else []
    parts += [(f"/{inner}", content.title or inner.rpartition("/")[2], content) for inner, content in read.inner]
    return [
        RawDocument(
            name + inner,
            title,
            content.text,
            # a row did not change when another one did
            {**content.metadata, **({"source": name} if is_row(name + inner) else own)},
            Item({}, Path(f"{file}{inner}") if inner else file),
            content.sections,
            content.blocks,
        )
        for inner, title, content in parts
    ]


def name_file(file: Path, root: Path) -> str:
    """Return the path of a file in the folder, in the normal form that questions and other systems write it in."""
    return unicodedata.normalize("NFC", file.relative_to(root).as_posix())


def _get_status(file: Path) -> os.stat_result:
    try:
        return file.stat()
    except OSError as error:
        raise unreadable_error(file, error) from error


def _count_files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def walk_files(
    top: Path, problems: Problems, pass_over: Callable[[Path, PassedOver], None] = lambda path, why: None
) -> Iterator[Path]:
    """Yield the regular files of a folder and its subfolders, sorted by name, without hidden ones.

    `pass_over` is called with other files and with folders that are not entered. A folder that cannot be read is one of
    the problems.
    """

    def note(error: OSError) -> None:
        problems.note(unreadable_error(Path(error.filename), error))

    root = os.path.realpath(top)
    for current, folders, names in os.walk(top, onerror=note):
        entered = []
        for folder in (Path(current, name) for name in sorted(folders) if not name.startswith(".")):
            if why := _judge_folder(folder):
                pass_over(folder, why)
            else:
                entered.append(folder.name)
        folders[:] = entered
        for file in (Path(current, name) for name in sorted(names) if not name.startswith(".")):
            if why := _judge_file(file, root):
                pass_over(file, why)
            else:
                yield file


def is_file_within(file: Path, folder: Path) -> bool:
    """Return whether `file` is a regular file, and no link out of the folder."""
    return os.path.isfile(file) and _judge_file(file, os.path.realpath(folder)) is None


def _judge_folder(folder: Path) -> PassedOver | None:
    if folder.is_symlink():
        return "links"
    if folder.name in GENERATED_FOLDERS or os.path.isfile(folder / "pyvenv.cfg"):
        return "generated"
    if folder.name == "_sources" and os.path.isdir(folder.parent / "_static"):
        return "generated"  # of HTML that Sphinx made: each page once more, as it was written
    if folder.name == "_static" and os.path.isfile(folder.parent / "search.html"):
        return "generated"  # of the same: scripts and styles of its theme
    return None


def _judge_file(file: Path, root: str) -> PassedOver | None:
    """Return why a file is passed over; None too if it is not there, which is reported when it is read."""
    try:
        mode = file.lstat().st_mode
        if stat.S_ISLNK(mode):
            target = Path(os.path.realpath(file))
            if not target.is_relative_to(root):
                return "outside"
            mode = target.stat().st_mode
    except OSError:
        return None
    return None if stat.S_ISREG(mode) else "special"
