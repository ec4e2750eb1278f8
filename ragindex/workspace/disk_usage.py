"""What a workspace takes on disk: what is served, and what else lies there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ragindex.interfaces import Collection, Store
from ragindex.workspace import encoder, reader_leases, versioned_files
from ragindex.workspace.llm import CALLS
from ragindex.workspace.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Disk:
    """Bytes by what they are: `serving` readers of the last finished sync, and what else is in the folder.

    A store on other machines counts in what serves, and not in the folder.
    """

    serving: Mapping[str, int]
    apart: Mapping[str, int]

    @property
    def served(self) -> int:
        """Of all that serves."""
        return sum(self.serving.values())

    @property
    def whole(self) -> int:
        """Of everything."""
        return self.served + sum(self.apart.values())


def measure_disk(folder: Path, store: Store, manifest: Manifest) -> Disk:
    """What the last finished sync left, and what the folder holds besides."""
    opened = _opened(store, manifest)
    parts = sum(_records(one) for key, one in opened if key in manifest.parts)
    corpus = sum(_records(one) for key, one in opened if key not in manifest.parts)
    files = sum(
        versioned_files.versions_size(folder / "parts" / key, versioned_files.recorded_versions(one))
        for key, one in opened
    )
    fits = sum(_size(folder / "encoders" / id) for id in set(manifest.encoders.values()))
    serving = {"parts": parts + files, "documents and coverage": corpus, "fits": fits}
    mapped = _size(folder / "store" / "mapped")
    apart = {
        "older versions": max(0, _size(folder / "store") - mapped - parts - corpus) + _size(folder / "parts") - files,
        "vector cache": _size_of(encoder.vector_cache_path(folder)),
        "answers of language models": _size_of(folder / CALLS),
        "memory-mapped vectors": mapped,
        "older fits": _size(folder / "encoders") - fits,
        "imported files": _size(folder / "imports"),
        "readers' leases": _size(folder / "readers"),
    }
    embedded = _size(folder / "store") >= parts + corpus
    other = _size(folder) - sum(apart.values()) - files - fits - (parts + corpus if embedded else 0)
    return Disk(serving, {**apart, "other files": max(0, other)})


def _opened(store: Store, manifest: Manifest) -> list[tuple[str, Collection]]:
    """The collections that readers are pinned to, by their parts' keys, and under "" the documents and coverages."""
    names = set(store.names())
    pinned = reader_leases.state_of(manifest).collections
    opened = [(name.rpartition(".")[0], store.open(name, version)) for name, version in pinned.items() if name in names]
    covers = [f"{key}.coverage" for key in manifest.parts if f"{key}.coverage" in names]
    return opened + [("", store.open(name, store.version(name) or 0)) for name in covers]


def _records(collection: Collection) -> int:
    return int(collection.describe()["bytes"])


def _size_of(file: Path) -> int:
    """Of a file, and of those that SQLite keeps beside it."""
    return _sum(file.parent.glob(f"{file.name}*"))


def _size(folder: Path) -> int:
    return _sum(folder.rglob("*"))


def _sum(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths if path.is_file())
