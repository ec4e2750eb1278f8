"""The collections of a server: each an index, open at its last finished state, with the methods that search it.

Searches use the state that they find. When another process has finished a build, the next state is opened and warmed
beside it, and takes its place in one step; the one before is freed when the last search that uses it ends.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from ragindex.errors import MissingPartError, UsageError
from ragindex.export.load import load_retriever
from ragindex.index import Index, IndexRetriever, open_index
from ragindex.llm.budget import Budget
from ragindex.mlflow_tracing import without_traces
from ragindex.plugins import registry
from ragindex.serve.config import CollectionSpec, ServeSettings
from ragindex.serve.refusals import RefusalError
from ragindex.workspace import payments

_CHECK = "warm up"


@dataclass(frozen=True, slots=True)
class ServedState:
    """One finished state of an index, and a retriever for each method, by the name that clients use."""

    index: Index
    retrievers: Mapping[str, IndexRetriever]
    opened_at: float

    @property
    def encoder(self) -> str | None:
        """The label of the encoder that methods search with; None if none of them uses one."""
        labels = (self.index.workspace.encoder_of(registry.scheme(method)) for method in self.retrievers)
        return next(filter(None, labels), None)

    @property
    def language(self) -> str:
        """The language of text analysis."""
        return self.index.workspace.language

    @property
    def tokenizer(self) -> str:
        """The model whose tokens are counted; "" for estimates."""
        return self.index.workspace.tokens_counted_by


class ServedCollection:
    """A collection. `state` may be read by any thread; `refresh` replaces it."""

    def __init__(self, spec: CollectionSpec, state: ServedState) -> None:
        self.spec, self.state = spec, state
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
        name = method or next(iter(state.retrievers))
        if name not in state.retrievers:
            served = ", ".join(state.retrievers)
            raise RefusalError(
                404, f"The collection {self.name!r} is not served with {method!r}. Methods: {served}.", "method"
            )
        return name, state.retrievers[name]

    def refresh(self) -> bool:
        """Move on to the newest finished state; return whether there was a newer one. Raises RagindexError."""
        with self._refreshing:
            if self.is_newest():
                return False
            self.state = open_state(self.spec, self.state.index.newest())
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
        spec, open_state(spec, open_index(spec.folder, read_only=settings.read_only, budget=budget))
    )


def open_exported(spec: CollectionSpec, settings: ServeSettings, budget: Budget | None) -> ServedState:
    """Load what `ragindex export` wrote. Raises the errors of `ragindex.load`."""
    retriever = load_retriever(
        spec.folder, allow_hosts=settings.retriever_hosts, budget=budget, read_only=settings.read_only
    )
    if retriever.loaded is None:
        raise UsageError(f"{spec.folder} was not loaded with an index.")
    return _check_state(ServedState(Index(retriever.loaded), {retriever.method: retriever}, time.time()))


def open_state(spec: CollectionSpec, index: Index) -> ServedState:
    """Open the retrievers of all methods of an index. Raises UsageError and WorkspaceError."""
    retrievers = {registry.label(registry.scheme(method)): index.retriever(method) for method in spec.methods}
    if not retrievers:
        raise MissingPartError(f"The collection {spec.name} has no method. Give one with --method.")
    return _check_state(ServedState(index, retrievers, time.time()))


def _check_state(state: ServedState) -> ServedState:
    """Search once with each method, so that no client waits for what is read then.

    Raises UsageError if a key has a cap and a price that it needs is unknown.
    """
    payments.require_prices(state.index.workspace, [registry.scheme(one) for one in state.retrievers], reads=True)
    search_once(state)
    return state


def search_once(state: ServedState) -> None:
    """Ask each method a question, but for those that call a paid service or a model. Raises RagindexError."""
    with without_traces():
        for method, retriever in state.retrievers.items():
            if not payments.may_cost(state.index.workspace, [registry.scheme(method)]):
                retriever.search(_CHECK, k=1)
