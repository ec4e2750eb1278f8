"""The index of a packed retriever: what one method reads at query time, without sources, caches and other methods."""

import shutil
from pathlib import Path

from ragindex._util import durable_files
from ragindex.errors import DamagedError, UsageError
from ragindex.export.state import needs_encoder, part_records
from ragindex.index.manifest import MANIFEST_FILE, Manifest, PartRecord
from ragindex.index.parts import open_pinned
from ragindex.index.state import IndexState
from ragindex.interfaces import Collection, FittedEncoderPlugin, Scheme
from ragindex.plugins import registry
from ragindex.stores.metered import MeteredCollection
from ragindex.stores.packed import ImageCollection, packed_name, write_packed


def write_packed_index(index: IndexState, scheme: Scheme, folder: Path) -> None:
    """Write the pinned state of a method into the new folder `folder`.

    The caller holds a lease on it. Raises UsageError if the store's collections cannot be packed or are not searched
    exactly, DamagedError, OSError.
    """
    records = part_records(index, scheme)
    manifest = index.manifest
    collections = folder / "store"
    collections.mkdir(parents=True)
    for key, record in records.items():
        for kind, version in record.collections.items():
            identity = record.identities.get(kind)
            _pack(open_pinned(index.store, f"{key}.{kind}", version, identity), f"{key}.{kind}", collections)
        _copy_part_files(index.folder / "parts" / key, folder / "parts" / key, record)
    documents = open_pinned(index.store, "documents", manifest.documents_version, manifest.documents_identity)
    _pack(documents, "documents", collections)
    if needs_encoder(scheme, index.all_parts(scheme)):
        _copy_fit(index, folder)
    packed = _select(manifest, records, index)
    (folder / MANIFEST_FILE).write_bytes(durable_files.dump_hashed_json(packed.model_dump(mode="json")))


def _pack(opened: Collection, name: str, folder: Path) -> None:
    collection = opened.inner if isinstance(opened, MeteredCollection) else opened
    if not isinstance(collection, ImageCollection):
        raise UsageError(
            "Only methods in the store lancedb can be packed: another engine's answers are not in its files. Export "
            "without --pack, which refers to the index, or build the method in an index with --store lancedb."
        )
    image = collection.image()
    if image is None:
        raise UsageError(
            f"The collection {name} is larger than the memory budget and is searched approximately, so a packed copy "
            "would answer differently. Build and export with more memory, such as --store 'lancedb(memory_gib=4)', or "
            "export without --pack."
        )
    write_packed(folder / packed_name(name), image, opened.version, opened.identity)


def _copy_part_files(source: Path, target: Path, record: PartRecord) -> None:
    for name in record.files:
        wrong = durable_files.find_named_folder_damage(source / name)
        if wrong is not None:
            raise DamagedError(f"A part of the method: {wrong}. {durable_files.repair_hint(source.parents[1])}")
        shutil.copytree(source / name, target / name)


def _copy_fit(index: IndexState, folder: Path) -> None:
    """Copy the fit of an encoder that learns from the corpus."""
    id = index.encoder_id
    if id is None or not isinstance(index.encoders.plugin, FittedEncoderPlugin):
        return
    source = index.folder / "encoders" / id
    wrong = durable_files.find_folder_damage(source)
    if wrong is not None:
        raise DamagedError(f"The encoder's fit: {wrong}. {durable_files.repair_hint(index.folder)}")
    shutil.copytree(source, folder / "encoders" / id)


def _select(manifest: Manifest, records: dict[str, PartRecord], index: IndexState) -> Manifest:
    """Return the manifest with what the method needs; without sources and paths of the machine that it was built on."""
    name = index.encoders.name
    used = {record.name for record in records.values()}
    return Manifest(
        settings=manifest.settings.model_copy(update={"store": registry.describe(index.store_plugin)}),
        seed=index.seed,
        corpus=manifest.corpus,
        documents_version=manifest.documents_version,
        documents_identity=manifest.documents_identity,
        documents=manifest.documents,
        passages=manifest.passages,
        encoders={name: manifest.encoders[name]} if name in manifest.encoders else {},
        imports={part: hashed for part, hashed in manifest.imports.items() if part in used},
        parts=dict(sorted(records.items())),
        libraries=manifest.libraries,
    )
