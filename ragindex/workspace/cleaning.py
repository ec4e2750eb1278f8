"""Removing what no reader needs any more, once the manifest names a new finished state. The caller holds the lease.

Kept are what the manifest names, what a living reader's lease names (`ragindex.workspace.reader_leases`), and the
newest state of everything: a sync that was cut short goes on from there. A part that a sync began and never finished
stays for a day.
"""

import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from ragindex.encoders import cache_pruning
from ragindex.interfaces import Store
from ragindex.workspace import encoder, journal, reader_leases, versioned_files
from ragindex.workspace.journal import Journal
from ragindex.workspace.manifest import Manifest
from ragindex.workspace.reader_leases import ReaderState

_KEEP_BEGUN = 86_400.0
"""Seconds that what an interrupted sync has made stays, once a later sync has not needed it."""


def remove_unread(folder: Path, store: Store, manifest: Manifest) -> tuple[Manifest, bool]:
    """Remove it. The manifest without the outdated parts that were dropped, and whether something stays for readers."""
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
    for key in now.parts:
        _clean_files(folder, store, key, needed, left)
    encoder.keep_fits(folder, frozenset().union(*(one.encoders for one in needed)))
    if not journal.begun_within(folder, _KEEP_BEGUN):  # a sync that was cut short goes on with the vectors that it has
        cache_pruning.prune_vectors(
            encoder.vector_cache_path(folder), sum(part.bytes for part in manifest.parts.values())
        )
    stays = any(one.parts - now.parts or one.collections.items() - now.collections.items() for one in read)
    return manifest.model_copy(update={"outdated": outdated}), stays


def drop_collections(folder: Path, store: Store, key: str, names: Sequence[str], kinds: Iterable[str] = ()) -> None:
    """Remove a part. Coverage first: what is left of a drop that was cut short is not taken for a part."""
    recorded = [f"{key}.{kind}" for kind in kinds]
    held = [name for name in names if name.rpartition(".")[0] == key]
    for name in dict.fromkeys((f"{key}.coverage", *recorded, *held)):
        store.drop(name)
    Journal.of(folder, key).remove()
    shutil.rmtree(folder / "parts" / key, ignore_errors=True)


def _clean_files(folder: Path, store: Store, key: str, needed: Sequence[ReaderState], names: Sequence[str]) -> None:
    """The folders of a part's files that hold for nobody; none of a part that a sync has begun to change."""
    files = folder / "parts" / key
    if not files.is_dir():
        return
    kinds = [name for name in names if name.rpartition(".")[0] == key and not name.endswith(".coverage")]
    if any(store.version(name) != needed[0].collections.get(name) for name in kinds):
        return
    opened = [store.open(name, version) for name in kinds for version in reader_leases.versions_read(needed, name)]
    versioned_files.keep_versions(
        files, {holding for one in opened for holding in versioned_files.recorded_versions(one)}
    )
