"""What building methods would still cost in an index: what it has built, or has paid for, costs nothing again."""

import warnings
from collections.abc import Callable, Collection, Mapping, Set
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
from ragindex.estimate import ChunkingChoice, Estimate, estimate, estimate_encoding, require_model
from ragindex.index.index import Index
from ragindex.index.manifest import current_values, read_manifest
from ragindex.index.models import CALLS, vector_cache_path
from ragindex.index.parts import parts_of, topological_order, uses_encoder
from ragindex.index.sync import finished_parts, parts_to_update
from ragindex.interfaces import Part, Scheme
from ragindex.interfaces.llm import LLM, LLMPlugin, LLMSettings, PaidPlugin
from ragindex.llm.cache import SQLiteCache
from ragindex.plugins import registry
from ragindex.plugins.code_fingerprint import sourced
from ragindex.plugins.registry import PluginSpec
from ragindex.types import Document

MOST_CHARACTERS = 300_000
"""Of larger corpora a sample of so many characters is counted before a command starts: that takes seconds."""


def find_payees(
    folder: Path, llm: PluginSpec | None = None, encoder: PluginSpec | None = None
) -> tuple[LLMPlugin | None, Any | None]:
    """Return the language model and the encoder that work in an index would pay; None for each that costs nothing.

    Both are the index's own where none is named.
    """
    own = current_values(read_manifest(folder))
    model, encodes = registry.llm(llm or own["llm"]), registry.encoder(encoder or own["encoder"])
    return model if isinstance(model, PaidPlugin) else None, encodes if isinstance(encodes, PaidPlugin) else None


def open_paid(folder: Path, llm: LLMPlugin, setting: LLMSettings) -> LLM | None:
    """Open a language model with the answers that the index has paid for; None if it has none. Sends no request."""
    path = folder / CALLS
    keeps_answers = path.is_file() or isinstance(setting.cache, SQLiteCache)  # of a sample that is paid for first
    cached = LLMSettings(cache=SQLiteCache(path), prices=setting.prices, reuse_answers=setting.reuse_answers)
    return llm.open(cached) if keeps_answers else None


def estimate_left(
    folder: Path,
    corpus: Corpus | None,
    wanted: Mapping[str, Scheme | Part[Any]] | None,
    setting: LLMSettings,
    *,
    llm: PluginSpec | None = None,
    encoder: PluginSpec | None = None,
    language: str | None = None,
    seed: int | None = None,
    keep_calls: bool = True,
    adds: bool = False,
    updates: bool = False,
    refit: bool = False,
    imported: Collection[str] = (),
    leaves: Callable[[Index], Set[str]] = lambda index: frozenset(),
    sample: int = 0,
    most_characters: int | None = MOST_CHARACTERS,
) -> list[Estimate]:
    """Estimate what building methods or parts, by label, over `corpus` still costs in the index `folder`.

    The index need not exist. Without a corpus its own documents count, and with `adds` they do too; without `wanted`
    everything that it has built, and with `updates` that too. With `refit`, the parts that use the encoder are built
    anew. The parts of the names `imported` come from a file, and `leaves` returns the ids of documents that are
    removed. Nothing is asked or written, but for a `sample`. Raises as `estimate` does.
    """
    model, encodes = find_payees(folder, llm, encoder)
    if model is None and encodes is None:
        return []
    recording = nullcontext() if sample else ledger.unrecorded()  # a sample is paid for
    with recording, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the work itself warns
        state = _read_state(folder, corpus, llm, encoder, seed, leaves, adds=adds)
        if wanted is None or updates:
            begun = state.begun if wanted else state.outdated
            wanted = {**{registry.label(part): part for part in begun}, **(wanted or {})}
        parts = topological_order(part for each in wanted.values() for part in parts_of(each))
        built = [part for part in state.built if not (refit and uses_encoder(part))]
        free = (*built, *(part for part in parts if registry.name_of(part) in {*state.imported, *imported}))
        options: dict[str, Any] = {
            "language": language or state.language,
            "seed": seed or 0,
            "chunking": state.chunking,
            "built": free,
            "most_characters": most_characters,
        }
        estimates, writes = list[Estimate](), None
        if model is not None:
            paid = open_paid(folder, model, setting) if keep_calls else None
            writes = Counting.beside(require_model(model), paid)
            estimates += estimate(state.corpus, wanted, model, setting, paid=paid, sample=sample, **options)
        if encodes is not None:
            is_begun = all(part in state.begun for part in parts if uses_encoder(part))
            texts = replace(state.corpus, documents=state.new_documents) if is_begun else state.corpus
            options |= {"llm": writes, "find_stored": _find_vectors(folder, encodes, setting)}
            estimates += estimate_encoding(texts, wanted, encodes, setting.prices, **options)
    return [row for row in estimates if row.calls]


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

    `new_documents` are those that it lacks, `begun` the parts that it has with these settings, `outdated` all that an
    update builds, and `built` those that nothing is left of.
    """

    corpus: Corpus
    new_documents: tuple[Document, ...]
    language: str | None = None
    chunking: ChunkingChoice = "corpus"
    begun: tuple[Part[Any], ...] = ()
    outdated: tuple[Part[Any], ...] = ()
    built: tuple[Part[Any], ...] = ()
    imported: frozenset[str] = frozenset()


def _read_state(
    folder: Path,
    corpus: Corpus | None,
    llm: PluginSpec | None,
    encoder: PluginSpec | None,
    seed: int | None,
    leaves: Callable[[Index], Set[str]],
    *,
    adds: bool,
) -> _State:
    if read_manifest(folder) is None:
        corpus = corpus or Corpus(folder.name, "index", (), 0, (), whole=False)
        return _State(corpus, corpus.documents)
    with Index.open(folder, llm=llm, encoder=encoder, seed=seed, read_only=True) as index:
        leaving = leaves(index)
        own = tuple(document for document in index.documents if document.id not in leaving)
        known = {_hash_text(document) for document in own}
        corpus = corpus or Corpus(folder.name, "index", own, 0, (), whole=False)
        new = tuple(document for document in corpus.documents if _hash_text(document) not in known)
        if adds:
            replaced = {document.id for document in new}
            corpus = replace(corpus, documents=(*new, *(stored for stored in own if stored.id not in replaced)))
        begun = tuple(finished_parts(index))
        moved = new or leaving or index.corpus_moved()
        built = () if moved else tuple(part for part in begun if not index.record(part).failed)
        outdated, imported = tuple(parts_to_update(index)), frozenset(index.manifest.imports)
        return _State(corpus, new, index.language, index.chunking, begun, outdated, built, imported)


def _hash_text(document: Document) -> str:
    return digest([document.title, document.text])
