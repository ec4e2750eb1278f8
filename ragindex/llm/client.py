"""LLM client that runs tasks: one conversation per input, many inputs concurrently."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Generic

from ragindex._util.canonical import digest
from ragindex.accounting import ledger
from ragindex.errors import LLMError, ServiceError, UsageError
from ragindex.interfaces.llm import LLM
from ragindex.llm.batches.calls import BatchCalls, WantedCall
from ragindex.llm.batches.endpoint import MOST_REQUESTS
from ragindex.llm.cache import CachedResponse
from ragindex.llm.cached_calls import CachedCalls
from ragindex.llm.call_keys import PaidBefore, hash_follow_up, hash_task_input
from ragindex.llm.json_text import drop_thoughts
from ragindex.llm.openai_chat import SCHEMA_HINT, ChatRequest, OpenAIChat
from ragindex.llm.openai_parameters import ChatParameters
from ragindex.llm.output import Reading, UnusableError, read_json, schema_text
from ragindex.llm.own_prompts import with_own_prompt
from ragindex.llm.rate_limits import StoppedError, StopSignal, stopping
from ragindex.llm.tasks import Failure, Message, Output, Task, may_wait, render_messages, retries_failed

_THINKING_TOKENS = 4096  # more tokens for an answer whose limit was spent on thoughts
_MAX_FAILURES_IN_A_ROW = 20
_LEAST_CHARGED, _MOST_UNUSABLE = 40, 0.25  # of so many inputs, the share without a usable answer that ends a run
_LONGEST_EXAMPLE = 200  # characters of an answer in an error
_ENDPOINT_FAILURES = ("unreachable", "rejected")  # kinds of failure that may be caused by the endpoint
_MAX_SHOWN = 4000  # characters of an unusable answer that the model is shown again


class LLMClient(LLM):
    """LLM that sends requests to a model. Thread-safe. Without a cache in a file, there are no `batches`."""

    def __init__(
        self, chat: OpenAIChat, calls: CachedCalls, batches: BatchCalls | None, parameters: ChatParameters
    ) -> None:
        self._chat, self._calls, self._given, self._batches = chat, calls, parameters, batches
        self._unusable = _UnusableCounts()

    @property
    def id(self) -> str:
        """Provider, model, and a hash of the endpoint's address and of all that answers depend on."""
        chat, caps = self._chat, [self._given.max_tokens, self._given.reasoning_tokens]
        prompts = [dict(self._given.own_prompts)] if self._given.prompts is not None else []
        return f"{chat.provider}-{chat.model}-{digest([chat.base_url, dict(chat.parameters), caps, *prompts])[:8]}"

    @property
    def batch_size(self) -> int:
        """Most inputs of one `map` that are answered in one batch; 1 without batches."""
        return MOST_REQUESTS if self._given.batch else 1

    def run(self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0, again: bool = False) -> Output:
        """Answer one input. An unusable answer is requested once more. Raises the same errors as `LLM.run`."""
        task = with_own_prompt(task, self._given.own_prompts)
        return self._require_usable(task, self._ask(task, inputs, repeat, again), again)

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
        batches that an earlier run has sent. Raises UsageError for batches without a cache, and ServiceError if too
        many charged answers cannot be used.
        """
        inputs, task = list(many), with_own_prompt(task, self._given.own_prompts)
        if may_wait() and self._batches is None and self._given.batch:
            raise UsageError("Batches need the cache, so that nothing is paid twice. Leave out --no-cache.")
        if may_wait() and self._batches is not None:
            fetch = self._batches.fetch if self._given.batch else self._batches.fetch_sent
            fetch(task, lambda: self._find_wanted(task, inputs, repeat, again))

        def run(inputs: Mapping[str, Any]) -> Output:
            turns = self._ask(task, inputs, repeat, again)
            self._unusable.count(task, turns, self._given)
            return self._require_usable(task, turns, again)

        return _map_in_threads(run, task.name, inputs, self._given.concurrency, progress)

    def _request(self, task: Task[Output], inputs: Mapping[str, Any], repeat: int) -> ChatRequest:
        limit = min(task.max_tokens, self._given.max_tokens or task.max_tokens) + self._given.reasoning_tokens
        messages, plain = tuple(render_messages(task, inputs)), task.read is not None
        question = hash_task_input(task, inputs, repeat)
        schema = schema_text(task.output)
        return ChatRequest(task.name, messages, schema, limit, plain=plain, repeat=repeat, question=question)

    def _ask(self, task: Task[Output], inputs: Mapping[str, Any], repeat: int, again: bool) -> "list[_Turn[Output]]":
        """Return the conversation about an input. One that is cached and unusable begins anew in `retrying_failed`."""
        request = self._request(task, inputs, repeat)
        turns = self._converse(task, request, again, ())
        if again and retries_failed() and turns[-1].error and all(turn.replayed for turn in turns):
            turns = self._converse(task, request, again, [turn.answer for turn in turns])
        return turns

    def _converse(
        self, task: Task[Output], request: ChatRequest, again: bool, unwanted: Sequence[CachedResponse]
    ) -> "list[_Turn[Output]]":
        """Ask, and record how the answers were read. Cached answers that are `unwanted` are replaced."""
        turns = list[_Turn[Output]]()
        for turn in _walk(task, request, lambda request: self._calls.answer(task, request, unwanted), again):
            answer, result = turn.answer, turn.result
            unfit = isinstance(result, UnusableError) and result.kind
            if not isinstance(result, UnusableError):
                ledger.count_outcome(task.name, result.stage)
                ledger.count_outcome(task.name, ledger.DRAFT, result.drafts)
                thoughts = drop_thoughts(answer.text) != answer.text.lstrip("\ufeff")
                ledger.count_outcome(task.name, ledger.THOUGHTS, int(thoughts))
            else:
                ledger.count_outcome(task.name, result.kind)
                ledger.count_outcome(task.name, "asked again", int(turn.follow_up is not None))
            if not turns and answer.structure == "schema" and not turn.replayed and unfit in (False, "malformed"):
                self._chat.record_fit(fits=not unfit)
            turns.append(turn)
        return turns

    def _require_usable(self, task: Task[Output], turns: "Sequence[_Turn[Output]]", again: bool) -> Output:
        """Return the output of a conversation. Raises LLMError; its input is `set_aside` after two unusable answers."""
        result = turns[-1].result
        if not isinstance(result, UnusableError):
            return result.output
        ledger.count_outcome(task.name, "failed")
        message = f"{task.name}: {self._chat.model} gave no usable answer: {result.reason}."
        raise LLMError(message, result.kind, set_aside=again and self._calls.remembers and len(turns) > 1)

    def _find_wanted(
        self, task: Task[Output], inputs: Sequence[Mapping[str, Any]], repeat: int, again: bool
    ) -> dict[str, WantedCall]:
        """Return the next call of each conversation whose answer is not in the cache, by key."""
        calls = (self._find_next(task, self._request(task, each, repeat), again) for each in inputs)
        return {self._calls.keys(task, call.request).request: call for call in calls if call is not None}

    def _find_next(self, task: Task[Output], request: ChatRequest, again: bool) -> WantedCall | None:
        """Return what `run` would ask the model for next; None if the cache has it all. Records nothing."""
        turns, missing = self._read_cache(task, request, again)
        if missing is not None:
            return WantedCall(missing, first=not turns)
        anew = again and retries_failed() and turns[-1].error and all(turn.replayed for turn in turns)
        return WantedCall(request, first=False) if anew else None

    def find_answer(self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0) -> Output | None:
        """Return the usable answer that the cache has for an input; None if `run` would pay. Records nothing."""
        task = with_own_prompt(task, self._given.own_prompts)
        turns, _ = self._read_cache(task, self._request(task, inputs, repeat), again=False)
        result = turns[-1].result if turns else None
        return result.output if isinstance(result, Reading) else None

    def find_paid_before(
        self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0
    ) -> tuple[Output, PaidBefore] | None:
        """Return the usable answer that the cache has to an input under other settings; None if there is none."""
        task = with_own_prompt(task, self._given.own_prompts)
        for before, answer in self._calls.find_paid_before(task, self._request(task, inputs, repeat)):
            with suppress(UnusableError):
                return _parse_output(task, answer, cut=False).output, before
        return None

    def _read_cache(
        self, task: Task[Output], request: ChatRequest, again: bool
    ) -> "tuple[list[_Turn[Output]], ChatRequest | None]":
        """Return what the cache has of a conversation, and the first request without an answer."""
        missing = list[ChatRequest]()

        def find(request: ChatRequest) -> tuple[CachedResponse, bool] | None:
            answer, arrived = self._calls.find(task, request)
            if answer is None:
                missing.append(request)
                return None
            return answer, not arrived

        turns = list(_walk(task, request, find, again))
        return turns, missing[0] if missing else None


# ---------------------------------------------------------------- one conversation


@dataclass(frozen=True, slots=True)
class _Turn(Generic[Output]):
    """An answer, whether an earlier run paid for it (`replayed`), how it was read, and the request that follows."""

    answer: CachedResponse
    replayed: bool
    result: Reading[Output] | UnusableError
    follow_up: ChatRequest | None

    @property
    def error(self) -> UnusableError | None:
        """Why the answer cannot be used."""
        return self.result if isinstance(self.result, UnusableError) else None


def _walk(
    task: Task[Output],
    request: ChatRequest,
    find: Callable[[ChatRequest], tuple[CachedResponse, bool] | None],
    again: bool,
) -> "Iterator[_Turn[Output]]":
    """Yield the turns of the conversation about an input: one usable answer, or two that are not.

    `find` returns the answer to a request and whether an earlier run paid for it; None ends the conversation. With
    `again`, a refusal of an earlier run is asked about once more; in the same run, it is not.
    """
    step: ChatRequest | None = request
    while step is not None and (stored := find(step)) is not None:
        answer, replayed = stored
        last, sent_request, step = step is not request, step, None
        result: Reading[Output] | UnusableError
        try:
            result = _parse_output(task, answer, answer.is_cut)
        except UnusableError as error:
            result = error
            if not last and error.kind != "refusal":
                step = _build_retry(sent_request, answer, error)
            elif not last and again and replayed:
                step = replace(sent_request, again=True, question=hash_follow_up(sent_request.question, "refusal"))
        yield _Turn(answer, replayed, result, step)


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
    request = replace(request, question=hash_follow_up(request.question, error.kind))
    if error.kind == "truncated":
        thought = not drop_thoughts(answer.text).strip()
        return replace(request, max_tokens=2 * request.max_tokens + (_THINKING_TOKENS if thought else 0))
    is_plain = answer.structure == "text" and request.plain
    form = "in the form asked for" if is_plain else f"again. {SCHEMA_HINT}{request.schema}"
    note = f"Your answer cannot be used: {error.reason}. Answer {form}"
    hinted = replace(request, hinted=True)
    if error.kind == "empty":
        *others, last = request.messages
        return replace(hinted, messages=(*others, Message("user", f"{last.content}\n\n{note}")))
    cut_answer = Message("assistant", answer.text[:_MAX_SHOWN])
    return replace(hinted, messages=(*request.messages, cut_answer, Message("user", note)))


# ---------------------------------------------------------------- many inputs


class _UnusableCounts:
    """Inputs by task whose charged answers cannot be used: of how many, and how many in a row. Thread-safe."""

    def __init__(self) -> None:
        self._charged, self._unusable, self._in_a_row = Counter[str](), Counter[str](), Counter[str]()
        self._lock = Lock()

    def count(self, task: Task[Any], turns: "Sequence[_Turn[Any]]", parameters: ChatParameters) -> None:
        """Count a conversation. Raises ServiceError after 20 unusable ones in a row, or a quarter of at least 40."""
        if all(turn.replayed for turn in turns):
            return
        name, error = task.name, turns[-1].error
        with self._lock:
            self._charged[name] += 1
            self._unusable[name] += error is not None
            self._in_a_row[name] = self._in_a_row[name] + 1 if error else 0
            charged, unusable, in_a_row = self._charged[name], self._unusable[name], self._in_a_row[name]
            many = charged >= _LEAST_CHARGED and unusable >= _MOST_UNUSABLE * charged
            if error is None or not (many or in_a_row >= _MAX_FAILURES_IN_A_ROW):
                return
            for counts in (self._charged, self._unusable, self._in_a_row):
                del counts[name]  # another run in this process begins anew
        share = (
            f"{in_a_row} inputs in a row" if in_a_row >= _MAX_FAILURES_IN_A_ROW else f"{unusable} of {charged} inputs"
        )
        example = turns[-1].answer.text or turns[-1].answer.refusal
        raise ServiceError(
            f"{name}: {share} have answers that are charged and cannot be used ({error.kind}); the last: "
            f"{error.reason[:_LONGEST_EXAMPLE]!r}, in {example[:_LONGEST_EXAMPLE]!r}. Usable answers are kept. "
            f"{_advise(error.kind, task, parameters)}"
        )


def _advise(kind: str, task: Task[Any], parameters: ChatParameters) -> str:
    """Return the setting that may make answers usable."""
    if kind == "truncated" and parameters.max_tokens is not None and parameters.max_tokens < task.max_tokens:
        return f"Raise max_tokens={parameters.max_tokens} in --llm: this task allows {task.max_tokens}."
    if kind == "truncated":
        more = max(2 * parameters.reasoning_tokens, 2 * task.max_tokens)
        return f"Allow more output tokens: --llm 'openai(model={parameters.model}, reasoning_tokens={more})'"
    if kind == "refusal":
        return "Use another model, or leave these texts out."
    return "Ask for JSON in another way, with structure=json or structure=text in --llm, or use another model."


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
    stop, times = StopSignal(), ledger.ConcurrentTimes(workers)
    token = stopping.set(stop)
    pool = ThreadPoolExecutor(min(threads_for(workers), len(inputs)) or 1, thread_name_prefix=name)

    def work(number: int) -> Output | Failure:
        if stop.is_set():
            raise StoppedError
        try:
            with times.item(number):
                try:
                    return run(inputs[number])
                except LLMError as error:
                    return Failure(name, str(error), error.kind, error.set_aside)
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
        times.close()


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
        failure = result if isinstance(result, Failure) and result.kind in _ENDPOINT_FAILURES else None
        in_a_row = in_a_row + 1 if failure else 0
        if failure and in_a_row == _MAX_FAILURES_IN_A_ROW:
            raise ServiceError(f"{in_a_row} inputs in a row failed; the last: {failure.reason} Progress saved.")
