"""A language model and an encoder that cost nothing and count what a paid one would read and write.

The model answers with the offline rules, but for answers that were paid for before: these come from the cache. Those
that were paid for under other settings do too, and are counted apart: they would be asked for again.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from pydantic import Field, PrivateAttr

from ragindex.accounting import ledger
from ragindex.encoders.vectors import normalize_rows
from ragindex.errors import UsageError
from ragindex.interfaces import Encoder, EncoderPlugin, Floats
from ragindex.interfaces.llm import LLM, LLMPlugin, LLMSettings
from ragindex.llm import tokens
from ragindex.llm.call_keys import PaidBefore
from ragindex.llm.client import LLMClient
from ragindex.llm.offline import OfflineRules
from ragindex.llm.own_prompts import with_own_prompt
from ragindex.llm.tasks import Failure, Message, Output, Task, render_messages

COUNTED_ENCODING = "counted encoding"
"""The task of what `CountingEncoder` counts."""
_DIMENSIONS = 32
_LEAST_PREFIX, _PREFIX_STEP = 1024, 128  # https://platform.openai.com/docs/guides/prompt-caching (2025)


FindStored: TypeAlias = Callable[[Sequence[str]], set[str]]
"""Returns those of the texts whose vectors are stored."""


class NoEstimateError(UsageError):
    """What a method asks cannot be counted without asking it."""


class Counting(LLMPlugin):
    """An LLM plugin that answers with the offline rules and records the tokens a model would read and write."""

    version: ClassVar[int] = 1
    model: str = Field(description="Model whose tokenizer counts the tokens.")
    _paid: LLM | None = PrivateAttr(default=None)
    _prompts: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _repaid: "RepaidAnswers" = PrivateAttr(default_factory=lambda: RepaidAnswers())

    @classmethod
    def beside(cls, llm: LLMPlugin, paid: LLM | None = None) -> "Counting":
        """Return the plugin for an LLM with a model; answers that `paid` has in its cache are used, and not counted."""
        plugin = cls(model=getattr(llm, "model", ""))
        plugin._paid, plugin._prompts = paid, getattr(llm, "own_prompts", {})
        return plugin

    def open(self, setting: LLMSettings | None = None) -> "CountingRules":
        """Open the counting rules; no request is sent."""
        return CountingRules(self.model, self._paid, self._repaid, self._prompts)

    @property
    def repaid(self) -> "RepaidAnswers":
        """The answers that were paid for under other settings, of all that it has opened."""
        return self._repaid


@dataclass(frozen=True, slots=True)
class Repaid:
    """How many answers were paid for under other settings, which `change` that is, and what asking again takes.

    `reusable` ones are kept with `LLMSettings.reuse_answers`.
    """

    change: str
    reusable: bool
    answers: float
    input_tokens: float
    output_tokens: float
    money: float | None

    def times(self, factor: float) -> "Repaid":
        """Return the same for so many times as many answers."""
        return replace(
            self,
            answers=self.answers * factor,
            input_tokens=self.input_tokens * factor,
            output_tokens=self.output_tokens * factor,
            money=None if self.money is None else self.money * factor,
        )


class RepaidAnswers:
    """Adds up, by task and by what differs, the answers that would be asked for again."""

    def __init__(self) -> None:
        self._by_task: dict[str, dict[tuple[str, bool], Repaid]] = {}

    def add(self, task: str, before: PaidBefore) -> None:
        """Add one answer."""
        by_change, key = self._by_task.setdefault(task, {}), (before.change, before.reusable)
        sums = by_change.get(key, Repaid(*key, 0, 0, 0, 0.0))
        money = None if sums.money is None or before.money is None else sums.money + before.money
        read, written = sums.input_tokens + before.input_tokens, sums.output_tokens + before.output_tokens
        by_change[key] = Repaid(*key, sums.answers + 1, read, written, money)

    def take(self, task: str) -> tuple[Repaid, ...]:
        """Return the answers of a task, and forget them."""
        return tuple(self._by_task.pop(task, {}).values())

    def tasks(self) -> list[str]:
        """Return the tasks that have any."""
        return list(self._by_task)


class CountingRules(OfflineRules):
    """The LLM that `Counting` opens: offline rules that record token counts in the ledger.

    Within `delegating_to`, another model answers instead, and records what it does itself.
    """

    def __init__(
        self,
        model: str,
        paid: LLM | None = None,
        repaid: RepaidAnswers | None = None,
        prompts: Mapping[str, str] | None = None,
    ) -> None:
        self._own_prompts = prompts or {}
        self.repaid = RepaidAnswers() if repaid is None else repaid
        self.model = model
        self.id = f"counting for {model}"  # only used for temporary indexes
        self._delegate: LLM | None = None
        self._prefixes: set[int] = set()
        self._paid = paid if isinstance(paid, LLMClient) else None

    def run(self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0, again: bool = False) -> Output:
        """Return the delegate's answer, the answer that was paid for before, or that of the rule, which is counted."""
        if self._delegate is not None:
            return self._delegate.run(task, inputs, repeat=repeat, again=again)
        paid = self._find_paid(task, inputs, repeat)
        return super().run(task, inputs, repeat=repeat, again=again) if paid is None else paid

    def map(
        self,
        task: Task[Output],
        many: Iterable[Mapping[str, Any]],
        *,
        repeat: int = 0,
        again: bool = False,
        progress: Callable[[int], None] = lambda done: None,
    ) -> list[Output | Failure]:
        """Answer each input as `run` does."""
        if self._delegate is not None:
            return self._delegate.map(task, many, repeat=repeat, again=again, progress=progress)
        if self._paid is None:
            return super().map(task, many, repeat=repeat, again=again, progress=progress)
        inputs = list(many)
        answers: list[Output | Failure | None] = [self._find_paid(task, each, repeat) for each in inputs]
        progress(sum(answer is not None for answer in answers))
        unpaid = [number for number, answer in enumerate(answers) if answer is None]
        ruled = super().map(task, [inputs[number] for number in unpaid], progress=progress)
        by_number = dict(zip(unpaid, ruled, strict=True))
        return [by_number[number] if answer is None else answer for number, answer in enumerate(answers)]

    @contextmanager
    def delegating_to(self, model: LLM | None) -> Iterator[None]:
        """Let the model answer."""
        self._delegate = model
        try:
            yield
        finally:
            self._delegate = None

    @contextmanager
    def without_paid(self) -> Iterator[None]:
        """Answer by rules alone: calls count also if they are paid for, and their prompts begin none of the later."""
        paid, prefixes = self._paid, self._prefixes
        self._paid, self._prefixes = None, set()
        try:
            yield
        finally:
            self._paid, self._prefixes = paid, prefixes

    def _find_paid(self, task: Task[Output], inputs: Mapping[str, Any], repeat: int) -> Output | None:
        """Return an answer that was paid for; one under other settings is added to those that are `repaid`."""
        if self._paid is None:
            return None
        answer = self._paid.find_answer(task, inputs, repeat=repeat)
        if answer is None and (before := self._paid.find_paid_before(task, inputs, repeat=repeat)) is not None:
            answer, cost = before
            self.repaid.add(task.name, cost)
        return answer

    def require_rule(self, task: Task[Output]) -> Callable[[Mapping[str, Any]], Output]:
        """Return the task's rule. Raises NoEstimateError if it has none."""
        if task.rule is None:
            raise NoEstimateError(f"{task.name} cannot be estimated: it has no rule to take the place of the LLM.")
        return task.rule

    def record(self, task: Task[Output], inputs: Mapping[str, Any], output: Output, seconds: float) -> None:
        """Record the tokens of a question and its answer."""
        messages = render_messages(with_own_prompt(task, self._own_prompts), inputs)
        read = tokens.count_message_tokens(messages, self.model)
        answered = task.output.model_validate(output.model_dump()).model_dump_json(
            include=set(task.output.model_fields)
        )
        token_count = tokens.count_text_tokens(answered, self.model)
        entry = ledger.CallRecord(
            task.name,
            self.model,
            input_tokens=read.tokens,
            cached_tokens=self._count_known(messages),
            output_tokens=token_count.tokens,
        )
        ledger.record_call(replace(entry, replayed=True, rule=True), 0.0)  # the call costs nothing

    def _count_known(self, messages: Sequence[Message]) -> int:
        """Return how many tokens of a prompt began an earlier one: services with cached prefixes charge less for them.

        As OpenAI counts: prefixes of 1,024 tokens, and of 128 more each. 0 without the model's tokenizer.
        """
        encoding = tokens.load_tokenizer(self.model)
        if encoding is None:
            return 0
        ids = encoding.encode("\n".join(message.role + message.content for message in messages), disallowed_special=())
        known = prefix = start = 0
        for end in range(_LEAST_PREFIX, len(ids) + 1, _PREFIX_STEP):
            prefix, start = hash((prefix, *ids[start:end])), end
            known = end if prefix in self._prefixes else known
            self._prefixes.add(prefix)
        return known


class CountingEncoder(EncoderPlugin):
    """An encoder plugin that makes vectors up and records the tokens that the model's service would bill."""

    version: ClassVar[int] = 1
    model: str = Field(description="Model whose tokenizer counts the tokens.")
    prefix: str = Field(default="", description="Text put before each document.")
    _find_stored: FindStored | None = PrivateAttr(default=None)

    @classmethod
    def beside(cls, model: str, prefix: str, find_stored: FindStored | None) -> "CountingEncoder":
        """Return the plugin for a model; texts that `find_stored` returns have vectors, and are not counted."""
        plugin = cls(model=model, prefix=prefix)
        plugin._find_stored = find_stored
        return plugin

    def open(self, setting: LLMSettings | None = None) -> "MadeUpVectors":
        """Open the encoder; no request is sent."""
        return MadeUpVectors(self.model, self.prefix, find_stored=self._find_stored)


@dataclass(frozen=True)
class MadeUpVectors(Encoder):
    """The encoder that `CountingEncoder` opens: the vector of a text is drawn by the hash of the text."""

    model: str
    prefix: str = ""
    dimensions: int = _DIMENSIONS
    find_stored: FindStored | None = None

    @property
    def id(self) -> str:
        """Only used for temporary indexes."""
        return f"counting for {self.model}"

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """Return made-up vectors, and record the tokens of each text."""
        stored = set[str]() if self.find_stored is None else self.find_stored(texts)
        for text in (text for text in texts if text not in stored):
            read = tokens.count_text_tokens(f"{self.prefix}{text}", self.model).tokens
            entry = ledger.CallRecord(COUNTED_ENCODING, self.id, input_tokens=read, replayed=True, rule=True)
            ledger.record_call(entry, 0.0)
        seeds = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) for text in texts]
        vectors = [np.random.default_rng(seed).standard_normal(self.dimensions) for seed in seeds]
        return normalize_rows(np.array(vectors).reshape(len(texts), self.dimensions))

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of `encode_documents`."""
        return self.encode_documents(texts)
