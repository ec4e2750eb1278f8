"""Whether anything is left of passages that are gone: records, coverage, files, whole parts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from histories import materials
from ragindex.index import manifest as manifests
from ragindex.index.index import Index
from ragindex.parts.text.passages import Passages
from ragindex.types import Chunking


class BrokenError(AssertionError):
    """`kind` says which promise."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def check(space: Index, corpus: materials.Corpus, chunking: str) -> None:
    """Of every part that is up to date with `corpus`. Raises BrokenError."""
    manifest = manifests.read_manifest(space.folder)
    assert manifest is not None
    documents, names = {f"doc-{name}" for name in corpus}, space.store.names()
    for key, record in manifest.parts.items():
        if record.corpus != manifest.corpus:
            continue
        own = _find_chunking(record)
        passages = documents if record.name == "chunks" else set(materials.passages(corpus, chunking, own))
        known = passages | documents
        for name in (full_name for full_name in names if full_name.rpartition(".")[0] == key):
            _check_records(space, name, known, record.collections)
        covered = _ids(space, f"{key}.coverage")
        if missing := passages - covered - set(record.failed) - _failed_before(manifest, record):
            raise BrokenError("not covered", f"{sorted(missing)} in {key}")
        _check_files(space, key, record.collections, known)
    _check_parts(space, manifest, names)


def _find_chunking(record: manifests.PartRecord) -> Chunking | None:
    """The chunking of a part, from its parameters: in a process of its own, our part is not registered."""
    params = record.part["params"]
    if record.name == "passages":
        return Passages(**params).own_chunking()
    return Chunking(**params["chunked"]) if "chunked" in params else None


def _check_records(space: Index, name: str, known: set[str], pinned: dict[str, int]) -> None:
    newest = space.store.version(name)
    kind = name.rpartition(".")[2]
    versions = {newest, pinned.get(kind, newest)}
    for version in versions:
        assert version is not None
        collection = space.store.open(name, version)
        fields = [field for field in ("passage_ids", "doc_ids") if field in collection.fields()]
        for row in (row for batch in collection.scan(fields) for row in batch.to_pylist()):
            owners = {
                ids_of_field
                for ids_of_field in (row.get(field) or () for field in fields)
                for ids_of_field in ids_of_field
            }
            if kind == "coverage":
                owners.add(row["id"])
            if gone := owners - known:
                raise BrokenError("left over", f"the record {row['id']!r} of {name} names {sorted(gone)}")


def _ids(space: Index, name: str) -> set[str]:
    version = space.store.version(name)
    assert version is not None
    return {id for batch in space.store.open(name, version).scan(()) for id in batch.column("id").to_pylist()}


def _failed_before(manifest: manifests.Manifest, record: manifests.PartRecord) -> set[str]:
    """What failed in a part that this one is made from is in neither."""
    sources = [manifest.parts[key] for key in record.inputs if key in manifest.parts]
    return {id for source in sources for id in (*source.failed, *_failed_before(manifest, source))}


def _check_files(space: Index, key: str, collections: dict[str, int], known: set[str]) -> None:
    """The files of folders that hold now: no id of a document that is gone is in them."""
    gone = [f"doc-{name}".encode() for name in materials.NAMES if f"doc-{name}" not in known]
    for folder in _folders(space, key, collections):
        for path in (entry for entry in folder.rglob("*") if entry.is_file()):
            content = path.read_bytes()
            if present := [id for id in gone if id in content]:
                raise BrokenError("left over", f"the file {path.relative_to(space.folder)} names {present}")


def _folders(space: Index, key: str, collections: dict[str, int]) -> Iterator[Path]:
    root = space.folder / "parts" / key
    states = [name for name in ("graphs", "folders", "segments") if name in collections]
    if not states:
        yield from [root] if root.exists() else []
    for name in states:
        batches = space.store.open(f"{key}.{name}", collections[name]).scan(("replaced",))
        yield from (root / row["id"] for batch in batches for row in batch.to_pylist() if not row["replaced"])


def _check_parts(space: Index, manifest: manifests.Manifest, names: list[str]) -> None:
    known = {*manifest.parts, *manifest.outdated}
    owners = {name.rpartition(".")[0] for name in names} - {""}
    folder = space.folder / "parts"
    owners |= {path.name for path in folder.iterdir()} if folder.exists() else set()
    if strange := owners - known:
        raise BrokenError("nobody's part", f"{sorted(strange)}")


def in_flight(folder: Path) -> Any:
    """What the workspace has written down of an unfinished sync, for messages."""
    paths = [path for path in folder.glob("*.json") if not path.name.startswith("workspace.")]
    return {path.name: json.loads(path.read_text()) for path in paths}
