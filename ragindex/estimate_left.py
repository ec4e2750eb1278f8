"""What building methods would still cost in an index: what it has built, or has paid for, costs nothing again."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ragindex._util.canonical import digest
from ragindex.accounting import ledger
from ragindex.corpus import Corpus
from ragindex.counting import Counting, FindStored
from ragindex.encoders.vector_cache import find_stored_texts
from ragindex.errors import UsageError
from ragindex.estimate import ChunkingChoice, Estimate, EstimateScope, estimate, estimate_encoding, require_model
from ragindex.index.index import Index
from ragindex.index.manifest import current_values, read_manifest
from ragindex.index.models import CALLS, vector_cache_path
from ragindex.index.parts import paid_by, parts_of, tasks_of, topological_order, uses_encoder
from ragindex.index.sync import finished_parts, parts_to_update
from ragindex.interfaces import Part, Scheme
from ragindex.interfaces.llm import LLM, LLMPlugin, LLMSettings, PaidPlugin
from ragindex.llm.cache import SQLiteCache
from ragindex.plugins import registry
from ragindex.plugins.code_fingerprint import sourced
from ragindex.plugins.registry import PluginSpec
from ragindex.types import Chunking, Document

MOST_CHARACTERS = 300_000
"""Of larger corpora a sample of so many characters is counted before a command starts: that takes seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan:
    """What a build will do in an index: the plugins that it names, and what it changes.

    With `adds` a corpus is added to the index's own documents, and `leaves` returns the ids of those that are removed.
    With `updates` everything that is built is brought up to date too. With `refit`, the parts that use the encoder are
    built anew. The parts of the names `imported` come from a file. Without `keep_calls` paid answers count again.
    `chunking` is what the index is made with, or changed to.
    """

    llm: PluginSpec | None = None
    encoder: PluginSpec | None = None
    language: str | None = None
    seed: int | None = None
    keep_calls: bool = True
    adds: bool = False
    updates: bool = False
    refit: bool = False
    imported: tuple[str, ...] = ()
    chunking: Chunking | None = None
    leaves: Callable[[Index], Set[str]] = lambda index: frozenset()


_AS_IT_IS = BuildPlan()


def find_payees(
    folder: Path, llm: PluginSpec | None = None, encoder: PluginSpec | None = None
) -> tuple[LLMPlugin | None, Any | None]:
    """Return the language model and the encoder that work in an index would pay; None for each that costs nothing.

    Both are the index's own where none is named.
    """
    own = current_values(read_manifest(folder))
    model, encodes = registry.llm(llm or own["llm"]), registry.encoder(encoder or own["encoder"])
    return model if isinstance(model, PaidPlugin) else None, encodes if isinstance(encodes, PaidPlugin) else None


def require_keys(
    folder: Path, methods: Iterable[Scheme | Part[Any]], plan: BuildPlan = _AS_IT_IS, *, reads: bool = False
) -> None:
    """Raise UsageError if a service that methods or parts ask has no key, or an invalid address. Sends no request.

    With `reads`, the language model reads, too. An index that has answers or vectors may need nothing more: then only
    what is left to pay says whether it needs a key (`estimate_left`).
    """
    chosen = list(methods)
    model, encodes = find_payees(folder, plan.llm, plan.encoder)
    parts = topological_order(part for each in chosen for part in parts_of(each))
    built = [part for part in parts if registry.name_of(part) not in plan.imported]
    tasks = [task for each in chosen if isinstance(each, Scheme) for task in tasks_of(each)]
    asks_model = reads or bool(tasks) or any("model" in part.uses for part in built)
    if not (plan.keep_calls and (folder / CALLS).is_file()):
        services = [service for each in chosen for service in paid_by(each)]
        for service in (*([model] if asks_model else []), *services):
            _require_key(service, folder)
    if any(map(uses_encoder, parts)) and not vector_cache_path(folder).is_file():
        _require_key(encodes, folder)


def require_keys_of(estimates: Iterable[Estimate], model: Any, encodes: Any, folder: Path) -> None:
    """Raise UsageError if the language model or the encoder has no key, and by the estimates it needs one."""
    for kind in {row.task.partition(",")[0] for row in estimates}:
        if kind != "requests":  # of a service, which `require_keys` has checked
            _require_key(encodes if kind == "encoding" else model, folder)


def _require_key(service: Any, folder: Path) -> None:
    if isinstance(service, PaidPlugin):
        service.require_key(folder)


def open_paid(folder: Path, llm: LLMPlugin, setting: LLMSettings) -> LLM | None:
    """Open a language model with the answers that the index has paid for; None if it has none. Sends no request."""
    path = folder / CALLS
    keeps_answers = path.is_file() or isinstance(setting.cache, SQLiteCache)  # of a sample that is paid for first
    cached = LLMSettings(cache=SQLiteCache(path), prices=setting.prices, reuse_answers=setting.reuse_answers)
    return llm.open(cached) if keeps_answers else None


def estimate_left(
    folder: Path,
    corpus: Corpus | None,
    methods: Mapping[str, Scheme | Part[Any]] | None,
    setting: LLMSettings,
    plan: BuildPlan = _AS_IT_IS,
    *,
    sample: int = 0,
    thorough: bool = False,
) -> list[Estimate]:
    """Estimate what building methods or parts, by label, over `corpus` still costs in the index `folder`.

    The index need not exist. Without a corpus its own documents count, and without `methods` everything that it has
    built. Nothing is asked or written, but for a `sample`. By default the estimate comes before the work: a part of a
    large corpus is counted, and UsageError is raised if what has to be paid needs a key that is not set. If it is
    `thorough`, everything is counted, and no key is needed. Raises as `estimate` does.
    """
    model, encodes = find_payees(folder, plan.llm, plan.encoder)
    if model is None and encodes is None:
        return []
    if not thorough:
        require_keys(folder, (methods or {}).values(), plan)
    recording = nullcontext() if sample else ledger.unrecorded()  # a sample is paid for
    with recording, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the work itself warns
        state = _read_state(folder, corpus, plan)
        if methods is None or plan.updates:
            also = state.finished if methods else state.outdated
            methods = {**{registry.label(part): part for part in also}, **(methods or {})}
        parts = topological_order(part for each in methods.values() for part in parts_of(each))
        built = [part for part in state.built if not (plan.refit and uses_encoder(part))]
        imported = {*state.imported, *plan.imported}
        scope = EstimateScope(
            language=plan.language or state.language,
            seed=plan.seed or 0,
            chunking=state.chunking,
            built=(*built, *(part for part in parts if registry.name_of(part) in imported)),
            most_characters=None if thorough else MOST_CHARACTERS,
        )
        estimates, writes = list[Estimate](), None
        if model is not None:
            paid = open_paid(folder, model, setting) if plan.keep_calls else None
            require_model(model)
            writes = Counting.beside(model, paid)
            estimates += estimate(state.corpus, methods, model, setting, replace(scope, paid=paid, sample=sample))
        if encodes is not None:
            is_finished = all(part in state.finished for part in parts if uses_encoder(part))
            texts = replace(state.corpus, documents=state.new_documents) if is_finished else state.corpus
            stored = _find_vectors(folder, encodes, setting)
            estimates += estimate_encoding(
                texts, methods, encodes, setting.prices, llm=writes, find_stored=stored, scope=scope
            )
    left = [row for row in estimates if row.calls]
    if not thorough:
        require_keys_of(left, model, encodes, folder)
    return left


def _find_vectors(folder: Path, encoder: Any, setting: LLMSettings) -> FindStored | None:
    """Return what finds the texts whose vectors an index has paid for; None if it has none, or the encoder no key."""
    path = vector_cache_path(folder)
    if not path.is_file():
        return None
    with suppress(UsageError):
        return partial(find_stored_texts, path, sourced(encoder, encoder.open(replace(setting, workspace=folder)).id))
    return None


@dataclass(frozen=True, slots=True)
class _State:
    """The corpus to build over, and what an index has of it.

    `new_documents` are those that it lacks, `finished` the parts that it has with these settings, `outdated` all that
    an update builds, and `built` those that nothing is left of.
    """

    corpus: Corpus
    new_documents: tuple[Document, ...]
    language: str | None = None
    chunking: ChunkingChoice = "corpus"
    finished: tuple[Part[Any], ...] = ()
    outdated: tuple[Part[Any], ...] = ()
    built: tuple[Part[Any], ...] = ()
    imported: frozenset[str] = frozenset()


def _read_state(folder: Path, corpus: Corpus | None, plan: BuildPlan) -> _State:
    if read_manifest(folder) is None:
        corpus = corpus or Corpus(folder.name, "index", (), 0, (), undivided=False)
        return _State(corpus, corpus.documents, chunking=plan.chunking or "corpus")
    with Index.open(folder, llm=plan.llm, encoder=plan.encoder, seed=plan.seed, read_only=True) as index:
        leaving = plan.leaves(index)
        own = tuple(document for document in index.documents if document.id not in leaving)
        known = {_hash_text(document) for document in own}
        corpus = corpus or Corpus(folder.name, "index", own, 0, (), undivided=False)
        rechunks = plan.chunking not in (None, index.chunking)
        new = tuple(document for document in corpus.documents if rechunks or _hash_text(document) not in known)
        if plan.adds:
            replaced = {document.id for document in new}
            corpus = replace(corpus, documents=(*new, *(stored for stored in own if stored.id not in replaced)))
        finished = tuple(finished_parts(index))
        moved = new or leaving or index.corpus_moved()
        built = () if moved else tuple(part for part in finished if not index.record(part).failed)
        outdated, imported = tuple(parts_to_update(index)), frozenset(index.manifest.imports)
        chunking = plan.chunking if rechunks else index.chunking
        return _State(corpus, new, index.language, chunking, finished, outdated, built, imported)


def _hash_text(document: Document) -> str:
    return digest([document.title, document.text])
