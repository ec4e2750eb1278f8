"""The sources of an index's documents, and the ids that documents get from them.

An index remembers its sources. The ids of files are relative to the folder that was indexed first, even if one of
its files or subfolders is indexed later. The ids of the first folder or data file have no prefix; every further source
has a name, which is the prefix of its ids. Documents that a program adds keep their own ids.
"""

import os
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePath
from typing import Literal

import regex

from ragindex._util.ids import describe_control, find_spelling, spellings
from ragindex.corpus import Corpus, LeftOut
from ragindex.corpus.file_selection import restore_selection
from ragindex.corpus.git_source import FORMAT as GIT
from ragindex.errors import DataError, UsageError, WorkspaceError
from ragindex.index.manifest import DocumentSource, Manifest, SourceReading
from ragindex.types import Chunking, Document

PROGRAM = "program"
_MOST_LEFT_OUT = 1_000  # files of a source that are remembered
_NAME_PATTERN = regex.compile(r"[\w.+-]+(?: [\w.+-]+)*")


@dataclass(frozen=True, slots=True)
class PlacedDocuments:
    """Documents of one source with their ids in an index.

    They are the source's complete documents below the id prefix `lead`, or those of the file with the id `only`.
    `files` maps the ids of those that were read from files to hashes of these.
    """

    source: str
    lead: str
    documents: tuple[Document, ...]
    only: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def covers(self, id: str) -> bool:
        """Return whether a stored document with this id is obsolete if it is not among `documents`."""
        return id.startswith(self.lead) if self.only is None else id == self.only or id.startswith(f"{self.only}/")


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """The index folder and the command of a request, from which errors build the next command to run."""

    folder: Path
    verb: str = "index"

    def command(self, root: str, name: str = "") -> str:
        """Return the whole command, with `--as name` if a name is given."""
        option = f" --as {shlex.quote(name)}" if name else ""
        return f"ragindex {self.verb} {shlex.quote(root)}{option} --index {shlex.quote(str(self.folder))}"

    def removal(self, name: str) -> str:
        """Return the command that removes a source with its documents."""
        return f"ragindex remove --source {shlex.quote(name)} --index {shlex.quote(str(self.folder))}"


Known = Mapping[str, DocumentSource]


def corpora(given: "Corpus | Iterable[Corpus] | Iterable[Document]", name: str) -> list[Corpus]:
    """Return the input as a list of corpora. Documents made by a program become one corpus without a root."""
    if isinstance(given, Corpus):
        return [given]
    items: list[Corpus | Document] = list(given)
    read = [item for item in items if isinstance(item, Corpus)]
    if read and len(read) == len(items):
        return read
    documents = tuple(item for item in items if isinstance(item, Document))
    return [Corpus(name or PROGRAM, PROGRAM, documents, 0, (), False)]


def place_corpus(known: Known, corpus: Corpus, name: str, asking: SourceRequest) -> tuple[Known, PlacedDocuments]:
    """Assign `corpus` to a source. Returns the sources, including that one, and the documents with their ids.

    Raises UsageError or WorkspaceError, with the next command, if the source needs a name or already has another one.
    """
    if not corpus.root:
        name = name or corpus.name
        source = known.get(name) or DocumentSource(root="", format=PROGRAM)
        if source.root:
            raise UsageError(f"The source {name!r} is {source.root}. Give a program's documents another name: source=…")
        return {**known, name: source}, PlacedDocuments(name, "", corpus.documents)
    owner = find_source(known, corpus)
    _require_no_folder_inside(known, corpus, owner, asking)
    if owner is None:
        owner = _match_moved_source(known, corpus, name) or _name_new_source(known, corpus, name, asking)
        prefix = known[owner].prefix if owner in known else f"{name}/" if name else ""
        reading = known[owner].reading if owner in known else None
        source = DocumentSource(root=corpus.root, format=corpus.format, prefix=prefix, reading=reading)
        known = {**known, owner: source}
    elif name not in ("", owner):
        raise UsageError(
            f"{known[owner].root} is already the source {owner!r}. Leave out --as; to rename it, run: "
            f"{asking.removal(owner)}"
        )
    lead = _build_lead(known[owner], corpus)
    only = lead + corpus.only if corpus.only else None
    files = {lead + id: digest for id, digest in corpus.files.items()}
    return known, PlacedDocuments(owner, lead, tuple(_assign_ids(corpus, lead)), only, files)


def lead(known: Known, corpus: Corpus) -> str:
    """Return the id prefix of a corpus whose source is known, or an empty string."""
    source = find_source(known, corpus) if corpus.root else None
    return "" if source is None else _build_lead(known[source], corpus)


def place_all(
    known: Known, corpora: Iterable[Corpus], name: str, asking: SourceRequest
) -> tuple[Known, list[PlacedDocuments]]:
    """Assign several corpora to sources, as `place_corpus` does, and merge the corpora of one source.

    Raises DataError if a corpus has an id twice or one that cannot be kept, or if two corpora have different documents
    with the same id.
    """
    together: dict[str, PlacedDocuments] = {}
    name = find_spelling(name, known) or unicodedata.normalize("NFC", name)  # as ids of files are
    for corpus in corpora:
        _require_ids(corpus)
        known, placement = place_corpus(known, corpus, name, asking)
        earlier = together.get(placement.source)
        together[placement.source] = placement if earlier is None else _merge_placed(earlier, placement)
    return known, list(together.values())


def require_free(
    owners: Mapping[str, str], earlier: Known, known: Known, placement: PlacedDocuments, asking: SourceRequest
) -> None:
    """Raise WorkspaceError, naming both paths, if another source has a document with the same id.

    `owners` maps the ids of stored documents to their sources. `earlier` are the sources known before this request.
    """
    for document in placement.documents:
        theirs = owners.get(document.id, placement.source)
        if theirs != placement.source:
            raise WorkspaceError(
                f"The id {document.id!r} of {_describe_place(known, placement.source, document.id)} is already used by "
                f"{_describe_place(known, theirs, document.id)} in the index {asking.folder}. "
                f"Nothing was written. {_suggest_fix(known, placement.source, theirs, earlier, asking)}"
            )


def choose_chunking(
    manifest: Manifest | None, corpus: Corpus, *, keep: bool = False
) -> Chunking | Literal["default"] | None:
    """Return the `chunking` argument for opening an index with `corpus`.

    It is "default" (keep the index's chunking) if the index knows the source of `corpus`, or if it exists and
    `keep` is true; otherwise it is the chunking that suits the corpus.
    """
    if manifest is not None and (keep or (corpus.root and find_source(manifest.sources, corpus))):
        return "default"
    return corpus.chunking


def describe_sources(known: Known, owners: Mapping[str, int]) -> list[dict[str, str | int]]:
    """Return one row for each source: name, root, format, id prefix, number of documents, and options of reading."""
    return [
        {
            "name": name,
            "root": source.root,
            "format": source.format,
            "prefix": source.prefix,
            "documents": owners.get(name, 0),
            "options": "" if source.reading is None else _list_flags(source.reading),
        }
        for name, source in known.items()
    ]


def id_of(known: Known, path: str) -> str | None:
    """Return the document id of the file at `path`, or None if it is not in the folder of a known source."""
    folder = os.path.realpath(os.path.dirname(path))
    name = unicodedata.normalize("NFC", os.path.basename(path))
    corpus = Corpus("", "folder", (), 0, (), False, root=folder, only=name)
    return f"{lead(known, corpus)}{name}" if find_source(known, corpus) is not None else None


def find_left_out(known: Known, corpus: Corpus) -> dict[str, LeftOut]:
    """Return the files and folders of a corpus that are there and could not be read, by id."""
    if corpus.format == GIT:
        source = find_source(known, corpus)
        lead = "" if source is None else known[source].prefix
        return {lead + left_out.path: left_out for left_out in corpus.skipped if left_out.path}
    if corpus.format != "folder":
        return {}
    existing = (left_out for left_out in corpus.skipped if left_out.path and _may_exist(left_out.path))
    return {id: left_out for left_out in existing if (id := id_of(known, left_out.path)) is not None}


def record_left_out(known: Known, corpus: Corpus) -> Known:
    """Return the sources with what was left out of `corpus` this time, instead of what was left out of it before."""
    owner = find_source(known, corpus) if corpus.root and corpus.format in ("folder", GIT) else None
    if owner is None:
        return known
    source, lead = known[owner], _build_lead(known[owner], corpus)
    placement = PlacedDocuments(owner, lead, (), lead + corpus.only if corpus.only else None)
    untouched = {lead + name for name in corpus.untouched}
    others = {id: reason for id, reason in source.left_out.items() if id in untouched or not placement.covers(id)}
    passed_over = {lead + name: reason for name, reason in corpus.unread.items()}
    skipped = {id: file.reason for id, file in find_left_out(known, corpus).items()}
    left_out = {**skipped, **others, **passed_over}
    return {**known, owner: source.model_copy(update={"left_out": dict(islice(left_out.items(), _MOST_LEFT_OUT))})}


def file_of(source: DocumentSource, id: str) -> Path | None:
    """Return the file that a document was read from, or None if its source is no folder or the file is gone."""
    if source.format != "folder":
        return None
    files = (Path(source.root, spelled) for spelled in spellings(id.removeprefix(source.prefix)))
    return next((file for file in files if os.path.isfile(file)), None)


# ---------------------------------------------------------------- helpers


def _may_exist(path: str) -> bool:
    """Return whether a path is there, or in a folder that does not say so."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def _list_flags(reading: SourceReading) -> str:
    """Return the options of a source as flags; those of a part stand after its path."""
    flags = {place: shlex.join(restore_selection(options).flags()) for place, options in sorted(reading.parts.items())}
    return "; ".join(f"{place}: {each}" if place else each for place, each in flags.items() if each)


def _require_ids(corpus: Corpus) -> None:
    earlier_ids = set[str]()
    for document in corpus.documents:
        if (control := describe_control(document.id)) is not None:
            raise DataError("document ids without control characters", control)
        if document.id in earlier_ids:
            raise DataError("each document id once", f"the id {document.id!r} twice")
        earlier_ids.add(document.id)


def _merge_placed(first: PlacedDocuments, second: PlacedDocuments) -> PlacedDocuments:
    documents = {document.id: document for document in first.documents}
    for document in second.documents:
        if documents.setdefault(document.id, document) != document:
            raise DataError("each document id once", f"the id {document.id!r} twice, with different texts")
    return PlacedDocuments(first.source, "", tuple(documents.values()), files={**first.files, **second.files})


def find_source(known: Known, corpus: Corpus) -> str | None:
    """Return the name of the source with the root of `corpus`, else that of the innermost folder around it, or None."""
    around = [name for name, source in known.items() if source.root == corpus.root or _contains(source, corpus)]
    return max(around, key=lambda name: len(known[name].root), default=None)


def _contains(outer: DocumentSource | Corpus, inner: DocumentSource | Corpus) -> bool:
    """Return whether both are folders, and one is inside the other."""
    are_folders = outer.format == inner.format == "folder"
    return are_folders and inner.root != outer.root and PurePath(inner.root).is_relative_to(outer.root)


def _build_lead(source: DocumentSource, corpus: Corpus) -> str:
    if corpus.format != "folder":
        return source.prefix
    below = unicodedata.normalize("NFC", PurePath(corpus.root).relative_to(source.root).as_posix())
    return source.prefix + ("" if below == "." else f"{below}/")


def _assign_ids(corpus: Corpus, lead: str) -> Iterator[Document]:
    """Yield the documents with `lead` before their ids; so does the "source" of those of a folder."""
    for document in corpus.documents:
        id, metadata = lead + document.id, document.metadata
        if lead and corpus.format in ("folder", GIT):
            metadata = {**metadata, "source": f"{lead}{metadata['source']}"}
        yield replace(document, id=id, metadata=metadata) if lead else document


def _require_no_folder_inside(known: Known, corpus: Corpus, known_name: str | None, asking: SourceRequest) -> None:
    """Raise WorkspaceError if the folder of `corpus` contains the folder of a source: files would be indexed twice."""
    if corpus.only or corpus.format != "folder":
        return
    for name, source in known.items():
        if name != known_name and _contains(corpus, source):
            raise WorkspaceError(
                f"{corpus.root} contains {source.root}, the source {name!r}, whose files would be indexed twice. "
                f"Nothing was written. Run: {asking.removal(name)}, then this command again."
            )


def _match_moved_source(known: Known, corpus: Corpus, name: str) -> str | None:
    """Return `name` if it is a source of the same kind whose folder or file has moved, else None."""
    source = known.get(name)
    if source is None or (source.format == "folder") != (corpus.format == "folder"):
        return None
    return name if is_gone(source) and os.path.isabs(corpus.root) else None


def _name_new_source(known: Known, corpus: Corpus, name: str, asking: SourceRequest) -> str:
    """Return the name of a new source. Raises WorkspaceError if a name must be given, UsageError if it is invalid."""
    if name in known:
        where = known[name].root or "a program's documents"
        raise UsageError(f"The name {name!r} is that of {where}. Choose another for --as.")
    if name and (_NAME_PATTERN.fullmatch(name) is None or name in (".", "..")):
        raise UsageError(f"--as must be a name of letters, digits, and . + - _ between them. Got {name!r} instead.")
    first = next((other for other, source in known.items() if source.root and not source.prefix), None)
    free = _find_free_name(known, PurePath(corpus.root).name if corpus.format == "folder" else corpus.name)
    if name or first is None:
        return name or free
    earliest = known[first]
    moved = f"; if it was moved here, run: {asking.command(corpus.root, first)}" if is_gone(earliest) else ""
    lost = f", which is not there any more{moved}" if moved else ""
    raise WorkspaceError(
        f"The index {asking.folder} has the documents of {earliest.root}{lost}. Those of {corpus.root} need a name, "
        f"which their ids begin with, or another --index. Nothing was written. "
        f"Run: {asking.command(os.path.join(corpus.root, corpus.only) if corpus.only else corpus.root, free)}"
    )


def is_gone(source: DocumentSource) -> bool:
    """Return whether the folder or file of a source is not there any more."""
    return os.path.isabs(source.root) and not os.path.exists(source.root)


def _find_free_name(known: Known, name: str) -> str:
    """Return `name` with invalid characters replaced, or the first of name-2, name-3, … that is not in use."""
    name = str(regex.sub(r"[^\w.+-]+", "-", name)).strip("-.") or "data"
    number, free = 1, name
    while free in known:
        number += 1
        free = f"{name}-{number}"
    return free


def _describe_place(known: Known, name: str, id: str) -> str:
    source = known[name]
    if not source.root:
        return f"the documents that a program added as {name!r}"
    return str(Path(source.root, id.removeprefix(source.prefix))) if source.format == "folder" else source.root


def _suggest_fix(known: Known, ours: str, theirs: str, earlier: Known, asking: SourceRequest) -> str:
    """Return the advice that resolves an id clash: name the new source, or rename the other one."""
    if not known[ours].root:
        return "Give that document another id."
    if ours not in earlier:
        return f"Run: {asking.command(known[ours].root, _find_free_name(known, ours))}"
    if not known[theirs].root:
        return f"Run: {asking.removal(theirs)}, or give it another id in the program."
    again = asking.command(known[theirs].root, _find_free_name(known, theirs))
    return f"Run: {asking.removal(theirs)}, then: {again}"
