"""The state of a running server, which its APIs share: settings, collections, work slots and metrics."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from ragindex.errors import RagindexError, UsageError
from ragindex.filters import fields
from ragindex.serve.bodies import BodyBudget
from ragindex.serve.collections import ServedCollection, open_collection
from ragindex.serve.config import ServeSettings
from ragindex.serve.ingestion import Ingestion
from ragindex.serve.keys import LOCAL, AccessKey, Keyring, Right, callers_budget
from ragindex.serve.refusals import RefusalError, busy, refuse
from ragindex.serve.telemetry import ServerMetrics, log_error, log_event, trace_searches

_Result = TypeVar("_Result")


class WorkSlots:
    """How many searches and answers run at once. A slot is free again when its work ends, not when its client leaves.

    `overdue` counts those whose client has got the refusal that there is no answer in time.
    """

    def __init__(self, most: int, metrics: ServerMetrics) -> None:
        self.most, self.overdue = most, 0
        self._free = deque([None] * most)  # its methods are atomic: the event loop waits for no thread that has a lock
        self._lock, self._metrics = Lock(), metrics
        metrics.working.set_function(lambda: self.taken)

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return self.most - len(self._free)

    def take(self) -> None:
        """Take a slot. Raises RefusalError (503 with Retry-After) if all are taken."""
        try:
            self._free.pop()
        except IndexError:
            self._metrics.refused.labels("concurrency").inc()
            raise busy(f"The server is answering {self.most} requests. Try again.") from None

    def give_back(self) -> None:
        """Free a slot."""
        self._free.append(None)

    def count_overdue(self, change: int) -> None:
        """Count work beyond its time (1), or its end (-1)."""
        with self._lock:
            self.overdue += change


class Service:
    """A server's state. Blocking work runs in its threads, by `work`."""

    def __init__(self, settings: ServeSettings, read_keys: Callable[[], Keyring] | None = None) -> None:
        self.settings = settings
        self._read_keys = read_keys
        self.metrics = ServerMetrics()
        self.slots = WorkSlots(settings.limits.concurrent, self.metrics)
        self.body_budget, self.documents_budget = BodyBudget(settings.limits.bodies), BodyBudget(settings.limits.bodies)
        self.parsing = asyncio.Lock()
        """Held while a large body is parsed, so that the event loop competes with one thread only."""
        self.pool = ThreadPoolExecutor(settings.limits.concurrent, thread_name_prefix="ragindex-serve")
        trace_searches(settings.trace_ratio)
        self._budget = callers_budget(settings.keys, settings.budget)
        self.collections: Mapping[str, ServedCollection] = {
            spec.name: open_collection(spec, settings, self._budget) for spec in settings.collections
        }
        self.ingestions: Mapping[str, Ingestion] = {
            name: Ingestion(collection, self.metrics, settings.limits, lambda: self.settings.keys, self._budget)
            for name, collection in self.collections.items()
            if not collection.spec.exported
        }
        for name, collection in self.collections.items():
            self.metrics.state_time.labels(name).set(collection.state.opened_at)

    async def work(self, task: Callable[[], _Result]) -> _Result:
        """Run blocking work in a thread, within the caps on concurrency and time.

        Raises RefusalError, also in place of RagindexError. A thread beyond its time keeps its slot till the end.
        """
        self.slots.take()
        context = copy_context()

        def run() -> _Result:
            try:
                return context.run(task)
            finally:
                self.slots.give_back()

        try:
            future = self.pool.submit(run)
        except RuntimeError:  # the pool is shut down
            self.slots.give_back()
            raise busy("The server is stopping.", "stopping") from None
        return await self._await_result(future)

    async def _await_result(self, future: "Future[_Result]") -> _Result:
        seconds = self.settings.limits.timeout
        try:
            waiting = asyncio.wrap_future(future)
            waiting.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may wait any more
            done, _ = await asyncio.wait([waiting], timeout=seconds)
            if not done:
                self.slots.count_overdue(1)
                future.add_done_callback(lambda task: self.slots.count_overdue(-1))
                self.metrics.refused.labels("time").inc()
                raise busy(f"No answer within {seconds:g} seconds.", "timeout")
            return done.pop().result()
        except RagindexError as error:
            log_error(error)
            raise refuse(error) from error

    def authenticate(self, secret: str | None) -> AccessKey:
        """Return the key of a request. Raises RefusalError (401) for a wrong one, or if one is needed.

        A server without keys takes any, because OpenAI's clients must send one.
        """
        if secret is not None and len(self.settings.keys):
            key = self.settings.keys.find(secret)
            if key is None:
                raise _unauthorized("The API key is not valid.")
            return key
        if not self._is_open("read"):
            raise _unauthorized("An API key is required: send 'Authorization: Bearer KEY'.")
        return LOCAL

    def describe_unknown_fields(self) -> Iterator[str]:
        """Yield a sentence for each metadata key that no document has, named by the filter of a key that reads."""
        list_keys = cache(lambda name: self.collections[name].state.list_metadata_keys())
        for key in (each for each in self.settings.keys.keys if "read" in each.rights):
            named = sorted({name.removeprefix("meta.") for name in fields(key.where) if name.startswith("meta.")})
            for name in filter(key.opens, self.collections if named else ()):
                known = list_keys(name)
                for unknown in named:
                    if unknown not in known:
                        yield (
                            f"The key {key.name!r} finds nothing in {name}: its filter names the metadata key "
                            f"{unknown!r}, which no document has. Available: {', '.join(known) or 'none'}."
                        )

    def reload_keys(self) -> None:
        """Read the keys again; what they have paid still counts. Where they cannot be read, the known ones stay."""
        if self._read_keys is None:
            return
        try:
            keys = self._read_keys()
            if keys.capped and self._budget is None:
                raise UsageError("The first cap on what a key may pay needs a restart, which checks all prices.")
            self.settings = replace(self.settings, keys=keys.continue_from(self.settings.keys))
        except UsageError as error:
            log_event("keys_kept", message=str(error))
        else:
            log_event("keys", names=[key.name for key in keys.keys])
            for sentence in self.describe_unknown_fields():
                log_event("filter_without_documents", message=sentence)
            for ingestion in self.ingestions.values():
                ingestion.lift_caps()

    def require_right(self, key: AccessKey, right: Right) -> None:
        """Raise RefusalError unless the key has a right, or anyone has it."""
        if right in key.rights or self._is_open(right):
            return
        if key is LOCAL:
            raise _unauthorized(
                f"This needs a key that may {right}. Start the server with RAGINDEX_{right.upper()}_KEY."
            )
        raise RefusalError(403, f"The key {key.name!r} may not {right}.", "right")

    def _is_open(self, right: Right) -> bool:
        """Return whether a client without a key has this right."""
        return right in LOCAL.rights and not (self.settings.exposed or self.settings.keys.guards(right))

    def refresh(self, name: str) -> bool:
        """Move a collection on to its newest finished state; return whether there was one. Raises RagindexError."""
        collection = self.collections[name]
        if not collection.refresh():
            return False
        self.metrics.state_time.labels(name).set(collection.state.opened_at)
        log_event("state", collection=name, documents=len(collection.state.index))
        return True

    def hangs(self) -> bool:
        """Return whether every slot is held by work beyond its time."""
        return self.slots.overdue >= self.slots.most

    def describe_sync(self, collection: str) -> dict[str, Any]:
        """Return how far the documents of a collection are; `pending` is None if accepted changes cannot be read."""
        ingestion = self.ingestions.get(collection)
        progress = {"pending": 0, "damaged": 0, "sync_failure": ""} if ingestion is None else ingestion.describe()
        return {"newest": self.collections[collection].is_newest(), **progress}

    def close(self) -> None:
        """Stop taking work, and release the indexes."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        for collection in self.collections.values():
            collection.close()


def _unauthorized(message: str) -> RefusalError:
    return RefusalError(401, message, "invalid_api_key", {"WWW-Authenticate": "Bearer"})
