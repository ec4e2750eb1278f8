"""Removal of data that no reader needs, once the manifest names a new finished state. The caller holds the lease.

The following data are kept: what the manifest names, what a live reader's lease names
(`ragindex.workspace.reader_leases`), and the newest state of everything, from which an interrupted sync resumes. A part
that a sync has started and never finished is kept for a day.
"""

import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from ragindex.encoders import cache_pruning
from ragindex.interfaces import Store
from ragindex.workspace import encoder, journal, reader_leases, versioned_files
from ragindex.workspace.journal import Journal
from ragindex.workspace.manifest import Manifest, PartRecord
from ragindex.workspace.reader_leases import ReaderState

_KEEP_BEGUN = 86_400.0
"""Seconds for which the data of an interrupted sync are kept after a later sync has not used them."""


def remove_unread(folder: Path, store: Store, manifest: Manifest) -> tuple[Manifest, bool]:
    """Remove all data that no reader needs.

    Returns the manifest without the dropped outdated parts, and whether data are kept only for readers.
    """
    read = reader_leases.read_states(folder)
    if read is None:
        return manifest, True
    now = reader_leases.state_of(manifest)
    needed = [now, *read]
    names = store.names()
    outdated = dict(manifest.outdated)
    begun = journal.unfinished(folder)
    for key, since in sorted(manifest.outdated.items()):
        keep = key in begun and time.time() - since < _KEEP_BEGUN
        if not keep and not any(key in one.parts for one in read):
            drop_collections(folder, store, key, names)
            del outdated[key]
    left = store.names() if outdated != manifest.outdated else names
    for name in left:
        store.clean(name, reader_leases.versions_read(needed, name))
    for key, record in manifest.parts.items():
        _clean_files(folder, store, key, record, needed, left)
    encoder.keep_fits(folder, frozenset().union(*(one.encoders for one in needed)))
    if not journal.begun_within(folder, _KEEP_BEGUN):  # an interrupted sync resumes with its cached vectors
        cache_pruning.prune_vectors(
            encoder.vector_cache_path(folder), sum(part.bytes for part in manifest.parts.values())
        )
    stays = any(one.parts - now.parts or one.collections.items() - now.collections.items() for one in read)
    return manifest.model_copy(update={"outdated": outdated}), stays


def drop_collections(folder: Path, store: Store, key: str, names: Sequence[str], kinds: Iterable[str] = ()) -> None:
    """Remove a part, the coverage first, so that the rest of an interrupted drop does not count as a part."""
    recorded = [f"{key}.{kind}" for kind in kinds]
    held = [name for name in names if name.rpartition(".")[0] == key]
    for name in dict.fromkeys((f"{key}.coverage", *recorded, *held)):
        store.drop(name)
    Journal.of(folder, key).remove()
    shutil.rmtree(folder / "parts" / key, ignore_errors=True)


def _clean_files(
    folder: Path, store: Store, key: str, record: PartRecord, needed: Sequence[ReaderState], names: Sequence[str]
) -> None:
    """Remove the version folders of a part that nobody reads, unless a sync has started to change the part."""
    files = folder / "parts" / key
    if not files.is_dir():
        return
    kinds = [name for name in names if name.rpartition(".")[0] == key and not name.endswith(".coverage")]
    if any(store.version(name) != needed[0].collections.get(name) for name in kinds):
        return
    now = needed[0].collections  # whose folders the record names
    earlier = [(name, version) for name in kinds for version in reader_leases.versions_read(needed, name) - {now[name]}]
    read = {holding for one in earlier for holding in versioned_files.recorded_versions(store.open(*one))}
    versioned_files.keep_versions(files, read.union(record.files))
