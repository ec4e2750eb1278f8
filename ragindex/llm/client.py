"""LLM client that runs tasks: one conversation per input, many inputs concurrently."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import replace
from typing import Any

from ragindex._util.canonical import digest
from ragindex.accounting import ledger
from ragindex.errors import LLMError, ServiceError, UsageError
from ragindex.interfaces.llm import LLM
from ragindex.llm.batches.calls import BatchCalls, WantedCall
from ragindex.llm.batches.endpoint import MOST_REQUESTS
from ragindex.llm.cache import CachedResponse
from ragindex.llm.cached_calls import CachedCalls
from ragindex.llm.json_text import drop_thoughts
from ragindex.llm.openai_chat import SCHEMA_HINT, ChatRequest, OpenAIChat
from ragindex.llm.openai_parameters import ChatParameters
from ragindex.llm.output import Reading, UnusableError, read_json, schema_text
from ragindex.llm.rate_limits import StoppedError, StopSignal, stopping
from ragindex.llm.tasks import Failure, Message, Output, Task, may_wait, render_messages

_CUT = frozenset({"length", "max_tokens", "model_length", "max_output_tokens"})  # finish reasons, of different servers
_THINKING_ROOM = 4096  # more tokens for an answer whose room was spent on thoughts
_MAX_FAILURES_IN_A_ROW = 20
_ENDPOINT_FAILURES = ("unreachable", "rejected")  # kinds of failure that may be caused by the endpoint
_MAX_SHOWN = 4000  # characters of an unusable answer that the model is shown again


class LLMClient(LLM):
    """LLM that sends requests to a model. Thread-safe. Without a cache in a file, there are no `batches`."""

    def __init__(self, chat: OpenAIChat, calls: CachedCalls, batches: BatchCalls | None, given: ChatParameters) -> None:
        self._chat, self._calls, self._given, self._batches = chat, calls, given, batches

    @property
    def id(self) -> str:
        """Provider, model, and a hash of the endpoint's address and of all parameters that answers depend on."""
        chat, caps = self._chat, [self._given.max_tokens, self._given.reasoning_tokens]
        return f"{chat.provider}-{chat.model}-{digest([chat.base_url, dict(chat.parameters), caps])[:8]}"

    @property
    def batch_size(self) -> int:
        """Most inputs of one `map` that are answered in one batch; 1 without batches."""
        return MOST_REQUESTS if self._given.batch else 1

    def run(self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0, again: bool = False) -> Output:
        """Answer one input. An unusable answer is requested once more. Raises the same errors as `LLM.run`."""
        request = self._request(task, inputs, repeat)
        output, cached = self._converse(task, request)
        if isinstance(output, UnusableError) and again and cached:
            output, _ = self._converse(task, request, unwanted=cached)
        if not isinstance(output, UnusableError):
            return output
        ledger.count_outcome(task.name, "failed")
        raise LLMError(f"{task.name}: {self._chat.model} gave no usable answer: {output.reason}.", output.kind)

    def map(
        self,
        task: Task[Output],
        many: Iterable[Mapping[str, Any]],
        *,
        repeat: int = 0,
        again: bool = False,
        progress: Callable[[int], None] = lambda done: None,
    ) -> list[Output | Failure]:
        """Run the task on each input, with up to `concurrency` requests in flight. See `LLM.map`.

        Inside `answers_can_wait`, batches fetch the answers first, if the parameters say so. Otherwise only those of
        batches that an earlier run has sent. Raises UsageError for batches without a cache.
        """
        inputs = list(many)
        if may_wait() and self._batches is None and self._given.batch:
            raise UsageError("Batches need the cache, so that nothing is paid twice. Leave out --no-cache.")
        if may_wait() and self._batches is not None:
            fetch = self._batches.fetch if self._given.batch else self._batches.fetch_sent
            fetch(task, lambda: self._find_wanted(task, inputs, repeat, again))

        def run(inputs: Mapping[str, Any]) -> Output:
            return self.run(task, inputs, repeat=repeat, again=again)

        return _map_in_threads(run, task.name, inputs, self._given.concurrency, progress)

    def _find_wanted(
        self, task: Task[Output], inputs: Sequence[Mapping[str, Any]], repeat: int, again: bool
    ) -> dict[str, WantedCall]:
        """Return the next call of each conversation whose answer is not in the cache, by key."""
        calls = (self._find_next(task, self._request(task, each, repeat), again) for each in inputs)
        return {self._calls.key(task, call.request): call for call in calls if call is not None}

    def _find_next(self, task: Task[Output], request: ChatRequest, again: bool) -> WantedCall | None:
        """Return what `run` would ask the model for next; None if the cache has it all. Records nothing."""
        unusable: ChatRequest | None = None  # the first request of an earlier run without a usable answer
        for last in (False, True):
            answer, arrived = self._calls.find(self._calls.key(task, request))
            if answer is None:
                return WantedCall(request, first=not last)
            try:
                _parse_output(task, answer, _is_cut(request, answer))
                return None
            except UnusableError as error:
                unusable = unusable if unusable or arrived else request
                if error.kind == "refusal":
                    break
                request = request if last else _build_retry(request, answer, error)
        return WantedCall(unusable, first=False) if again and unusable else None

    def find_answer(self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0) -> Output | None:
        """Return the usable answer that the cache has for an input; None if `run` would pay. Records nothing."""
        request = self._request(task, inputs, repeat)
        for _ in range(2):  # the request, and the corrected one
            answer, _ = self._calls.find(self._calls.key(task, request))
            if answer is None:
                return None
            try:
                return _parse_output(task, answer, _is_cut(request, answer)).output
            except UnusableError as error:
                if error.kind == "refusal":
                    return None
                request = _build_retry(request, answer, error)
        return None

    def _request(self, task: Task[Output], inputs: Mapping[str, Any], repeat: int) -> ChatRequest:
        limit = min(task.max_tokens, self._given.max_tokens or task.max_tokens) + self._given.reasoning_tokens
        messages, plain = tuple(render_messages(task, inputs)), task.read is not None
        return ChatRequest(task.name, messages, schema_text(task.output), limit, plain=plain, repeat=repeat)

    def _converse(
        self, task: Task[Output], request: ChatRequest, unwanted: Sequence[CachedResponse] = ()
    ) -> tuple[Output | UnusableError, list[CachedResponse]]:
        """Send a request and, if the answer is unusable, a corrected one; also return the answers from the cache."""
        answer, replayed = self._calls.answer(task, request, unwanted)
        cached = [answer] if replayed else []
        output = _read_output(task, request, answer)
        unfit = isinstance(output, UnusableError) and output.kind
        if answer.structure == "schema" and not replayed and unfit in (False, "malformed"):
            self._chat.record_fit(fits=not unfit)
        if not isinstance(output, UnusableError) or output.kind == "refusal":
            return output, cached
        ledger.count_outcome(task.name, "asked again")
        corrected = _build_retry(request, answer, output)
        answer, replayed = self._calls.answer(task, corrected, unwanted)
        return _read_output(task, corrected, answer), [*cached, answer] if replayed else cached


def _read_output(task: Task[Output], request: ChatRequest, answer: CachedResponse) -> Output | UnusableError:
    try:
        reading = _parse_output(task, answer, _is_cut(request, answer))
    except UnusableError as error:
        ledger.count_outcome(task.name, error.kind)
        return error
    ledger.count_outcome(task.name, reading.stage)
    ledger.count_outcome(task.name, ledger.DRAFT, reading.drafts)
    ledger.count_outcome(task.name, ledger.THOUGHTS, int(drop_thoughts(answer.text) != answer.text.lstrip("\ufeff")))
    return reading.output


def _is_cut(request: ChatRequest, answer: CachedResponse) -> bool:
    """Return whether an answer used all of its room. Some servers say `stop` then, or use a word of their own."""
    used = not answer.estimated and answer.output_tokens >= request.max_tokens
    return used or answer.finish.casefold() in _CUT


def _parse_output(task: Task[Output], answer: CachedResponse, cut: bool) -> Reading[Output]:
    """Parse an answer. Of a `cut` one, only whole JSON. Raises UnusableError."""
    if answer.refusal or answer.finish == "content_filter":
        raise UnusableError("refusal", f"it refuses: {answer.refusal[:200] or 'its content filter stopped it'}")
    if not answer.text.strip() and not cut:
        raise UnusableError("empty", "it is empty")
    plain = answer.structure == "text" and task.read is not None
    try:
        return read_json(answer.text, task.output, tolerant=not plain and not cut)
    except UnusableError as error:
        if cut:
            reason = f"it was cut off after {answer.output_tokens} tokens; more max_tokens or reasoning_tokens may help"
            raise UnusableError("truncated", reason) from None
        if not plain or task.read is None:
            raise UnusableError(error.kind, error.reason) from None
    try:
        return Reading(task.read(drop_thoughts(answer.text)), "read")
    except ValueError as error:
        raise UnusableError("malformed", str(error)[:500]) from None


def _build_retry(request: ChatRequest, answer: CachedResponse, error: UnusableError) -> ChatRequest:
    """Return the request to retry with: more tokens if the answer was cut off, else the answer and its error."""
    if error.kind == "truncated":
        thought = not drop_thoughts(answer.text).strip()
        return replace(request, max_tokens=2 * request.max_tokens + (_THINKING_ROOM if thought else 0))
    is_plain = answer.structure == "text" and request.plain
    form = "in the form asked for" if is_plain else f"again. {SCHEMA_HINT}{request.schema}"
    note = f"Your answer cannot be used: {error.reason}. Answer {form}"
    hinted = replace(request, hinted=True)
    if error.kind == "empty":
        *others, last = request.messages
        return replace(hinted, messages=(*others, Message("user", f"{last.content}\n\n{note}")))
    shown = Message("assistant", answer.text[:_MAX_SHOWN])
    return replace(hinted, messages=(*request.messages, shown, Message("user", note)))


# ---------------------------------------------------------------- many inputs


def _map_in_threads(
    run: Callable[[Mapping[str, Any]], Output],
    name: str,
    inputs: Sequence[Mapping[str, Any]],
    workers: int,
    progress: Callable[[int], None],
) -> list[Output | Failure]:
    """Call `run` for each input with `workers` workers; return the results in input order.

    An LLMError becomes a Failure of the task `name`. Any other error ends the map after the requests in flight. So do
    20 consecutive inputs that fail because of the endpoint (ServiceError). Each thread runs in a copy of this context.
    """
    stop, lanes = StopSignal(), ledger.ConcurrentTimes(workers)
    token = stopping.set(stop)
    pool = ThreadPoolExecutor(min(threads_for(workers), len(inputs)) or 1, thread_name_prefix=name)

    def work(number: int) -> Output | Failure:
        if stop.is_set():
            raise StoppedError
        try:
            with lanes.item(number):
                try:
                    return run(inputs[number])
                except LLMError as error:
                    return Failure(name, str(error), error.kind)
        except BaseException:
            stop.set()  # at once, as the watching thread may notice the error late
            raise

    try:
        futures = [pool.submit(copy_context().run, work, number) for number in range(len(inputs))]
        _watch_futures(futures, progress)
        return [future.result() for future in futures]
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        stopping.reset(token)
        lanes.close()


def threads_for(requests: int) -> int:
    """Return how many threads keep `requests` requests in flight: a few more, for what is done between two requests."""
    return requests + requests // 4 + 1


def _watch_futures(futures: "list[Future[Output | Failure]]", progress: Callable[[int], None]) -> None:
    in_a_row = 0
    for future in as_completed(futures):
        if isinstance(future.exception(), StoppedError):
            continue  # another future has the reason
        result = future.result()
        progress(1)
        failed = isinstance(result, Failure) and result.kind in _ENDPOINT_FAILURES
        in_a_row = in_a_row + 1 if failed else 0
        if isinstance(result, Failure) and in_a_row == _MAX_FAILURES_IN_A_ROW:
            raise ServiceError(
                f"{_MAX_FAILURES_IN_A_ROW} inputs in a row failed; the last: {result.reason} Progress saved."
            )
