"""How the documents of sources were read: what an index remembers of it, so that a later run reads in the same way."""

import os
import shlex
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from ragindex._util.ids import list_places
from ragindex._util.redaction import hide_secrets
from ragindex.corpus import Corpus, read_selected
from ragindex.corpus.file_selection import DataReading, FileSelection, restore_selection
from ragindex.corpus.git_source import FORMAT as GIT
from ragindex.corpus.git_source import GitAddress, parse_address, readers_version
from ragindex.corpus.local_files import NO_FILES, KnownFiles
from ragindex.errors import DataError, UsageError
from ragindex.index.documents import Documents
from ragindex.index.manifest import DocumentSource, SourceReading
from ragindex.index.sources import Known, find_source, is_gone


@dataclass(frozen=True, slots=True)
class RememberedReading:
    """How a path of a source was read: the source's name, and the options. `place` is the path below its root."""

    source: str
    place: str
    options: DataReading


def find_reading(known: Known, data: str, name: str = "", ref: str | None = None) -> RememberedReading | None:
    """Return how `data` was read before, or how that of the source `name` was, whose folder has moved to `data`.

    None where nothing is remembered: of a new source, or one that an earlier version of ragindex has indexed.
    """
    path, address = os.path.abspath(data), parse_address(data, ref)
    root = str(address or GitAddress(Path(os.path.realpath(data))))
    owner = next((other for other, source in known.items() if source.root == root), None)
    if owner is not None:
        return _remember(owner, known[owner], "", data)
    if address is not None:
        return None
    reading = next(
        (
            other
            for other, source in known.items()
            if source.reading is not None and source.reading.data and source.reading.data in (data, path)
        ),
        None,
    )
    if reading is not None:
        return _remember(reading, known[reading], "", data)
    if os.path.isdir(path):
        corpus = Corpus("", "folder", (), 0, (), False, root=os.path.realpath(path))
    else:
        folder, file = os.path.split(path)
        corpus = Corpus("", "folder", (), 0, (), False, root=os.path.realpath(folder), only=file)
    owner = find_source(known, corpus)
    if owner is not None:
        return _remember(owner, known[owner], _place(known[owner], corpus), data)
    if name in known and known[name].format == "folder" and is_gone(known[name]) and os.path.isdir(path):
        return _remember(name, known[name], "", data)
    return None


def record_reading(known: Known, corpus: Corpus) -> Known:
    """Return the sources with how `corpus` was read. Raises UsageError if an option holds a secret."""
    options, owner = corpus.reading, find_source(known, corpus) if corpus.root else None
    if options is None or owner is None:
        return known
    source = known[owner]
    reading = source.reading or SourceReading()
    place = _place(source, corpus) if corpus.format == "folder" else ""
    parts = _record_part(source, place, options.selection, is_file=bool(corpus.only))
    changes: dict[str, Any] = {"parts": _require_no_secrets(parts), "commit": ""}
    if parts != reading.parts:  # until all files are read in this way
        changes["readers"] = ""
    if not place:
        changes |= {"format": options.format, "skip_bad": options.skip_bad, "ref": options.ref}
        changes |= {} if corpus.format == "folder" else {"data": options.data}
    return {**known, owner: source.model_copy(update={"reading": reading.model_copy(update=changes)})}


def record_readers(known: Known, corpus: Corpus) -> Known:
    """Return the sources with what has read all documents that the index has now of a repository or of a folder."""
    options, owner = corpus.reading, find_source(known, corpus) if corpus.root else None
    if options is None or owner is None or (reading := known[owner].reading) is None:
        return known
    if not options.commit and (corpus.format != "folder" or _place(known[owner], corpus)):
        return known
    reading = reading.model_copy(update={"commit": options.commit, "readers": options.readers})
    return {**known, owner: known[owner].model_copy(update={"reading": reading})}


def forget_readers(known: Known) -> Known:
    """Return the sources as if it were not known what has read their documents: all files are read again."""
    return {
        name: source
        if source.reading is None
        else source.model_copy(update={"reading": source.reading.model_copy(update={"commit": "", "readers": ""})})
        for name, source in known.items()
    }


def find_commit(source: DocumentSource, selection: FileSelection) -> str:
    """Return the commit that a source has, as these readers read it with these options; "" if it must be read anew."""
    reading = source.reading
    if reading is None or reading.readers != readers_version() or reading.parts != {"": selection.options()}:
        return ""
    return reading.commit


def read_source(name: str, source: DocumentSource, stored: Documents, folder: Path) -> Iterator[Corpus]:
    """Yield what a source of the index in `folder` has now, read as it was before: all, or each part that was read.

    Of a folder, files are not read whose bytes are those that the `stored` documents were read from. A part that is
    gone from the source has no documents. Raises DataError, MissingExtraError and UsageError.
    """
    reading = source.reading
    if reading is None:
        command = shlex.join(["ragindex", "index", source.root, "--as", name, "--index", str(folder)])
        raise UsageError(
            f"An earlier ragindex has read the source {name!r}, and not noted with which options. "
            f"Read it once more, with the options you gave then, and they are kept. Run: {command}"
        )
    if source.format == GIT:
        selection = restore_selection(reading.parts.get("", {}))
        since = find_commit(source, selection)
        yield read_selected(
            source.root,
            format=None,
            skip_bad=reading.skip_bad,
            selection=selection,
            ref=reading.ref or None,
            since=since,
        )
        return
    if source.format != "folder":
        if reading.data != hide_secrets(reading.data):
            raise UsageError(
                f"The address of the source {name!r} holds a secret, which is not stored. Index it by its address."
            )
        yield read_selected(reading.data, format=reading.format, skip_bad=reading.skip_bad)
        return
    if not os.path.isdir(source.root):
        raise DataError(f"the folder of the source {name!r}", "no such folder", path=Path(source.root))
    selection, known_files = _restore_selection(reading), _find_known_files(name, source, stored)
    for place in _list_tops(reading):
        path = Path(source.root, place)
        if place and not os.path.lexists(path):
            parent, _, file = place.rpartition("/")
            yield Corpus(name, "folder", (), 0, (), False, root=str(Path(source.root, parent)), only=file)
            continue
        own = selection.narrow(place, is_file=not path.is_dir())
        known = NO_FILES if place else known_files
        yield read_selected(path, format="folder", skip_bad=reading.skip_bad, selection=own, known=known)


def list_source_paths(source: DocumentSource) -> list[Path]:
    """Return the folders and files that a source is read from."""
    reading = source.reading
    if source.format == GIT and (address := parse_address(source.root)) is not None:
        return [place for name in ("HEAD", "refs", ".git") if (place := address.path / name).exists()]
    if reading is None or not os.path.isabs(source.root):
        return []
    if source.format != "folder":
        return [Path(reading.data)]
    return [Path(source.root, place) for place in _list_tops(reading)]


# ---------------------------------------------------------------- helpers


def _find_known_files(name: str, source: DocumentSource, stored: Documents) -> KnownFiles:
    """Return the hashes of the files of a folder that these readers have read with the same options, by file."""
    if source.reading is None or source.reading.readers != readers_version():
        return NO_FILES
    hashes = defaultdict[str, set[str]](set)
    for id, digest in stored.file_hashes(name).items():
        for place in list_places(id.removeprefix(source.prefix)):  # a file can have several documents
            hashes[place].add(digest)
    return hashes


def _place(source: DocumentSource, corpus: Corpus) -> str:
    """Return the path below the root of a source of what `corpus` was read from; "" for all of it."""
    below = PurePath(corpus.root).relative_to(source.root).as_posix()
    return unicodedata.normalize("NFC", "/".join(part for part in (below, corpus.only) if part not in ("", ".")))


def _remember(name: str, source: DocumentSource, place: str, data: str) -> RememberedReading | None:
    reading = source.reading
    if reading is None:
        return None
    is_known = "" in reading.parts or any(place == part or place.startswith(f"{part}/") for part in reading.parts)
    is_file = not os.path.isdir(data)
    selection = _restore_selection(reading).narrow(place, is_file=is_file) if is_known else FileSelection()
    options = DataReading(data, reading.format, reading.skip_bad, selection, reading.ref)
    if is_file and source.format == "folder":  # a file that is named is read, whatever the patterns for its folder
        options = replace(options, selection=replace(selection, include=(), exclude=()))
    return RememberedReading(name, place, options)


def _restore_selection(reading: SourceReading) -> FileSelection:
    """Return the options of the whole folder, with those of the parts that are read otherwise."""
    below = {place: restore_selection(options, f"{place}/") for place, options in reading.parts.items() if place}
    return replace(restore_selection(reading.parts.get("", {})), below=below)


def _list_tops(reading: SourceReading) -> list[str]:
    """Return the parts of a folder that no other part holds."""
    return sorted(
        place
        for place in reading.parts
        if not any(place != other and (not other or place.startswith(f"{other}/")) for other in reading.parts)
    )


def _record_part(
    source: DocumentSource, place: str, selection: FileSelection, *, is_file: bool
) -> dict[str, dict[str, Any]]:
    """Return the parts of a source with the one that was read: an entry of its own only if it is read otherwise."""
    own = selection.options()
    inner = {f"{place}/{name}".lstrip("/"): each.options() for name, each in selection.below.items()}
    if not place:
        return {"": own, **inner}
    earlier = source.reading.parts if source.reading else {}
    others = {name: each for name, each in earlier.items() if name != place and not name.startswith(f"{place}/")}
    around = [name for name in others if not name or place.startswith(f"{name}/")]
    outer = FileSelection()
    if around:
        reading = SourceReading(parts=others)
        innermost = max(around, key=len)
        outer = _restore_selection(reading).narrow(innermost, is_file=False)
        if is_file:
            own = {name: value for name, value in own.items() if name not in ("include", "exclude")}
            inherited = {k: v for k, v in outer.options().items() if k not in ("include", "exclude")}
            is_same = own == inherited and outer.allows(place.removeprefix(f"{innermost}/" if innermost else ""))
        else:
            is_same = own == outer.options()
        if is_same:
            return {**others, **inner}
    return {**others, place: own, **inner}


def _require_no_secrets(parts: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    for options in parts.values():
        for name, value in options.items():
            if hide_secrets(str(value)) != str(value):
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} holds a secret, which an index does not store. Write it without.")
    return parts
