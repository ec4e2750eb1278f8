"""The figures of an index: cost of its parts, size of its corpus, and disk usage (what readers use, and the rest)."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragindex.index import versioned_files
from ragindex.index.leases import state_of
from ragindex.index.manifest import Manifest
from ragindex.index.models import CALLS, vector_cache_path
from ragindex.interfaces import Collection, Store


@dataclass(frozen=True, slots=True)
class FitState:
    """The fit of an encoder, and which share of the words it does not know.

    It was made in `seconds`, at the time `at` in seconds since 1970 (0: not known), of so many `passages`, and did not
    know `unknown_then` of their words. It does not know `unknown` of those of the passages at the last finished sync,
    and `unknown_asked` of those of the `words_asked` in questions since the index was opened. `unknown_new` is the
    share of the words of passages that came after the fit; 0 as long as they, the share `new`, are fewer than one in
    fifty.
    """

    encoder: str
    at: float
    seconds: float
    passages: int
    unknown_then: float
    unknown: float
    words_asked: int
    unknown_asked: float
    unknown_new: float = 0.0
    new: float = 0.0

    @property
    def age_days(self) -> float | None:
        """The days since the fit was made; None if that is not known."""
        return max(0.0, time.time() - self.at) / _DAY if self.at else None

    def as_json(self) -> dict[str, Any]:
        """Return the fields, with the time of the fit in ISO form, and its age in days."""
        at = datetime.fromtimestamp(self.at, UTC).isoformat(timespec="seconds") if self.at else None
        age = None if self.age_days is None else round(self.age_days, 3)
        return {**asdict(self), "at": at, "age_days": age}


_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class CorpusCounts:
    """The number of documents and passages at the last finished sync."""

    documents: int
    passages: int


@dataclass(frozen=True, slots=True)
class Disk:
    """Disk usage in bytes by category: `serving` the readers of the last finished sync, and `apart` from that.

    Data in a store on other machines are counted in `serving`, although they are not in the folder.
    """

    serving: Mapping[str, int]
    apart: Mapping[str, int]

    @property
    def served(self) -> int:
        """The total bytes of `serving`."""
        return sum(self.serving.values())

    @property
    def total(self) -> int:
        """The total bytes of all categories."""
        return self.served + sum(self.apart.values())


def measure_disk(folder: Path, store: Store, manifest: Manifest) -> Disk:
    """Measure the disk usage of an index."""
    opened = _open_collections(store, manifest)
    parts = sum(_measure_collection(collection) for key, collection in opened if key in manifest.parts)
    corpus = sum(_measure_collection(collection) for key, collection in opened if key not in manifest.parts)
    files = sum(
        versioned_files.versions_size(folder / "parts" / key, versioned_files.recorded_versions(collection))
        for key, collection in opened
    )
    fits = sum(_measure_folder(folder / "encoders" / id) for id in set(manifest.encoders.values()))
    serving = {"parts": parts + files, "documents and coverage": corpus, "fits": fits}
    mapped = _measure_folder(folder / "store" / "mapped")
    vectors, calls = vector_cache_path(folder), folder / CALLS
    apart = {
        "older versions": max(0, _measure_folder(folder / "store") - mapped - parts - corpus)
        + _measure_folder(folder / "parts")
        - files,
        "vector cache": _measure_folder(vectors.parent, f"{vectors.name}*"),  # with SQLite's files next to it
        "answers of language models": _measure_folder(calls.parent, f"{calls.name}*"),
        "memory-mapped vectors": mapped,
        "older fits": _measure_folder(folder / "encoders") - fits,
        "imported files": _measure_folder(folder / "imports"),
        "readers' leases": _measure_folder(folder / "readers"),
    }
    embedded = _measure_folder(folder / "store") >= parts + corpus
    other = _measure_folder(folder) - sum(apart.values()) - files - fits - (parts + corpus if embedded else 0)
    return Disk(serving, {**apart, "other files": max(0, other)})


def _open_collections(store: Store, manifest: Manifest) -> list[tuple[str, Collection]]:
    """Open the collections that readers are pinned to, and the coverages.

    Returns (part key, collection) pairs; the key is "" for the documents and the coverages.
    """
    names = set(store.names())
    pinned = state_of(manifest).collections
    opened = [(name.rpartition(".")[0], store.open(name, version)) for name, version in pinned.items() if name in names]
    covers = [f"{key}.coverage" for key in manifest.parts if f"{key}.coverage" in names]
    return opened + [("", store.open(name, store.version(name) or 0)) for name in covers]


def _measure_collection(collection: Collection) -> int:
    return int(collection.describe()["bytes"])


def _measure_folder(folder: Path, files: str = "**/*") -> int:
    """Return the size of the files in a folder whose paths match a pattern."""
    return sum(path.stat().st_size for path in folder.glob(files) if path.is_file())
