"""Calls that are answered in batches: what is missing in the cache is sent, waited for, and put into the cache.

The caller then finds the answers there, as if they had been asked for one by one. Three kinds of requests do not go
into a batch. The first request of each task is sent by itself, so that an endpoint that refuses its form refuses one
request and not thousands. Requests that the batch could not answer, and those that ask again (a corrected or longer
answer), follow in another batch if they are many; fewer than 100 are left to the caller, who asks one by one: another
batch may take another day, and they cost little.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ragindex._util.http import RequestProblem, RequestProblemError
from ragindex._util.text import many
from ragindex.accounting import ledger
from ragindex.accounting.spending_log import log_payment
from ragindex.errors import LLMError, ServiceError, UsageError
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.batches.endpoint import (
    MOST_REQUESTS,
    BatchEndpoint,
    BatchRecord,
    BatchResults,
    BatchState,
    drop_batches,
    read_batches,
    read_results,
)
from ragindex.llm.budget import Booking
from ragindex.llm.cache import CachedResponse, CacheEntry, CallSource, SQLiteCache
from ragindex.llm.cached_calls import CachedCalls
from ragindex.llm.call_keys import complete_key
from ragindex.llm.openai_chat import ChatRequest, OpenAIChat, Reply
from ragindex.llm.openai_parameters import ChatParameters
from ragindex.llm.tasks import Task

_FEW = 100  # fewer requests that follow a batch are asked one by one
_PROBES = 3  # requests that may fail before the form of a task's requests is given up
_PLANNING = "0" * 16  # the lock of whoever decides what is sent
_TOO_MANY_TOKENS = "token_limit_exceeded"  # the account has too many tokens in batches
_ROWS = 1_000  # answers committed at once
_SILENCE = 600.0  # seconds without news, after which the same line is shown again
_LONGEST_PAUSE = 3600.0  # seconds; a longer Retry-After is not waited for at once
_TOO_MANY, _UNKNOWN = 429, 404
_SHORT = RequestProblem("the result file is short")


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
        self, cache: SQLiteCache, chat: OpenAIChat, calls: CachedCalls, parameters: ChatParameters, setting: LLMSettings
    ) -> None:
        self._cache, self._chat, self._calls, self._given = cache, chat, calls, parameters
        self._budget, self._clock, self._index = setting.budget, setting.clock, str(setting.workspace or "")
        self._endpoint = BatchEndpoint(cache, chat, parameters.retries, setting.seed, setting.clock)
        self._shown: dict[str, tuple[tuple[object, ...], float]] = {}  # the last news of each batch, and when
        self._proven: set[str] = set()  # schemas of which the endpoint has answered a request
        self._most = MOST_REQUESTS

    def fetch(self, task: Task[Any], find_wanted: FindWanted) -> None:
        """Put answers into the cache until none is wanted, or only those that are better asked for one by one.

        Time spent here is replaced by that of the answers when they are asked for. Raises BudgetError, ServiceError,
        StoreError.
        """
        start, progress = time.perf_counter(), _Progress()
        try:
            with self._explained(task):
                while self._fetch_some(task, find_wanted, progress):
                    pass
        finally:
            ledger.add_time(0.0, time.perf_counter() - start)

    def fetch_sent(self, task: Task[Any], find_wanted: FindWanted) -> None:
        """Put answers into the cache that batches of earlier runs have brought; send nothing and wait for nothing.

        Raises UsageError if such a batch has not ended: its requests would be paid for twice.
        """
        if not read_batches(self._cache):
            return
        with self._explained(task), self._cache.claimed(_PLANNING):
            requests = {key: call.request for key, call in self._name(task, find_wanted()).items()}
            for batch in self._endpoint.find_sent(requests.keys()):
                state = self._endpoint.look(batch.id)
                if not state.ended:
                    raise UsageError(
                        f"Some of these requests are paid for in another way: {_describe(batch, state)}. "
                        "Set batch=true to wait for it. To pay for them twice, run first: "
                        "ragindex cache --index DIR --forget-batches"
                    )
                with self._reserve({}) as booking:
                    self._collect(task, batch, state, requests, booking)

    def _fetch_some(self, task: Task[Any], find_wanted: FindWanted, progress: _Progress) -> bool:
        """Send what is wanted, wait for it and for what was sent before; return whether there was anything."""
        with ExitStack() as reserving:
            with self._cache.claimed(_PLANNING):
                calls = self._name(task, find_wanted())
                calls = {key: call for key, call in calls.items() if key not in progress.left}
                batches = self._endpoint.find_sent(calls.keys())
                free = {key: call for key, call in calls.items() if not any(key in batch.keys for batch in batches)}
                chosen = self._choose(task, free, progress, waits=bool(batches))
                booking = reserving.enter_context(self._reserve(chosen))
                batches += self._endpoint.send(task, chosen, self._most)
            requests = {key: call.request for key, call in calls.items()}

            def finish(batch: BatchRecord, state: BatchState) -> None:
                results = self._collect(task, batch, state, requests, booking)
                if results is not None:
                    self._react(task, batch, state, results, progress)

            self._wait(batches, finish)
        if not batches and (one_by_one := len(free) + len(progress.left)):
            _print(f"{task.name}: {many(one_by_one, 'request')} in no batch, asked one by one at the full price.")
        return bool(batches)

    def _name(self, task: Task[Any], calls: Mapping[str, WantedCall]) -> dict[str, WantedCall]:
        """Return the calls by their names: those of earlier versions where a batch on its way has them."""
        sent_keys = frozenset[str]().union(*(batch.keys for batch in read_batches(self._cache)))
        if sent_keys <= calls.keys():
            return dict(calls)
        names = {key: self._calls.keys(task, call.request).names() for key, call in calls.items()}
        return {next((name for name in names[key] if name in sent_keys), key): call for key, call in calls.items()}

    # ---------------------------------------------------------------- what is sent

    def _choose(
        self, task: Task[Any], free: Mapping[str, WantedCall], progress: _Progress, *, waits: bool
    ) -> dict[str, ChatRequest]:
        """Return the requests to send now: all, as many as the budget allows, or none if they are not worth a batch."""
        new = [key for key, call in free.items() if call.first and key not in progress.tried]
        if not new and len(free) < _FEW:
            return {}
        requests = {key: call.request for key, call in free.items()}
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
        self._endpoint.retry(self._endpoint.require)
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
        if self._budget is None:
            return requests
        left, chosen = self._budget.left, dict[str, ChatRequest]()
        for key, request in requests.items():
            cost = self._calls.bound_cost(request) or 0.0
            if cost > left:
                if not chosen and not waits:
                    with self._budget.reserved(cost):
                        pass
                break
            chosen[key], left = request, left - cost
        return chosen

    def _reserve(self, chosen: Mapping[str, ChatRequest]) -> AbstractContextManager[Booking]:
        """Reserve what the requests can cost. What was sent before is paid whatever the budget, and counts in it."""
        if self._budget is None:
            return nullcontext(Booking())
        if not chosen:
            return self._budget.recorded()
        return self._budget.reserved(sum(self._calls.bound_cost(request) or 0.0 for request in chosen.values()))

    # ---------------------------------------------------------------- waiting

    def _wait(self, batches: Sequence[BatchRecord], finish: Callable[[BatchRecord, BatchState], None]) -> None:
        """Call `finish` with each batch that has ended. Whatever ends the wait, the batches go on.

        Raises RequestProblemError if the endpoint cannot be asked, ServiceError if it does not know a batch.
        """
        waiting = list(batches)
        try:
            while waiting:
                for batch in list(waiting):
                    state = self._look(batch)
                    self._show(batch, state)
                    if state.ended:
                        waiting.remove(batch)
                        finish(batch, state)
                if waiting:
                    self._clock.sleep(self._given.batch_poll_seconds)
        except BaseException as error:
            if waiting and not isinstance(error, Exception):  # Ctrl-C
                names = ", ".join(batch.id for batch in waiting)
                _print(f"Not ended: {names}. The endpoint goes on, and so does the same command, with no new request.")
            raise

    def _look(self, batch: BatchRecord) -> BatchState:
        """Return the state of a batch, asking again after failures that pass, and after any Retry-After."""
        failures = 0
        while True:
            try:
                return self._endpoint.look(batch.id)
            except RequestProblemError as error:
                problem = error.problem
            if problem.status == _TOO_MANY and problem.retry_after is not None:
                self._clock.sleep(min(problem.retry_after, _LONGEST_PAUSE))
                continue
            failures += 1
            if problem.status == _UNKNOWN:
                raise ServiceError(
                    f"The endpoint {batch.base_url} knows no batch {batch.id} ({problem}), which holds "
                    f"{len(batch.keys):,} requests that are paid for. Set the key of the account that sent it. "
                    "To give its answers up, run: ragindex cache --index DIR --forget-batches"
                )
            if not problem.passes or failures > self._given.retries:
                raise RequestProblemError(problem)
            self._clock.sleep(self._given.batch_poll_seconds)

    def _show(self, batch: BatchRecord, state: BatchState) -> None:
        """Print a line whenever there is news of a batch; while a progress bar is shown, it appears above the bar."""
        news, now = (state.status, state.completed, state.failed), time.monotonic()
        before, at = self._shown.get(batch.name, ((), 0.0))
        if news == before and now < at + _SILENCE:
            return
        self._shown[batch.name] = news, now
        _print(f"{batch.task}: {_describe(batch, state)}")
        if not before and not state.ended:
            _print("A batch may take a day. Ctrl-C leaves it running, and the same command goes on with it.")

    # ---------------------------------------------------------------- what comes back

    def _collect(
        self,
        task: Task[Any],
        batch: BatchRecord,
        state: BatchState,
        requests: Mapping[str, ChatRequest],
        booking: Booking,
    ) -> BatchResults | None:
        """Put the answers of a batch into the cache and forget it; None if another process has.

        Raises ServiceError if the result file lacks answers that the endpoint says it has; those that came are kept.
        """
        with self._cache.claimed(batch.name):
            if all(other.name != batch.name for other in read_batches(self._cache)):
                return None
            results, answers = self._download(batch, state), list[tuple[str, CacheEntry]]()
            for key, reply in results.replies.items():
                row = self._make_row(task, batch, key, reply, requests.get(key))
                if row is not None:
                    answers.append((key, row))
            for at in range(0, len(answers), _ROWS):
                rows = [row for _, row in answers[at : at + _ROWS]]
                self._cache.put_many(rows)
                self._calls.add_arrived(key for key, _ in answers[at : at + _ROWS])
                booking.pay(sum(answer.money or 0.0 for _, _, answer in rows))
                self._log([answer for _, _, answer in rows], batch)
            for key, failure in results.failures.items():
                self._calls.record_failure(task, requests.get(key), failure, booking, batched=True)
            if results.answered < state.completed:
                known = results.replies.keys() | results.problems.keys()
                others = [requests[key] for key in batch.keys & requests.keys() - known]
                others.sort(key=lambda request: self._calls.bound_cost(request) or 0.0)
                # Nobody knows which are missing: the dearest may be.
                for request in others[results.answered - state.completed :]:
                    self._calls.record_failure(task, request, RequestProblemError(_SHORT), booking, batched=True)
                raise ServiceError(
                    f"{state.completed - results.answered:,} answers are missing in the result file of batch "
                    f"{batch.id}, and are paid for. The others are kept. Run the same command to read it again."
                )
            drop_batches(self._cache, [batch.name])
        return results

    def _make_row(
        self, task: Task[Any], batch: BatchRecord, key: str, reply: Reply, request: ChatRequest | None
    ) -> CacheEntry | None:
        """Return an answer with its place in the cache; None if a run that crashed has put it there."""
        if request is not None:
            return self._calls.make_entry(task, request, reply, batch.at)
        stored = (self._cache.get(each) for each in (key, complete_key(key)))
        if any(answer is not None and answer.at >= batch.at for answer in stored):
            return None
        source = CallSource(batch.task, batch.version, self._chat.provider, batch.model, batch.base_url)
        return key, source, self._calls.count_batched(reply, None)

    def _log(self, answers: Sequence[CachedResponse], batch: BatchRecord) -> None:
        """Log what answers of a batch have cost, as one payment."""
        costs = [answer.money for answer in answers]
        log_payment(
            index=self._index,
            model=batch.model,
            task=batch.task,
            input_tokens=sum(answer.input_tokens for answer in answers),
            output_tokens=sum(answer.output_tokens for answer in answers),
            money=None if None in costs else sum(cost or 0.0 for cost in costs),
            estimated=any(answer.estimated for answer in answers),
            calls=len(answers),
        )

    def _download(self, batch: BatchRecord, state: BatchState) -> BatchResults:
        """Read the result files, again if they are shorter than the endpoint says."""
        count = max(len(batch.keys), 1)
        seconds = state.seconds * min(self._given.concurrency, count) / count  # so that all took `state.seconds`
        results = BatchResults()

        def read() -> BatchResults:
            nonlocal results
            files = map(self._endpoint.download, state.files)
            results = read_results(files, batch.keys, lambda body: self._chat.read(body, batch.structure, seconds))
            if results.answered < state.completed:
                raise RequestProblemError(_SHORT)
            return results

        try:
            return self._endpoint.retry(read)
        except RequestProblemError as error:
            if error.problem is not _SHORT:
                raise
            return results

    def _react(
        self, task: Task[Any], batch: BatchRecord, state: BatchState, results: BatchResults, progress: _Progress
    ) -> None:
        """Decide on what the batch did not answer. Raises ServiceError if going on would only fail again."""
        if any(code == _TOO_MANY_TOKENS for code, _ in state.problems) and len(batch.keys) > 1:
            self._most = min(self._most, len(batch.keys) // 2)
            return
        problems = results.problems.values()
        progress.tried |= batch.keys
        progress.left |= {key for key, problem in results.problems.items() if not problem.passes}
        for problem in problems:
            if problem.stops:
                raise self._explain(task, problem)
        outcome = _describe(batch, state)
        reasons = [*(message for _, message in state.problems), *map(str, problems)]
        reason = f" The first error: {self._chat.hide(reasons[0])}" if reasons else ""
        if state.status == "failed":
            raise ServiceError(f"The {outcome}; nothing was paid.{reason}")
        if state.status == "cancelled":
            hint = "The answers are kept. Run the same command to send the rest again."
            raise ServiceError(f"The {outcome}. {hint}{reason}")
        if not results.replies and len(batch.keys) >= _FEW:
            passes = not problems or any(problem.passes for problem in problems)
            hint = " Run the same command to send them again, or set batch=false." if passes else ""
            raise ServiceError(f"The {outcome}.{hint}{reason}")
        ledger.count_outcome(task.name, "unanswered in a batch", len(batch.keys) - len(results.replies))

    @contextmanager
    def _explained(self, task: Task[Any]) -> Iterator[None]:
        """Turn the RequestProblemError of a request inside into a ServiceError; what is on its way stays known."""
        try:
            yield
        except RequestProblemError as error:
            problem = error.problem
        else:
            return
        raise self._explain(task, problem)

    def _explain(self, task: Task[Any], problem: RequestProblem) -> ServiceError:
        if problem.passes or problem.away:
            return ServiceError(
                f"The Batch API at {self._chat.base_url} did not answer; {problem}. What was sent goes on there. "
                "Run the same command to go on."
            )
        return ServiceError(f"{self._calls.explain(task, problem)}")


def _describe(batch: BatchRecord, state: BatchState) -> str:
    """Return a batch's id, status, counts, and how long ago it was sent."""
    failed = f", {state.failed:,} failed" if state.failed > 0 else ""
    seconds = time.time() - batch.at
    minutes = round(seconds / 60)
    since = f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
    since = f"{seconds:.0f} s" if seconds < 120 else since
    count = f"{max(state.completed, 0):,} of {len(batch.keys):,} answered{failed}"
    return f"batch {batch.id} {state.status}, {count}, sent {since} ago"


def _print(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
