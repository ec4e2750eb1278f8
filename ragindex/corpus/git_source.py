"""Documents from a commit of a git repository: of a clone on this machine, without its working tree.

The repository is not trusted. Only plumbing commands run, without hooks, filters, external programs and network, and
nothing of it is written to disk: names are ids, and links and submodules are passed over.
"""

import hashlib
import os
import subprocess
import unicodedata
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote, urlsplit

import regex

from ragindex._util.distribution import require_all_installed
from ragindex._util.progress import progress_bar
from ragindex._util.redaction import hide_secrets
from ragindex.corpus import readers
from ragindex.corpus.corpus import Corpus, Gathered, RawDocument, gather
from ragindex.corpus.file_selection import DataReading, FileSelection
from ragindex.corpus.json_reader import Item, Problems
from ragindex.corpus.local_files import (
    GENERATED_FOLDERS,
    OCR_LIMITS,
    FolderListing,
    find_suffix,
    names_questions,
    read_raw,
    require_size,
    take_content,
)
from ragindex.corpus.readers import DOCUMENT_SUFFIXES
from ragindex.corpus.readers.content import FileContent
from ragindex.corpus.readers.pdf import OCR_PACKAGES
from ragindex.corpus.readers.process import ReadingLimits
from ragindex.corpus.reading_processes import ReadingProcesses
from ragindex.errors import DataError, UsageError
from ragindex.types import COMMIT, MODIFIED, MetadataValue

FORMAT = "git"
_SCHEME = "git+file"
_SECONDS = 600.0  # of one command
_SAFE = (
    *("--no-pager", "--literal-pathspecs", "--no-replace-objects", "--no-optional-locks"),
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.attributesFile=/dev/null"),
    *("-c", "core.sshCommand=false", "-c", "protocol.allow=never", "-c", "core.alternateRefsCommand=true"),
    *("-c", "log.showSignature=false", "-c", "diff.renames=false", "-c", "core.quotePath=false"),
)
_ENVIRONMENT = {
    **{"GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"},
    **{"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
}
_PASSED_VARIABLES = ("PATH", "HOME", "USERPROFILE", "SYSTEMROOT", "XDG_CONFIG_HOME")
_COMMIT_NAME = regex.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LINK, _SUBMODULE = "120000", "160000"
_LIBRARIES = (
    *("html-to-markdown", "markdown-it-py", "office-oxide", "pypdfium2", "python-calamine", "python-oxmsg", "pyyaml"),
    *("charset-normalizer", "regex"),
)


@dataclass(frozen=True, slots=True)
class GitAddress:
    """A folder of a git repository: the path of a clone, or in it, and a `folder` below that."""

    path: Path
    folder: str = ""

    def __str__(self) -> str:
        fragment = f"#subdirectory={quote(self.folder)}" if self.folder else ""
        return f"{_SCHEME}://{quote(self.path.as_posix())}{fragment}"


@dataclass(frozen=True, slots=True)
class _TreeFile:
    """A file in a commit: its name is the path in the folder that is read; `size` is None if the clone lacks it."""

    mode: str
    blob: str
    size: int | None
    name: str


def parse_address(data: str, ref: str | None = None) -> GitAddress | None:
    """Return the address that `git+file:///CLONE#subdirectory=FOLDER` names, or, with a `ref`, a path in a clone.

    None for other data. Raises UsageError for an address of another machine.
    """
    scheme, colon, _ = data.partition(":")
    if scheme.startswith("git+") and colon:
        parts = urlsplit(data)
        if scheme != _SCHEME or parts.netloc not in ("", "localhost"):
            raise UsageError(
                f"Only clones on this machine are read: git+file:///CLONE. Got {hide_secrets(data)}. "
                "Clone it first: git clone ADDRESS CLONE"
            )
        folder = parts.fragment.removeprefix("subdirectory=") if parts.fragment else ""
        return GitAddress(Path(os.path.realpath(unquote(parts.path))), unquote(folder).strip("/"))
    return None if ref is None else GitAddress(Path(os.path.realpath(data)))


def read_repository(
    address: GitAddress, *, ref: str | None, skip_bad: bool | None, selection: FileSelection, since: str = ""
) -> Corpus:
    """Read the documents of a commit; `ref` names it (None: HEAD). Raises DataError, UsageError, MissingExtraError.

    If the commit `since` is there, only files that have changed since then are read; the others are `untouched`.
    """
    git = _Git(address.path)
    inside = git.run("rev-parse", "--show-prefix").decode("utf-8", "surrogateescape").rstrip("\n").rstrip("/")
    folder = "/".join(filter(None, (inside, address.folder)))
    commit = _resolve(git, ref or "HEAD", address)
    problems, listing = Problems(skip_bad is not False), FolderListing()
    files = list(_list_files(git, commit, folder, selection, problems, listing))
    changed = _list_changed(git, since, commit, folder) if since else None
    untouched = frozenset[str]() if changed is None else frozenset(each.name for each in files) - changed
    changed_files = [each for each in files if each.name not in untouched]
    if any(each.ocr for each in (selection, *selection.below.values())):
        require_all_installed(OCR_PACKAGES, "--ocr")
    names = [file.name for file in changed_files]
    changes = _find_last_changes(git, [commit, f"^{since}"], folder, names) if changed is not None else {}
    changes |= _find_last_changes(git, [commit], folder, [name for name in names if name not in changes])
    gathered = _CommitReader(git, selection, listing, changes).read(changed_files, problems)
    if not files:
        suffixes = Counter(listing.ignored.values()).most_common(10)
        suffix_counts = ", ".join(f"{count} {suffix or 'without a suffix'}" for suffix, count in suffixes)
        excluded = f" ({len(listing.excluded):,} excluded)" if listing.excluded else ""
        got = f"only {suffix_counts}" if suffix_counts else f"no files in the commit {commit[:12]}"
        raise DataError(
            f"a commit with files ending in {', '.join(DOCUMENT_SUFFIXES)}",
            got + excluded,
            path=Path(folder or str(address)),
        )
    day = git.run("rev-list", "--no-walk", "--format=%cI", commit, "--").decode().split("\n")[1][:10]
    return Corpus(
        name=PurePosixPath(folder).name or address.path.name.removesuffix(".git"),
        format=FORMAT,
        documents=gathered[0],
        repeats=gathered[1],
        skipped=problems.left_out,
        undivided=False,
        ignored=Counter(listing.ignored.values()),
        root=str(address),
        notes=(f"commit {commit[:12]} of {ref or 'HEAD'}, {day}", *listing.notes()),
        unread=listing.unread(),
        files=listing.digests,
        reading=DataReading(str(address), None, skip_bad, selection, ref or "", commit, readers_version()),
        untouched=untouched,
    )


@cache
def readers_version() -> str:
    """Return a hash of our readers and the versions of their libraries: a file is read again when it has changed."""
    sources = sorted(Path(readers.__file__).parent.glob("*.py"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources))
    for name in _LIBRARIES:
        try:
            digest.update(f"{name} {version(name)}".encode())
        except PackageNotFoundError:
            continue
    return digest.hexdigest()[:16]


# ---------------------------------------------------------------- git


class _Git:
    """Runs plumbing commands of git in a repository that is not trusted."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise DataError("a clone of a git repository", "no such folder", path=path)
        self.path = path

    def run(self, *arguments: str, given: bytes | None = None) -> bytes:
        """Return what a command prints. Raises DataError with what it says of an error."""
        with self.start(*arguments, piped=given is not None) as process:
            try:
                out, error = process.communicate(given, timeout=_SECONDS)
            except subprocess.TimeoutExpired as late:
                raise DataError("an answer of git", f"none in {_SECONDS:g} s", path=self.path) from late
        if process.returncode:
            raise self.explain(error.decode("utf-8", "replace"))
        return out

    @contextmanager
    def start(
        self, *arguments: str, piped: bool = True, errors: int = subprocess.PIPE
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """Start a command, and end it with the block. Raises UsageError if git is not installed."""
        environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        command = ["git", *_SAFE, "-C", str(self.path), *arguments]
        source = subprocess.PIPE if piped else subprocess.DEVNULL
        try:
            process = subprocess.Popen(  # noqa: S603  # no shell, and options end before what others have named
                command,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment | _ENVIRONMENT,
            )
        except FileNotFoundError as error:
            raise UsageError(
                "git is not installed, which reads repositories. Install it, or index a folder."
            ) from error
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def explain(self, message: str) -> DataError:
        """Return what git says as an error."""
        if "dubious ownership" in message or "safe.directory" in message:
            trust = f"git config --global --add safe.directory {self.path}"
            return DataError(
                "a repository of this user", f"one of another user. If you trust it, run: {trust}", path=self.path
            )
        if "not a git repository" in message:
            return DataError("a clone of a git repository", "a folder that is none, nor in one", path=self.path)
        reason = hide_secrets(message.strip().rpartition("\n")[2].removeprefix("fatal: "))
        return DataError("a git repository that can be read", reason or "an error of git", path=self.path)


def _resolve(git: _Git, ref: str, address: GitAddress) -> str:
    """Return the commit that `ref` names. Raises UsageError if it names none."""
    if ref.startswith("-"):
        raise UsageError(f"--ref must be a branch, tag or commit. Got {ref!r} instead.")
    try:
        commit = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
    except DataError as error:
        if error.found != "an error of git":
            raise
        raise UsageError(f"{address} has no branch, tag or commit {ref!r}.") from error
    return commit.rpartition("\n")[2]


def _list_files(
    git: _Git, commit: str, folder: str, selection: FileSelection, problems: Problems, listing: FolderListing
) -> Iterator[_TreeFile]:
    """Yield the files of a commit that are read. What is passed over is noted in the listing."""
    tree = git.run("ls-tree", "-r", "-z", "--full-tree", commit, "--", *([f"{folder}/"] if folder else []))
    lines = [line.partition(b"\t")[::2] for line in filter(None, tree.split(b"\0"))]
    sizes = _find_sizes(git, [head.split()[2] for head, _ in lines])
    for head, path in lines:
        mode, _, blob = head.decode().split()
        name = path.decode("utf-8", "surrogateescape").removeprefix(f"{folder}/" if folder else "")
        if any(part.startswith(".") for part in name.split("/")):
            continue
        try:
            name.encode()
        except UnicodeEncodeError:
            readable_path = path.decode("utf-8", "replace")
            problems.note(DataError("a file name in UTF-8", repr(readable_path), path=Path(readable_path)))
            continue
        name = unicodedata.normalize("NFC", name)
        file = _TreeFile(mode, blob, sizes.get(blob), name)
        if _list_file(file, selection, listing):
            yield file


def _find_sizes(git: _Git, blobs: Sequence[bytes]) -> dict[str, int]:
    """Return the sizes of files. A clone may lack some: with `--filter=blob:none` git would fetch them."""
    output = git.run("cat-file", "--batch-check", given=b"".join(blob + b"\n" for blob in blobs))
    answers = (line.split() for line in output.decode("utf-8", "replace").split("\n"))
    return {answer[0]: int(answer[2]) for answer in answers if len(answer) == 3 and answer[1] == "blob"}


def _list_file(file: _TreeFile, selection: FileSelection, listing: FolderListing) -> bool:
    own, inner_name = selection.choose(file.name)
    path = PurePosixPath(file.name)
    suffix = find_suffix(Path(file.name))
    if file.mode in (_LINK, _SUBMODULE):
        (listing.outside if file.mode == _LINK else listing.submodules).append(file.name)
    elif not GENERATED_FOLDERS.isdisjoint(path.parts[:-1]):
        listing.generated.append(file.name)
    elif not own.reads(suffix):
        listing.ignored[file.name] = suffix
    elif not own.allows(inner_name):
        listing.excluded.append(file.name)
    elif suffix not in DOCUMENT_SUFFIXES and file.size == 0:
        listing.empty.append(file.name)
    else:
        return True
    return False


def _list_changed(git: _Git, since: str, commit: str, folder: str) -> frozenset[str] | None:
    """Return the files that differ between two commits; None if the first is not there any more."""
    if not _COMMIT_NAME.fullmatch(since):
        return None
    try:
        paths = git.run(
            *("diff-tree", "-r", "-z", "--no-renames", "--name-only", "--no-ext-diff", "--no-textconv"),
            *(since, commit, "--", *([f"{folder}/"] if folder else [])),
        )
    except DataError:  # rewritten history, and cleaned up
        return None
    names = (path.decode("utf-8", "surrogateescape") for path in paths.split(b"\0"))
    return frozenset(unicodedata.normalize("NFC", name.removeprefix(f"{folder}/" if folder else "")) for name in names)


def _find_last_changes(
    git: _Git, commits: Sequence[str], folder: str, names: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return the commit that changed each file last, with its day; of as many as the history tells.

    The history of `commits` (^COMMIT: without that of this one) is walked back until all are found.
    """
    if not names:
        return {}
    missing, changes = set(names), dict[str, tuple[str, str]]()
    below = ["--", *([f"{folder}/"] if folder else [])]
    lines = git.run("rev-list", "--no-merges", "--format=%ct", *commits, *below).decode().split("\n")
    days = {
        line.removeprefix("commit "): datetime.fromtimestamp(int(seconds), UTC).date().isoformat()
        for line, seconds in zip(lines[::2], lines[1::2], strict=False)
        if seconds
    }
    walking = iter(days)
    while missing and (batch := list(islice(walking, 500))):
        input_lines = "\n".join(batch).encode() + b"\n"
        options = ("--stdin", "-r", "--root", "-z", "--no-renames", "--name-only", "--no-ext-diff", "--no-textconv")
        current = ""
        for word in git.run("diff-tree", *options, *below, given=input_lines).split(b"\0"):
            text = word.decode("utf-8", "surrogateescape")
            if _COMMIT_NAME.fullmatch(text.rstrip("\n")) and text.rstrip("\n") in days:
                current = text.rstrip("\n")
                continue
            name = unicodedata.normalize("NFC", text.removeprefix(f"{folder}/" if folder else ""))
            if name in missing:
                missing.discard(name)
                changes[name] = (current, days[current])
    return changes


@dataclass(frozen=True, slots=True)
class _CommitReader:
    """Reads files of a commit; `changes` are the commit and the day of the last change of each."""

    git: _Git
    selection: FileSelection
    listing: FolderListing
    changes: Mapping[str, tuple[str, str]]

    def read(self, files: Sequence[_TreeFile], problems: Problems) -> Gathered:
        """Return the documents of files."""
        with closing(self._parse(files)) as contents:
            return gather(chain.from_iterable(problems.each(lambda pair: self._take(*pair), contents)), problems)

    def _parse(self, files: Sequence[_TreeFile]) -> Generator[tuple[FileContent | DataError, _TreeFile], None, None]:
        with (
            progress_bar("reading files", len(files)) as advance,
            ReadingProcesses() as processes,
            self.git.start("cat-file", "--batch", errors=subprocess.DEVNULL) as blobs,
        ):

            def parse(pair: tuple[_TreeFile, bytes | DataError]) -> tuple[FileContent | DataError, _TreeFile]:
                file, raw = pair
                own, _ = self.selection.choose(file.name)
                if isinstance(raw, DataError):
                    return raw, file
                try:
                    limits = OCR_LIMITS if own.ocr else ReadingLimits()
                    return read_raw(raw, Path(file.name), own, limits, processes), file
                except DataError as error:
                    return error, file

            for result in processes.map(parse, self._fetch(files, blobs)):
                advance(1)
                yield result

    def _fetch(
        self, files: Sequence[_TreeFile], blobs: "subprocess.Popen[bytes]"
    ) -> Iterator[tuple[_TreeFile, bytes | DataError]]:
        for file in files:
            raw = _read_blob(blobs, file, self.selection.choose(file.name)[0])
            if file.name.lower().endswith((".csv", ".tsv")) and isinstance(raw, bytes) and names_questions(raw):
                self.listing.questions.append(file.name)
            else:
                yield file, raw

    def _take(self, read: FileContent | DataError, file: _TreeFile) -> list[RawDocument]:
        if isinstance(read, DataError):
            raise read
        metadata: Mapping[str, MetadataValue] = {}
        if file.name in self.changes:
            commit, day = self.changes[file.name]
            metadata = {MODIFIED: day, COMMIT: commit}
        return take_content(read, file.name, Path(file.name), metadata, self.selection, self.listing)


def _read_blob(blobs: "subprocess.Popen[bytes]", file: _TreeFile, selection: FileSelection) -> bytes | DataError:
    """Return the content of a file, or why it is left out."""
    lacking = DataError("a file that can be read", "an object that the clone lacks", path=Path(file.name))
    if file.size is None or blobs.stdin is None or blobs.stdout is None:
        return lacking
    try:
        require_size(file.size, selection, Item({}, Path(file.name)))
    except DataError as error:
        return error
    blobs.stdin.write(f"{file.blob}\n".encode())
    blobs.stdin.flush()
    head = blobs.stdout.readline().split()
    if len(head) != 3 or head[1] != b"blob":
        return lacking
    raw = blobs.stdout.read(int(head[2]))
    blobs.stdout.read(1)
    return raw
