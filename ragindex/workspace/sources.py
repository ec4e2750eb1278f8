"""Where the documents of a workspace come from, and which ids they have there.

A workspace remembers its sources. The ids of a folder's files are relative to the folder that was named first,
whichever of its files or folders is named later. One folder or file of data gives ids without a prefix; every further
one has a name, which its ids begin with. Documents that a program adds keep the ids it gives them.
"""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Literal

import regex

from ragindex.corpus import Corpus
from ragindex.errors import DataError, UsageError, WorkspaceError
from ragindex.types import Document
from ragindex.workspace.manifest import DocumentSource, Manifest

PROGRAM = "program"
_NAME = regex.compile(r"[\w.+-]+(?: [\w.+-]+)*")


@dataclass(frozen=True, slots=True)
class Placed:
    """Documents of one source with their ids in a workspace.

    They are all documents of the source whose ids begin with `lead`; with `only`, that one document alone.
    """

    source: str
    lead: str
    documents: tuple[Document, ...]
    only: str | None = None

    def covers(self, id: str) -> bool:
        """Whether a document of the source with this id is gone where it is not among these."""
        return id.startswith(self.lead) if self.only is None else id == self.only


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """Who asks, for the commands in errors: the workspace's folder, and the command that is to be run again."""

    folder: Path
    verb: str = "index"

    def command(self, root: str, name: str = "") -> str:
        """The whole command, for another name."""
        named = f" --as {shlex.quote(name)}" if name else ""
        return f"ragindex {self.verb} {shlex.quote(root)}{named} --index {shlex.quote(str(self.folder))}"

    def removal(self, name: str) -> str:
        """The command that removes a source with its documents."""
        return f"ragindex remove --source {shlex.quote(name)} --index {shlex.quote(str(self.folder))}"


Known = Mapping[str, DocumentSource]


def corpora(given: "Corpus | Iterable[Corpus] | Iterable[Document]", name: str) -> list[Corpus]:
    """What was given as corpora: documents that a program made are one without a root."""
    if isinstance(given, Corpus):
        return [given]
    held: list[Corpus | Document] = list(given)
    read = [one for one in held if isinstance(one, Corpus)]
    if read and len(read) == len(held):
        return read
    documents = tuple(one for one in held if isinstance(one, Document))
    return [Corpus(name or PROGRAM, PROGRAM, documents, 0, (), False)]


def place_corpus(known: Known, corpus: Corpus, name: str, asking: SourceRequest) -> tuple[Known, Placed]:
    """The sources with that of `corpus` among them, and its documents with their ids there.

    Raises UsageError or WorkspaceError, with the next command, where the source needs a name or has another one.
    """
    if not corpus.root:
        return _of_program(known, corpus, name or corpus.name)
    found = _remembered(known, corpus)
    _require_no_folder_inside(known, corpus, found, asking)
    if found is None:
        found = _moved(known, corpus, name) or _new(known, corpus, name, asking)
        prefix = known[found].prefix if found in known else f"{name}/" if name else ""
        known = {**known, found: DocumentSource(root=corpus.root, format=corpus.format, prefix=prefix)}
    elif name not in ("", found):
        raise UsageError(
            f"{known[found].root} is already the source {found!r}. Leave out --as; to rename it, run: "
            f"{asking.removal(found)}"
        )
    lead = _lead(known[found], corpus)
    only = lead + corpus.only if corpus.only else None
    return known, Placed(found, lead, tuple(_with_ids(corpus, lead)), only)


def lead(known: Known, corpus: Corpus) -> str:
    """What the ids of a corpus begin with in a workspace that holds it."""
    found = _remembered(known, corpus) if corpus.root else None
    return "" if found is None else _lead(known[found], corpus)


def place_all(known: Known, given: Iterable[Corpus], name: str, asking: SourceRequest) -> tuple[Known, list[Placed]]:
    """As `place`, for several corpora: those of one source together, each document once.

    Raises DataError where a corpus has an id twice, or two of them have other texts under one id.
    """
    together: dict[str, Placed] = {}
    for corpus in given:
        _require_distinct(corpus)
        known, placed = place_corpus(known, corpus, name, asking)
        earlier = together.get(placed.source)
        together[placed.source] = placed if earlier is None else _joined(earlier, placed)
    return known, list(together.values())


def require_free(
    owners: Mapping[str, str], earlier: Known, known: Known, placed: Placed, asking: SourceRequest
) -> None:
    """Raises WorkspaceError, with both paths, where an id is that of another source's document.

    `owners` are the sources of the documents that the workspace holds, by id; `earlier` those it remembered before.
    """
    for document in placed.documents:
        theirs = owners.get(document.id, placed.source)
        if theirs != placed.source:
            raise WorkspaceError(
                f"The id {document.id!r} of {_place(known, placed.source, document.id)} is already used by "
                f"{_place(known, theirs, document.id)} in the index {asking.folder}. "
                f"Nothing was written. {_way_out(known, placed.source, theirs, earlier, asking)}"
            )


def choose_chunking(held: Manifest | None, corpus: Corpus, *, kept: bool = False) -> Literal["default"] | None:
    """How a workspace is opened for a corpus: a new one cuts as suits it, one that remembers it as it does.

    With `kept`, as every one does that is there.
    """
    if held is not None and (kept or (corpus.root and _remembered(held.sources, corpus))):
        return "default"
    return corpus.chunking


def describe_sources(known: Known, owners: Mapping[str, int]) -> list[dict[str, str | int]]:
    """A row a source: its name, root, format, what its ids begin with, and how many documents it has."""
    return [
        {"name": name, "root": one.root, "format": one.format, "prefix": one.prefix, "documents": owners.get(name, 0)}
        for name, one in known.items()
    ]


def id_of(known: Known, path: str) -> str | None:
    """The id that the file under a path has, where it lies in a folder that is remembered."""
    folder, name = os.path.realpath(os.path.dirname(path)), os.path.basename(path)
    corpus = Corpus("", "folder", (), 0, (), False, root=folder, only=name)
    return f"{lead(known, corpus)}{name}" if _remembered(known, corpus) is not None else None


def file_of(source: DocumentSource, id: str) -> Path | None:
    """The file that a document was read from, where it is one of a folder and still there."""
    if source.format != "folder":
        return None
    file = Path(source.root, id.removeprefix(source.prefix))
    return file if os.path.isfile(file) else None


# ---------------------------------------------------------------- inside


def _require_distinct(corpus: Corpus) -> None:
    seen = set[str]()
    for document in corpus.documents:
        if document.id in seen:
            raise DataError("each document id once", f"the id {document.id!r} twice")
        seen.add(document.id)


def _joined(first: Placed, second: Placed) -> Placed:
    held = {document.id: document for document in first.documents}
    for document in second.documents:
        if held.setdefault(document.id, document) != document:
            raise DataError("each document id once", f"the id {document.id!r} twice, with different texts")
    return Placed(first.source, "", tuple(held.values()))


def _of_program(known: Known, corpus: Corpus, name: str) -> tuple[Known, Placed]:
    held = known.get(name)
    if held is not None and held.root:
        raise UsageError(f"The source {name!r} is {held.root}. Give a program's documents another name: source=…")
    return {**known, name: held or DocumentSource(root="", format=PROGRAM)}, Placed(name, "", corpus.documents)


def _remembered(known: Known, corpus: Corpus) -> str | None:
    """The name of the source that holds the root: the root itself, else the innermost folder around it."""
    around = [
        name
        for name, source in known.items()
        if source.root == corpus.root or (_folders(source, corpus) and _inside(corpus.root, source.root))
    ]
    return max(around, key=lambda name: len(known[name].root), default=None)


def _folders(source: DocumentSource, corpus: Corpus) -> bool:
    return source.format == corpus.format == "folder"


def _inside(inner: str, outer: str) -> bool:
    return inner != outer and PurePath(inner).is_relative_to(outer)


def _lead(source: DocumentSource, corpus: Corpus) -> str:
    below = PurePath(corpus.root).relative_to(source.root).as_posix() if corpus.format == "folder" else "."
    return source.prefix + ("" if below == "." else f"{below}/")


def _with_ids(corpus: Corpus, lead: str) -> Iterator[Document]:
    """The documents with their ids, which those of a folder name as their source too."""
    for document in corpus.documents:
        id, metadata = lead + document.id, document.metadata
        if lead and corpus.format == "folder":
            metadata = {**metadata, "source": id}
        yield replace(document, id=id, metadata=metadata) if lead else document


def _require_no_folder_inside(known: Known, corpus: Corpus, found: str | None, asking: SourceRequest) -> None:
    """Raises WorkspaceError where files would come twice: by a source and by one whose folder lies around it."""
    if corpus.only or corpus.format != "folder":
        return
    for name, source in known.items():
        if name != found and _folders(source, corpus) and _inside(source.root, corpus.root):
            raise WorkspaceError(
                f"{corpus.root} contains {source.root}, the source {name!r}, whose files would be indexed twice. "
                f"Nothing was written. Run: {asking.removal(name)}, then this command again."
            )


def _moved(known: Known, corpus: Corpus, name: str) -> str | None:
    """`name`, where it is that of a source whose folder or file is not where it was."""
    held = known.get(name)
    same = held is not None and (held.format == "folder") == (corpus.format == "folder")
    gone = held is not None and os.path.isabs(held.root) and not os.path.exists(held.root)
    return name if same and gone and os.path.isabs(corpus.root) else None


def _new(known: Known, corpus: Corpus, name: str, asking: SourceRequest) -> str:
    """The name of a new source. Raises WorkspaceError where it needs one, UsageError for one that cannot be."""
    if name in known:
        where = known[name].root or "a program's documents"
        raise UsageError(f"The name {name!r} is that of {where}. Choose another for --as.")
    if name and (_NAME.fullmatch(name) is None or name in (".", "..")):
        raise UsageError(f"--as must be a name of letters, digits, and . + - _ between them. Got {name!r} instead.")
    first = next((other for other, source in known.items() if source.root and not source.prefix), None)
    free = _free(known, PurePath(corpus.root).name if corpus.format == "folder" else corpus.name)
    if name or first is None:
        return name or free
    held = known[first]
    moved = f"; if it was moved here, run: {asking.command(corpus.root, first)}" if _is_gone(held) else ""
    lost = f", which is not there any more{moved}" if moved else ""
    raise WorkspaceError(
        f"The index {asking.folder} has the documents of {held.root}{lost}. Those of {corpus.root} need a name, "
        f"which their ids begin with, or another --index. Nothing was written. "
        f"Run: {asking.command(corpus.root, free)}"
    )


def _is_gone(source: DocumentSource) -> bool:
    return os.path.isabs(source.root) and not os.path.exists(source.root)


def _free(known: Known, name: str) -> str:
    """`name`, as a name may be written, or the first of name-2, name-3, … that no source has."""
    name = str(regex.sub(r"[^\w.+-]+", "-", name)).strip("-.") or "data"
    number, free = 1, name
    while free in known:
        number += 1
        free = f"{name}-{number}"
    return free


def _place(known: Known, name: str, id: str) -> str:
    source = known[name]
    if not source.root:
        return f"the documents that a program added as {name!r}"
    return str(Path(source.root, id.removeprefix(source.prefix))) if source.format == "folder" else source.root


def _way_out(known: Known, ours: str, theirs: str, earlier: Known, asking: SourceRequest) -> str:
    """The commands that end a clash: a name for the source that is new, else another for one that is not."""
    if not known[ours].root:
        return "Give that document another id."
    if ours not in earlier:
        return f"Run: {asking.command(known[ours].root, _free(known, ours))}"
    if not known[theirs].root:
        return f"Run: {asking.removal(theirs)}, or give it another id in the program."
    again = asking.command(known[theirs].root, _free(known, theirs))
    return f"Run: {asking.removal(theirs)}, then: {again}"
