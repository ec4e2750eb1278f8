"""Export of a built method: a folder that refers to its index, or one packed file that does not need it."""

import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from ragindex._util import distribution, durable_files
from ragindex._util.durable_files import expand_home
from ragindex.errors import RagindexError, StoreError, UsageError
from ragindex.export.archive import ARCHIVE_SUFFIX, read_archive, write_archive
from ragindex.export.consent import Consent, list_needed
from ragindex.export.retriever_file import (
    INDEX_FOLDER,
    OWN_FOLDER,
    RETRIEVER_FILE,
    ExportedPlugin,
    ExportedRetriever,
    MethodEvidence,
    RetrieverLimits,
    StoredFile,
    describe_file,
    read_retriever_file,
    require_safe,
    write_retriever_file,
)
from ragindex.export.state import describe_index, describe_parts, describe_plugin, needs_encoder
from ragindex.index.manifest import libraries
from ragindex.index.parts import tasks_of
from ragindex.index.state import IndexState
from ragindex.interfaces import Scheme
from ragindex.plugins.base import Plugin, walk_plugins


@dataclass(frozen=True, slots=True)
class Export:
    """An export that was written: its path, description and size, and the method whose export it replaced ("").

    `consent` is what must be allowed to load it on this machine.
    """

    path: Path
    retriever: ExportedRetriever
    bytes: int
    replaced: str
    consent: Consent

    def describe_replaced(self) -> str:
        """Say which earlier export this one replaced; "" if there was none."""
        if not self.replaced:
            return ""
        earlier = "an earlier export" if self.replaced == self.retriever.method.label else "the export"
        return f"This replaced {earlier} of {self.replaced} in {self.path}."


def export_retriever(
    index: IndexState,
    scheme: Scheme,
    out: Path | str,
    *,
    pack: bool = False,
    evidence: MethodEvidence | None = None,
) -> Export:
    """Export a built method in its state after the last finished sync to `out`, replacing an earlier export there.

    Without `pack`, `out` is a folder that refers to the index; with it, one file with all that the method reads. The
    export is written beside `out` and renamed, so a crash leaves the earlier one. Raises MissingPartError if the method
    is not built, UsageError if `out` holds something else or the method cannot be packed, and StoreError.
    """
    target = expand_home(out)
    if pack and target.suffix != ARCHIVE_SUFFIX:
        target = target.with_name(f"{target.name}{ARCHIVE_SUFFIX}")
    _require_free(target, pack=pack)
    replaced = _read_method(target, pack=pack)
    lease = index.pin()
    with _writing(target), _scratch_beside(target) as scratch:
        own = _copy_own_files([scheme, *scheme.parts(), index.model.plugin], scratch / OWN_FOLDER)
        if pack:
            from ragindex.export.packed_index import write_packed_index  # imports scipy

            write_packed_index(index, scheme, scratch / INDEX_FOLDER)
        files = tuple(describe_file(scratch, path) for path in sorted(scratch.rglob("*")) if path.is_file())
        exported = _describe(index, scheme, target, pack=pack, evidence=evidence, own=own, files=files)
        require_safe(exported.files, RetrieverLimits(), target)
        size = _write_packed(exported, scratch, target) if pack else _write_folder(exported, scratch, target)
    del lease  # the state that was copied could not be removed until here
    return Export(target, exported, size, replaced, _list_consent(index, scheme, exported))


def _list_consent(index: IndexState, scheme: Scheme, exported: ExportedRetriever) -> Consent:
    """Return what `load_retriever` asks to be allowed: hosts and folders of the plugins that it opens."""
    plugins: list[Plugin] = [scheme, *scheme.parts()]
    plugins += [index.encoders.plugin] if exported.encoder else []
    plugins += [index.model.plugin] if exported.asks else []
    plugins += [] if exported.packed else [index.store_plugin]
    described = [
        plugin.describe() for plugin in (exported.method, exported.encoder, exported.llm, exported.store) if plugin
    ]
    return list_needed(plugins, described)


def _describe(
    index: IndexState,
    scheme: Scheme,
    target: Path,
    *,
    pack: bool,
    evidence: MethodEvidence | None,
    own: Mapping[str, str],
    files: tuple[StoredFile, ...],
) -> ExportedRetriever:
    path = INDEX_FOLDER if pack else _relative(index.folder, target)
    return ExportedRetriever(
        ragindex=distribution.find_distribution().version,
        packed=pack,
        asks=bool(tasks_of(scheme)),
        method=describe_plugin(scheme, files=own),
        encoder=_describe_encoder(index, scheme),
        llm=describe_plugin(index.model.plugin, index.model.id, own),
        store=describe_plugin(index.store_plugin),
        index=describe_index(index, path),
        parts=describe_parts(index, scheme),
        libraries={name: version for name, version in libraries().items() if name != "ragindex"},
        evidence=evidence,
        files=files,
    )


def _describe_encoder(index: IndexState, scheme: Scheme) -> ExportedPlugin | None:
    if not needs_encoder(scheme, index.all_parts(scheme)):
        return None
    return describe_plugin(index.encoders.plugin, index.encoder_id)


def _relative(index: Path, target: Path) -> str:
    """Return the path of the index from the folder `target`; absolute only if they are on different drives."""
    try:
        return Path(os.path.relpath(index.resolve(), target.resolve())).as_posix()
    except ValueError:
        return index.resolve().as_posix()


def _copy_own_files(plugins: Sequence[Plugin], folder: Path) -> dict[str, str]:
    """Copy the files that parameters name; return what is written in their place, by the values of the parameters.

    A file is named by its content, so that a later export beside this one never changes a file that this one names.
    """
    copies: dict[str, str] = {}
    for value in (file for plugin in plugins for inner in walk_plugins(plugin) for file in inner.own_files()):
        path, mark, hashed = value.partition("#")
        content = Path(path).read_bytes()
        name = f"{hashlib.sha256(content).hexdigest()[: durable_files.HASH_DIGITS]}{Path(path).suffix}"
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
        copies.setdefault(value, f"{OWN_FOLDER}/{name}{mark}{hashed}")
    return copies


# ---------------------------------------------------------------- writing


def _require_free(target: Path, *, pack: bool) -> None:
    """Raise UsageError if `target` is there and is no earlier export of the same form."""
    if not os.path.lexists(target):
        return
    if pack and target.is_dir():
        raise UsageError(f"{target} is a folder. Choose another path for the packed retriever.")
    if not pack and not target.is_dir():
        raise UsageError(f"{target} is a file. Choose a folder, or add --pack to write one file.")
    if not pack and not (target / RETRIEVER_FILE).is_file() and any(not _is_ours(path) for path in target.iterdir()):
        raise UsageError(f"{target} holds other files. Choose a folder that is empty or does not exist.")


def _read_method(target: Path, *, pack: bool) -> str:
    """Return the method of the export that is at `target`, or "" if there is none that can be read."""
    try:
        if not pack:
            return read_retriever_file(target).method.label
        with target.open("rb") as source:
            return read_archive(source, target, RetrieverLimits()).method.label
    except (RagindexError, OSError):
        return ""


def _is_ours(path: Path) -> bool:
    """Return whether a first export that was killed may have left `path` in its folder."""
    return path.name == OWN_FOLDER or (path.name.startswith(f"{RETRIEVER_FILE}.") and path.suffix == ".partial")


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"The retriever could not be written to {target}: {error.strerror or error}.") from error


@contextmanager
def _scratch_beside(target: Path) -> Iterator[Path]:
    """Yield a new folder on the disk of `target`, which is removed at the end.

    One process exports to `target` at a time, so folders that are there already are of processes that were killed.
    """
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    prefix, suffix = f".{target.name}.", ".partial"
    with FileLock(parent / f"{prefix}lock") as lock:
        for left in parent.glob(f"{glob.escape(prefix)}*{suffix}"):
            shutil.rmtree(left, ignore_errors=True)
        try:
            with tempfile.TemporaryDirectory(prefix=prefix, suffix=suffix, dir=parent) as scratch:
                yield Path(scratch)
        finally:
            with suppress(OSError):  # Windows does not remove a file that is open; its lock is removed on release
                Path(lock.lock_file).unlink()


def _write_folder(exported: ExportedRetriever, scratch: Path, target: Path) -> int:
    """Write the files into the folder `target`, `retriever.toml` last, and then remove those of an earlier export.

    So a process that is killed leaves the earlier export or the new one, with all files of either.
    """
    target.mkdir(exist_ok=True)
    for file in exported.files:
        (target / file.path).parent.mkdir(exist_ok=True)
        if not (target / file.path).is_file():
            durable_files.move_durably(scratch / file.path, target / file.path)
    content = write_retriever_file(exported)
    durable_files.write_file(target / RETRIEVER_FILE, content)
    shutil.rmtree(target / INDEX_FOLDER, ignore_errors=True)
    targets = {target / file.path for file in exported.files}
    for path in {*target.glob(f"{OWN_FOLDER}/*"), *target.glob(f"{RETRIEVER_FILE}.*.partial")} - targets:
        path.unlink(missing_ok=True)
    if not targets:
        shutil.rmtree(target / OWN_FOLDER, ignore_errors=True)
    return len(content) + sum(file.bytes for file in exported.files)


def _write_packed(exported: ExportedRetriever, scratch: Path, target: Path) -> int:
    packed = scratch / target.name
    with packed.open("wb") as file:
        write_archive(exported, scratch, file)
    durable_files.move_durably(packed, target)
    return target.stat().st_size
