"""The collections of a server: each an index, open at its last finished state, with the methods that search it.

Searches use the state that they find. When another process has finished a build, the next state is opened and warmed
beside it, and takes its place in one step; the one before is freed when the last search that uses it ends.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from ragindex.errors import MissingPartError, StoreError
from ragindex.export.load import load_retriever
from ragindex.index.index import Index, open_index
from ragindex.index.retriever import IndexRetriever, PassagePositions
from ragindex.llm.budget import Budget
from ragindex.mlflow_tracing import without_traces
from ragindex.plugins import registry
from ragindex.serve.config import CollectionSpec, ServeSettings
from ragindex.serve.refusals import RefusalError
from ragindex.serve.telemetry import log_error
from ragindex.types import Retrieval

_CHECK = "warm up"


@dataclass(frozen=True, slots=True)
class ServedState:
    """One finished state of an index, and a retriever for each method, by the name that clients use."""

    index: Index
    retrievers: Mapping[str, IndexRetriever]
    opened_at: float
    broken: Mapping[str, str] = field(default_factory=dict)
    """Why methods cannot search, by name: their parts are damaged."""

    @property
    def encoder(self) -> str | None:
        """The label of the encoder that methods search with; None if none of them uses one."""
        labels = (self.index.encoder_of(registry.scheme(method)) for method in self.retrievers)
        return next(filter(None, labels), None)

    def list_metadata_keys(self) -> list[str]:
        """Return the metadata keys that documents have, sorted."""
        methods = [registry.scheme(method) for method in self.retrievers]
        parts = (part for method in methods for part in self.index.open_collections(method).values())
        fields = {field for part in parts for field in part.fields()}
        return sorted(field.removeprefix("meta.") for field in fields if field.startswith("meta."))

    @property
    def language(self) -> str:
        """The language of text analysis."""
        return self.index.language

    @property
    def tokenizer(self) -> str:
        """The model whose tokens are counted; "" for estimates."""
        return self.index.tokens_counted_by


class ServedCollection:
    """A collection. `state` may be read by any thread; `refresh` replaces it."""

    def __init__(self, spec: CollectionSpec, state: ServedState) -> None:
        self.spec, self.state = spec, state
        self._default = next(map(_label, spec.methods), None)
        self._refreshing = Lock()

    @property
    def name(self) -> str:
        """The name that clients use."""
        return self.spec.name

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods, the default one first."""
        return tuple(self.state.retrievers)

    def retriever(self, method: str, state: ServedState) -> tuple[str, IndexRetriever]:
        """Return the name and the retriever of a method ("": the default). Raises RefusalError if it is not served."""
        name = method or self.default(state)
        if name in state.broken:
            raise RefusalError(
                503,
                f"The method {name!r} cannot search, because its data are damaged. Whoever runs the server stops it "
                "and runs ragindex repair, then ragindex index. The server's log has the reason.",
                "damaged",
            )
        if name not in state.retrievers:
            served = ", ".join(state.retrievers)
            raise RefusalError(
                404, f"The collection {self.name!r} is not served with {method!r}. Methods: {served}.", "method"
            )
        return name, state.retrievers[name]

    def default(self, state: ServedState) -> str:
        """Return the name of the default method, which may be broken."""
        return self._default or next(iter(state.retrievers))

    def refresh(self) -> bool:
        """Move on to the newest finished state; return whether there was a newer one. Raises RagindexError."""
        with self._refreshing:
            if self.is_newest():
                return False
            state = open_state(self.spec, self.state.index.newest())
            if state.broken.keys() - self.state.broken.keys():
                raise StoreError(f"The newest state of {self.name} is damaged, and the one before is served.")
            self.state = state
            return True

    def is_newest(self) -> bool:
        """Return whether searches see the last finished build. An exported retriever answers as it was exported."""
        return self.spec.exported or self.state.index.is_newest()

    def close(self) -> None:
        """Release the index; running searches end as they are."""
        self.state.index.close()


def open_collection(spec: CollectionSpec, settings: ServeSettings, budget: Budget | None) -> ServedCollection:
    """Open a collection. Raises WorkspaceError, MissingPartError with the command that builds a method, UsageError."""
    if spec.exported:
        return ServedCollection(spec, open_exported(spec, settings, budget))
    return ServedCollection(
        spec,
        open_state(spec, open_index(spec.folder, read_only=settings.read_only, budget=budget, cache=settings.cache)),
    )


def open_exported(spec: CollectionSpec, settings: ServeSettings, budget: Budget | None) -> ServedState:
    """Load what `ragindex export` wrote. Raises the errors of `ragindex.load`."""
    retriever = load_retriever(
        spec.folder,
        allow_hosts=settings.retriever_hosts,
        budget=budget,
        cache=settings.cache,
        read_only=settings.read_only,
    )
    return _check_state(ServedState(retriever.index, {retriever.method: retriever}, time.time()))


def open_state(spec: CollectionSpec, index: Index) -> ServedState:
    """Open the retrievers of all methods of an index that can search. Raises UsageError, WorkspaceError, StoreError."""
    retrievers, broken = dict[str, IndexRetriever](), dict[str, StoreError]()
    for name in map(_label, spec.methods):
        try:
            retrievers[name] = _open_retriever(index, name)
        except StoreError as error:
            broken[name] = error
    if not (retrievers or broken):
        raise MissingPartError(f"The collection {spec.name} has no method. Give one with --method.")
    return _check_state(ServedState(index, retrievers, time.time()), broken)


def _label(method: str) -> str:
    return registry.label(registry.scheme(method))


class _SparePositions(PassagePositions):
    """Positions that are left out where the documents cannot be read: what was found is answered without them."""

    def locate(self, retrievals: Sequence[Retrieval], first: int | None = None) -> list[Retrieval]:
        try:
            return super().locate(retrievals, first)
        except StoreError as error:
            log_error(error)
            return list(retrievals)


def _open_retriever(index: Index, method: str) -> IndexRetriever:
    """Open a method, also where the documents of the index are lost. Raises StoreError if its parts are damaged."""
    try:
        opened = index.retriever(method)
    except StoreError as error:
        log_error(error)
        return IndexRetriever(method, index.open_method(method), PassagePositions(()))
    return replace(opened, positions=_SparePositions(opened.positions.documents, opened.positions.lease))


def _check_state(state: ServedState, broken: Mapping[str, StoreError] | None = None) -> ServedState:
    """Search once with each method, so that no client waits for what is read then. Those that are damaged are broken.

    Raises UsageError if a key has a cap and a price that it needs is unknown, and StoreError if all are broken.
    """
    index = state.index
    index.require_prices([registry.scheme(retriever) for retriever in state.retrievers], also=index.model.plugin)
    broken = dict(broken or {})
    for method in state.retrievers:
        try:
            _search_method(state, method)
        except StoreError as error:
            broken[method] = error
    for damage in broken.values():
        log_error(damage)
    intact = {method: retriever for method, retriever in state.retrievers.items() if method not in broken}
    if broken and not intact:
        raise next(iter(broken.values()))
    return replace(state, retrievers=intact, broken={method: str(damage) for method, damage in broken.items()})


def search_once(state: ServedState) -> None:
    """Ask each method a question, but for those that call a paid service or a model. Raises RagindexError."""
    for method in state.retrievers:
        _search_method(state, method)


def _search_method(state: ServedState, method: str) -> None:
    with without_traces():
        if not state.index.may_cost(registry.scheme(method)):
            state.retrievers[method].search(_CHECK, k=1)
