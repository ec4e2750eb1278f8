"""Loading of exported retrievers: what they reach is allowed by name, and what would answer differently is refused."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ragindex._util.durable_files import expand_home
from ragindex._util.text import require_known_options
from ragindex.encoders.model_hub import model_hub, without_hub
from ragindex.errors import DataError, MissingPartError, OtherLibrariesWarning, UsageError, WorkspaceError
from ragindex.export import consent
from ragindex.export.archive import ARCHIVE_SUFFIX, unpack_archive
from ragindex.export.retriever_file import (
    MOST_BYTES,
    MOST_FILES,
    OWN_FOLDER,
    RETRIEVER_FILE,
    ExportedRetriever,
    RetrieverLimits,
    read_retriever_file,
    require_safe,
    verify_files,
)
from ragindex.export.state import (
    describe_index,
    find_other_parts,
    find_other_plugins,
    find_other_settings,
    replace_parameters,
)
from ragindex.index.index import Index
from ragindex.index.manifest import libraries, require_manifest
from ragindex.index.models import Encoders, Model
from ragindex.index.retriever import IndexRetriever
from ragindex.interfaces import Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import Budget, parse_budget
from ragindex.llm.offline import Offline
from ragindex.llm.reading_cache import open_reading_cache
from ragindex.plugins import registry
from ragindex.plugins.base import Plugin, walk_plugins
from ragindex.stores.packed import Packed


@dataclass(frozen=True, slots=True)
class LoadedRetriever(IndexRetriever):
    """A retriever of an export, with the index that was opened for it alone."""

    index: Index

    def close(self) -> None:
        """Release the index."""
        self.index.close()


class LoadOptions(TypedDict, total=False):
    """What a loaded retriever may reach, take and spend; `ragindex.load` explains it."""

    allow_hosts: Sequence[str]
    allow_folders: Sequence[Path | str]
    max_files: int
    max_bytes: int
    budget: float | Budget | None
    cache: Path | str | None


def load_retriever(
    path: Path | str,
    *,
    index: Path | str | None = None,
    encoder: registry.PluginSpec | None = None,
    follow: bool = False,
    read_only: bool = False,
    into: Path | str | None = None,
    **options: Unpack[LoadOptions],
) -> LoadedRetriever:
    """Open a retriever that `ragindex export` wrote: a folder that refers to its index, or a packed file.

    Example:
        with ragindex.load("retriever/") as retriever:
            for hit in retriever.search("When was the lighthouse built?", k=3):
                print(hit.score, hit.title)

    What would answer differently is refused: changed documents, another version or parameter of the method or of a
    part, another encoder or LLM, a changed or missing file. With `follow`, a folder answers from whatever its index
    holds now. `index` says where the index is, and `encoder` where its model is, if they were moved. With `read_only`,
    nothing is written into the folder of the index: answers of services are read from there, and not kept there.

    The file is not trusted. Hosts are contacted, and keys sent, only if `allow_hosts` names them ("api.openai.com" or
    "localhost:8000"); models in folders are loaded only if `allow_folders` does. A packed file is unpacked into `into`
    (default: the user's cache), with at most `max_files` files (10,000) of `max_bytes` bytes together (16 GiB).
    `budget` limits the spending on paid services, in dollars. Answers that the index does not take stay in memory, or
    in the file `cache`.

    Raises DataError if the file is malformed, DamagedError if its files are not as they were exported, WorkspaceError
    if the index would answer differently or is not there, and UsageError if something is not allowed or installed.
    """
    require_known_options("ragindex.load", options, LoadOptions.__annotations__)
    given = expand_home(path)
    limits = RetrieverLimits(options.get("max_files", MOST_FILES), options.get("max_bytes", MOST_BYTES))
    folder, exported = _find(given, None if into is None else expand_home(into), limits)
    if exported.packed and (follow or index is not None):
        raise UsageError(f"{given} is packed: it has its index with it. Leave out follow and index.")
    hosts, folders = consent.check_hosts(options.get("allow_hosts", ())), options.get("allow_folders", ())
    allowed = _Allowed(hosts, (*folders, *_folders_of(encoder)), str(given))
    plan = _make_plan(exported, folder, encoder, allowed)
    setting = LLMSettings(budget=parse_budget(options.get("budget")))
    place = None if index is None else expand_home(index)
    opened = _open_index(plan, place, setting, options.get("cache"), read_only=read_only)
    with _closed_on_errors(opened), allowed.hub():
        if not follow:
            _require_same(plan, opened)
        _require_same_models(plan, opened, follow=follow)
        retriever = opened.retriever(plan.scheme)
        return LoadedRetriever(retriever.method, retriever.opened, retriever.positions, opened)


# ---------------------------------------------------------------- the description, and what it may reach


def _find(path: Path, into: Path | None, limits: RetrieverLimits) -> tuple[Path, ExportedRetriever]:
    """Return the folder of a retriever and its description, with all files verified."""
    if path.is_file() and path.name != RETRIEVER_FILE:
        return unpack_archive(path, into, limits)
    if into is not None:
        raise UsageError(f"{path} is not packed, so that there is nothing to unpack. Leave out into.")
    packed = Path(f"{path}{ARCHIVE_SUFFIX}")
    if packed.is_file() and not path.exists():
        raise DataError("a folder or a packed file", f"no such path (did you mean {packed.name}?)", path=path)
    folder = path.parent if path.name == RETRIEVER_FILE else path
    exported = read_retriever_file(folder)
    require_safe(exported.files, limits, folder / RETRIEVER_FILE)
    verify_files(folder, exported.files)
    return folder, exported


@dataclass(frozen=True, slots=True)
class _Allowed:
    """What the one who loads the retriever `name` allows."""

    hosts: tuple[str, ...]
    folders: tuple[Path | str, ...]
    name: str

    def require(self, plugins: Sequence[Plugin]) -> None:
        """Raise UsageError if a plugin reaches something else."""
        reached = [inner for plugin in plugins for inner in walk_plugins(plugin)]
        consent.require_folders(reached, self.folders, self.name)
        consent.require_hosts(reached, self.hosts, self.name)

    def hub(self) -> Any:
        """Return a context in which the model hub is asked only if it is allowed."""
        return nullcontext() if consent.is_allowed(model_hub(), self.hosts) else without_hub()


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plugins of a retriever, made and allowed; nothing is open yet. `files` maps paths to what stands for them."""

    exported: ExportedRetriever
    folder: Path
    name: str
    scheme: Scheme
    encoder: Plugin
    llm: Any
    store: Any
    files: Mapping[str, str]


def _make_plan(
    exported: ExportedRetriever, folder: Path, encoder: registry.PluginSpec | None, allowed: _Allowed
) -> _Plan:
    """Make the plugins. Raises UsageError if one is unknown, differs from the exported one, or reaches too far."""
    files = {text: _own_path(text, folder) for text in _own_texts(exported)}
    method = exported.method.describe()
    described = [plugin.describe() for plugin in (exported.encoder, exported.llm, exported.store) if plugin is not None]
    consent.require_no_paths([method, *described], allowed.folders, allowed.name)
    scheme = registry.scheme(replace_parameters(method, files))
    back = {path: text for text, path in files.items()}
    _refuse_differences(find_other_plugins(exported.method, scheme, back), allowed.name, _EXPORT_AGAIN)
    encoder_plugin = registry.encoder(encoder or (exported.encoder.describe() if exported.encoder else "lsa"))
    llm = registry.llm(replace_parameters(exported.llm.describe(), files)) if exported.asks else Offline()
    store = registry.store(exported.store.describe())
    parts = [part for part in scheme.parts()]
    reached = [scheme, *parts, *([encoder_plugin] if exported.encoder else []), *([llm] if exported.asks else [])]
    allowed.require([*reached, *([] if exported.packed else [store])])
    return _Plan(exported, folder, allowed.name, scheme, encoder_plugin, llm, store, back)


def _own_texts(exported: ExportedRetriever) -> Iterator[str]:
    """Yield the parameters of the method and the LLM that name one of the retriever's own files."""
    names = {file.path for file in exported.files if file.path.startswith(f"{OWN_FOLDER}/")}
    described = [exported.method.describe(), exported.llm.describe()]
    yield from (text for text in consent.find_texts(described) if text.partition("#")[0] in names)


def _own_path(text: str, folder: Path) -> str:
    name, mark, hashed = text.partition("#")
    return f"{(folder / name).absolute()}{mark}{hashed}"


def _folders_of(encoder: registry.PluginSpec | None) -> tuple[str, ...]:
    """Return the model folders of an encoder that the one who loads has named, which allows them."""
    return () if encoder is None else registry.encoder(encoder).model_folders()


# ---------------------------------------------------------------- the index


def _open_index(
    plan: _Plan, place: Path | None, setting: LLMSettings, cache: Path | str | None, *, read_only: bool
) -> Index:
    """Open the index that a retriever refers to, or the one that it has with it. Raises WorkspaceError."""
    exported = plan.exported
    if exported.packed:
        folder = plan.folder / exported.index.path
        setting = replace(setting, cache=open_reading_cache(None, cache))
        encoders = Encoders(folder, plan.encoder, exported.index.language, exported.index.seed, setting)  # type: ignore[arg-type]
        model = Model(folder, plan.llm, setting, keep_calls=False)
        manifest, packed = require_manifest(folder), Packed()
        index = Index(folder, manifest, packed, packed.open(folder / "store"), encoders, model, manifest.seed, True)
    else:
        folder = _find_index(plan, place)
        index = Index.open(
            folder,
            encoder=plan.encoder,
            llm=plan.llm,
            store=plan.store,
            seed=exported.index.seed,
            llm_settings=setting,
            cache=cache,
            read_only=read_only or not os.access(folder, os.W_OK),  # else it holds a lease, and caches what it pays for
        )
    if not exported.asks:
        index.model.id = exported.llm.id or ""  # keys of parts depend on the LLM that made them; nothing opens it
    return index


def _find_index(plan: _Plan, index: Path | None) -> Path:
    """Return the folder of the index. Raises WorkspaceError if it is not there or is another index.

    Its identity is random, so a file cannot name an index that its author has not read.
    """
    index_path = plan.exported.index.path
    folder = index or (plan.folder / index_path).resolve()
    if index_path.startswith(("//", "\\\\")) and index is None:
        raise UsageError(f"{plan.name} names an index on another machine, {index_path!r}. Name it: index=FOLDER.")
    try:
        manifest = require_manifest(folder)
    except WorkspaceError as error:
        raise WorkspaceError(
            f"{plan.name} refers to the index {folder}, which cannot be opened ({error}) If it was moved, say where it "
            "is (index=FOLDER, or --index FOLDER). A packed retriever (ragindex export --pack) needs no index."
        ) from error
    if manifest.documents_identity != plan.exported.index.identity:
        raise WorkspaceError(
            f"{folder} is not the index that {plan.name} was exported from, or it was made again. If that index is "
            "elsewhere, say where (index=FOLDER, or --index FOLDER); else export again."
        )
    return folder


# ---------------------------------------------------------------- what would answer differently

_EXPORT_AGAIN = "Build the method with this version and export it again."


def _require_same(plan: _Plan, index: Index) -> None:
    """Raise WorkspaceError if the index would answer differently; warn if the libraries have other versions."""
    exported = plan.exported
    differences = find_other_settings(exported.index, describe_index(index, ""))
    try:
        differences += find_other_parts(exported, index, plan.scheme)
    except MissingPartError as error:
        differences.append(str(error).rstrip("."))
    again = index.command("export", "--method", exported.method.label, "--out", plan.name)
    follow = "" if exported.packed else f" Export again ({again}), or load it with follow=True to follow the index."
    _refuse_differences(differences, plan.name, follow or _EXPORT_AGAIN)
    here = libraries()
    other = [
        f"{name} {was} (here {here[name]})" for name, was in exported.libraries.items() if here.get(name, was) != was
    ]
    if other:
        warnings.warn(
            f"{plan.name} was exported with {', '.join(other)}: scores may differ.", OtherLibrariesWarning, stacklevel=3
        )


def _require_same_models(plan: _Plan, index: Index, *, follow: bool) -> None:
    """Raise WorkspaceError if the encoder or the LLM that answers is another one than was exported."""
    exported, differences = plan.exported, list[str]()
    if exported.encoder is not None:
        expected = index.encoder_id if follow else exported.encoder.id
        if index.encoder.id != expected:
            differences.append(
                f"the encoder {exported.encoder.label} is another one here ({index.encoder.id}, was {expected})"
            )
    if exported.asks and index.model.id != exported.llm.id:
        differences.append(
            f"the LLM {exported.llm.label} is another one here ({index.model.id}, was {exported.llm.id})"
        )
    _refuse_differences(differences, plan.name, "Make the same one available, or export again.")


def _refuse_differences(differences: Sequence[str], name: str, advice: str) -> None:
    if differences:
        raise WorkspaceError(
            f"{name} would answer differently from when it was exported: {'; '.join(differences)}. {advice.strip()}"
        )


@contextmanager
def _closed_on_errors(index: Index) -> Iterator[None]:
    try:
        yield
    except BaseException:
        index.close()
        raise
