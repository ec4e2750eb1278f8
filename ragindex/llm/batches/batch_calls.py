"""Calls that are answered in batches: what is missing in the cache is sent, waited for, and put into the cache.

Whoever asks then finds the answers there, as if they had been asked for one by one. Three kinds of requests do not go
into a batch. The first request of each task is sent by itself, so that an endpoint that refuses its form refuses one
request and not thousands. Requests that the batch could not answer, and those that ask again (a corrected or longer
answer), follow in another batch if they are many; fewer than 100 are left to the caller, who asks one by one: another
batch may take another day, and they cost little.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ragindex.accounting import ledger
from ragindex.counts import many
from ragindex.errors import LLMError, ServiceError, UsageError
from ragindex.http import Trouble, TroubleError
from ragindex.llm.batches import records
from ragindex.llm.batches.collect import BatchCollector
from ragindex.llm.batches.endpoint import BatchEndpoint, BatchState
from ragindex.llm.batches.records import BatchRecord
from ragindex.llm.batches.results import BatchResults
from ragindex.llm.batches.send import MOST_REQUESTS, BatchSender
from ragindex.llm.batches.wait import BatchWatch, describe_batch, print_line
from ragindex.llm.budget import Booking
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.cached_calls import CachedCalls
from ragindex.llm.chat_parameters import ChatParameters
from ragindex.llm.openai_chat import ChatRequest, OpenAIChat
from ragindex.llm.rate_limits import Limits
from ragindex.llm.settings import LLMSettings
from ragindex.llm.tasks import Task

_FEW = 100  # fewer requests that follow a batch are asked one by one
_PROBES = 3  # requests that may fail before the form of a task's requests is given up
_PLANNING = "0" * 16  # the lock of whoever decides what is sent
_TOO_MANY_TOKENS = "token_limit_exceeded"  # the account has too many tokens in batches


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A request without an answer; `first` unless it asks again because an answer was unusable."""

    request: ChatRequest
    first: bool


FindWanted: TypeAlias = Callable[[], Mapping[str, WantedCall]]
"""Finds the calls, by key, that have to be answered next."""


@dataclass(slots=True)
class _Progress:
    """What the batches of one `map` have brought: keys that were in a batch, and keys that no batch can answer."""

    tried: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)


class BatchCalls:
    """Calls of one model that are answered in batches. Thread-safe."""

    def __init__(
        self, chat: OpenAIChat, calls: CachedCalls, limits: Limits, given: ChatParameters, setting: LLMSettings
    ) -> None:
        self._chat, self._calls, self._given, self._setting = chat, calls, given, setting
        self._endpoint = BatchEndpoint(chat)
        self._sender = BatchSender(chat, self._endpoint, limits, given.retries, setting.seed)
        self._collector = BatchCollector(chat, calls, self._endpoint, self._sender, given.concurrency)
        self._watch = BatchWatch(self._endpoint, limits, given.batch_poll_seconds, given.retries)
        self._proven: set[str] = set()  # schemas of which the endpoint has answered a request
        self._most = MOST_REQUESTS

    def fetch(self, task: Task[Any], find_wanted: FindWanted) -> None:
        """Put answers into the cache until none is wanted, or only those that are better asked for one by one.

        Time spent here is replaced by that of the answers when they are asked for. Raises BudgetError, ServiceError,
        StoreError, and UsageError without a cache.
        """
        cache, start = self._setting.cache, time.perf_counter()
        if not isinstance(cache, SQLiteCache):
            raise UsageError("Batches need the cache, so that nothing is paid twice. Leave out --no-cache.")
        progress = _Progress()
        try:
            with self._explained(task):
                while self._fetch_some(cache, task, find_wanted, progress):
                    pass
        finally:
            ledger.add_time(0.0, time.perf_counter() - start)

    def fetch_sent(self, task: Task[Any], find_wanted: FindWanted) -> None:
        """Put answers into the cache that batches of earlier runs have brought; send nothing and wait for nothing.

        Raises UsageError if such a batch has not ended: its requests would be paid for twice.
        """
        cache = self._setting.cache
        if not isinstance(cache, SQLiteCache) or not records.read_batches(cache):
            return
        with self._explained(task), cache.claimed(_PLANNING):
            requests = {key: one.request for key, one in find_wanted().items()}
            for batch in self._sender.find_sent(cache, set(requests)):
                state = self._endpoint.look(batch.id)
                if not state.ended:
                    raise UsageError(
                        f"Some of these requests are paid for in another way: {describe_batch(batch, state)}. "
                        "Set batch=true to wait for it. To pay for them twice, run first: "
                        "ragindex cache --index DIR --forget-batches"
                    )
                self._collector.collect(cache, batch, state, requests, Booking())

    def _fetch_some(self, cache: SQLiteCache, task: Task[Any], find_wanted: FindWanted, progress: _Progress) -> bool:
        """Send what is wanted, wait for it and for what was sent before; return whether there was anything."""
        with ExitStack() as reserving:
            with cache.claimed(_PLANNING):
                wanted = {key: one for key, one in find_wanted().items() if key not in progress.left}
                sent = self._sender.find_sent(cache, set(wanted))
                free = {key: one for key, one in wanted.items() if not any(key in batch.keys for batch in sent)}
                chosen = self._choose(task, free, progress, waits=bool(sent))
                booking = reserving.enter_context(self._reserve(chosen))
                sent += self._sender.send(cache, task, chosen, self._most)
            requests = {key: one.request for key, one in wanted.items()}

            def collect(batch: BatchRecord, state: BatchState) -> None:
                results = self._collector.collect(cache, batch, state, requests, booking)
                if results is not None:
                    self._react(task, batch, state, results, progress)

            self._watch.wait(sent, collect)
        if not sent and (one_by_one := len(free) + len(progress.left)):
            print_line(f"{task.name}: {many(one_by_one, 'request')} in no batch, asked one by one at the full price.")
        return bool(sent)

    # ---------------------------------------------------------------- what is sent

    def _choose(
        self, task: Task[Any], free: Mapping[str, WantedCall], progress: _Progress, *, waits: bool
    ) -> dict[str, ChatRequest]:
        """Return the requests to send now: all, as many as the budget allows, or none if they are not worth a batch."""
        new = [key for key, one in free.items() if one.first and key not in progress.tried]
        if not new and len(free) < _FEW:
            return {}
        requests = {key: one.request for key, one in free.items()}
        progress.left |= self._prove_form(task, requests, new)
        if self._most < MOST_REQUESTS:  # the account takes no more tokens at once: one batch after the other
            requests = dict(list(requests.items())[: 0 if waits else self._most])
        return self._afford(requests, waits=waits)

    def _prove_form(self, task: Task[Any], requests: dict[str, ChatRequest], new: Iterable[str]) -> set[str]:
        """Answer one of the requests, and take it from them; also take those that failed, and return their keys.

        Raises ServiceError if the endpoint has no Batch API, or answers none of the first three.
        """
        schema = next(iter(requests.values())).schema
        if schema in self._proven:
            return set()
        self._sender.retry(self._endpoint.require)
        failures: dict[str, LLMError] = {}
        for key in list(new)[:_PROBES]:
            try:
                self._calls.ask_unrecorded(task, requests.pop(key))
            except LLMError as error:
                failures[key] = error
            else:
                break
        if len(failures) == _PROBES:
            last = list(failures.values())[-1]
            raise ServiceError(f"No batch is sent: {_PROBES} requests by themselves failed. {last}")
        self._proven.add(schema)
        return set(failures)

    def _afford(self, requests: dict[str, ChatRequest], *, waits: bool) -> dict[str, ChatRequest]:
        """Return the first requests that the budget is enough for, whatever they cost.

        Raises BudgetError if it is not enough for one, unless the run waits for other batches.
        """
        budget = self._setting.budget
        if budget is None or not requests:
            return requests
        left, chosen = budget.left, dict[str, ChatRequest]()
        for key, request in requests.items():
            cost = self._calls.bound_cost(request) or 0.0
            if cost > left:
                if not chosen and not waits:
                    with budget.reserved(cost):
                        pass
                break
            chosen[key], left = request, left - cost
        return chosen

    def _reserve(self, chosen: Mapping[str, ChatRequest]) -> AbstractContextManager[Booking]:
        """Reserve what the requests can cost. What was sent before is paid whatever the budget, and counts in it."""
        budget = self._setting.budget
        if budget is None or not chosen:
            return nullcontext(Booking()) if budget is None else budget.recorded()
        return budget.reserved(sum(self._calls.bound_cost(one) or 0.0 for one in chosen.values()))

    # ---------------------------------------------------------------- what comes back

    def _react(
        self, task: Task[Any], batch: BatchRecord, state: BatchState, results: BatchResults, progress: _Progress
    ) -> None:
        """Decide on what the batch did not answer. Raises ServiceError if going on would only fail again."""
        if any(code == _TOO_MANY_TOKENS for code, _ in state.problems) and len(batch.keys) > 1:
            self._most = min(self._most, len(batch.keys) // 2)
            return
        progress.tried |= batch.keys
        progress.left |= {key for key, trouble in results.troubles.items() if not trouble.passes}
        for trouble in results.troubles.values():
            if trouble.stops:
                raise self._explain(task, trouble)
        said = describe_batch(batch, state)
        reasons = [*(message for _, message in state.problems), *(str(one) for one in results.troubles.values())]
        reason = f" The first error: {self._chat.hide(reasons[0])}" if reasons else ""
        if state.status == "failed":
            raise ServiceError(f"The {said}; nothing was paid.{reason}")
        if state.status == "cancelled":
            raise ServiceError(
                f"The {said}. The answers are kept. Run the same command to send the rest again.{reason}"
            )
        if not results.replies and len(batch.keys) >= _FEW:
            passes = not results.troubles or any(one.passes for one in results.troubles.values())
            hint = " Run the same command to send them again, or set batch=false." if passes else ""
            raise ServiceError(f"The {said}.{hint}{reason}")
        self._count_unanswered(task, batch, results)

    def _count_unanswered(self, task: Task[Any], batch: BatchRecord, results: BatchResults) -> None:
        for _ in range(len(batch.keys) - len(results.replies)):
            ledger.count_outcome(task.name, "unanswered in a batch")

    @contextmanager
    def _explained(self, task: Task[Any]) -> Iterator[None]:
        """Turn the TroubleError of a request inside into a ServiceError; what is on its way stays known."""
        try:
            yield
        except TroubleError as error:
            trouble = error.trouble
        else:
            return
        raise self._explain(task, trouble)

    def _explain(self, task: Task[Any], trouble: Trouble) -> ServiceError:
        """Return the error for a failed request to the Batch API."""
        if trouble.passes or trouble.away:
            return ServiceError(
                f"The Batch API at {self._chat.base_url} did not answer; {trouble}. What was sent goes on there. "
                "Run the same command to go on."
            )
        return ServiceError(f"{self._calls.explain(task, trouble)}")
