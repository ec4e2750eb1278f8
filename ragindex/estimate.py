"""Estimates of what LLM calls would cost, before any money is spent.

The parts are built in a temporary folder with the offline rules, and every call that the LLM would receive is counted
with its tokenizer. The count is exact for prompts made from the corpus alone. Rules cannot know how long the LLM's
answers are, nor the prompts made from those answers. These are measured on a sample of documents that is sent to the
LLM; the responses are cached. The counts are scaled by the ratio of the LLM's tokens to the rules' tokens on the
sample, so a prompt that depends on no answer keeps its exact count.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from ragindex.accounting import ledger
from ragindex.corpus import Corpus
from ragindex.encoders.vectors import normalize_rows
from ragindex.errors import ServiceError, UsageError
from ragindex.index.index import Index
from ragindex.index.parts import tasks_of, topological_order, uses_encoder
from ragindex.interfaces import Encoder, EncoderPlugin, Floats, Part, Scheme
from ragindex.interfaces.llm import LLM, LLMPlugin, LLMSettings, PaidPlugin
from ragindex.llm import answer_question, tokens
from ragindex.llm.offline import OfflineRules
from ragindex.llm.prices import Prices
from ragindex.llm.tasks import Output, Task, render_messages
from ragindex.plugins.base import Plugin, asks_service
from ragindex.types import Document, Query


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated calls, tokens and cost (in dollars) of one task.

    Unless `sampled`, `output_tokens` counts the answers of the offline rules. `counted` says whether the model's own
    tokenizer was used; otherwise token counts are approximate. `money` is None if the model has no known price;
    `price_source` says where the price is from, "" if a price file does not say.
    """

    task: str
    calls: int
    input_tokens: int
    output_tokens: int
    money: float | None
    sampled: bool
    counted: bool
    price_source: str = ""


@dataclass(frozen=True, slots=True)
class _Counts:
    calls: int = 0
    read: int = 0
    written: int = 0


def estimate(
    corpus: Corpus,
    schemes: Sequence[Scheme],
    llm: LLMPlugin,
    setting: LLMSettings,
    *,
    sample: int = 0,
    seed: int = 0,
    language: str | None = None,
) -> list[Estimate]:
    """Estimate the cost of indexing `corpus` for `schemes` with `llm`: one Estimate per task; shared parts count once.

    With `sample`, that many documents are sent to the LLM and paid for; the responses are kept in the cache of
    `setting`. An LLM that answers in batches is priced so, and answers the sample at once. Raises UsageError if `llm`
    names no model (`offline`) or a task has no rule, and ServiceError if every request for the sample failed.
    """
    name, parts = _get_model_name(llm), _find_llm_parts(schemes)
    prices = llm.price_list(setting.prices) if isinstance(llm, PaidPlugin) else setting.prices
    counting = Counting(model=name)
    indexing = _count_indexing(corpus.documents, corpus, parts, counting, LLMSettings(), language)
    chosen = Random(seed).sample(corpus.documents, min(sample, len(corpus.documents)))  # noqa: S311  # no secret
    by_rules = _count_indexing(chosen, corpus, parts, counting, LLMSettings(), language) if chosen else {}
    # not in a batch: the user waits for the estimate
    at_once = llm.model_copy(update={"batch": False}) if llm.batches() else llm
    in_earnest = _count_indexing(chosen, corpus, parts, at_once, setting, language) if chosen else {}
    if by_rules and not in_earnest:
        raise ServiceError(
            f"Every request for the {len(chosen)} sampled documents failed. Check --llm and OPENAI_BASE_URL."
        )
    return [
        _scale_counts(task, counts, by_rules.get(task), in_earnest.get(task), prices, name, llm.batches())
        for task, counts in indexing.items()
    ]


def estimate_questions(
    corpus: Corpus,
    schemes: Mapping[str, Scheme],
    llm: LLMPlugin,
    setting: LLMSettings,
    queries: Sequence[Query],
    *,
    reads: bool,
    reader_tokens: int = answer_question.DEFAULT_TOKENS,
    k: int = 20,
    sample: int = 0,
    seed: int = 0,
    language: str | None = None,
) -> list[Estimate]:
    """Estimate the cost of asking `queries` of each method in `schemes`, by label: one Estimate per task and method.

    Counted are the tasks that the methods run for questions and, if it `reads`, answering with `llm` from the top `k`
    hits. Each method is built with the offline rules, and with `lsa` if it needs an encoder, so building costs nothing;
    the passages it finds have about the same length as the real ones. The method's own LLM tasks are estimated from the
    rules alone. With `sample`, that many questions are sent to the LLM to be answered, and the responses are cached.
    Raises UsageError if `llm` names no model (`offline`), a task has no rule, or a method asks a service.
    """
    name = _get_model_name(llm)
    prices = llm.price_list(setting.prices) if isinstance(llm, PaidPlugin) else setting.prices
    asking = {label: scheme for label, scheme in schemes.items() if reads or tasks_of(scheme)}
    for label, scheme in asking.items():
        if asks_service(scheme):
            raise UsageError(f"{label} asks a service, and an estimate asks none. Leave it out of --methods.")
    chosen = Random(seed).sample(range(len(queries)), min(sample, len(queries)))  # noqa: S311  # no secret
    estimates: list[Estimate] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Index.open(
            Path(folder), llm=Counting(model=name), language=language, chunking=corpus.chunking, create=True
        ) as index,
    ):
        if asking:
            index.add(corpus.documents)
            index.build(*asking.values())
        for label, scheme in asking.items():
            with ledger.record_calls() as tally:
                retrievals = scheme.open(index).retrieve(queries, k)
            estimates += [
                _scale_counts(f"{task}, {label}", counts, None, None, prices, name)
                for task, counts in _count_by_task(tally)
            ]
            if reads:
                contexts = [
                    answer_question.build_context(retrieval.hits, retrieval.notes, reader_tokens, name)
                    for retrieval in retrievals
                ]
                readings = [
                    answer_question.answer_inputs(query.text, context, index.language)
                    for query, context in zip(queries, contexts, strict=True)
                ]
                estimates += _estimate_reading(readings, chosen, index.llm, llm.open(setting), label, prices, name)
    return estimates


def _estimate_reading(
    inputs: Sequence[Mapping[str, Any]],
    chosen: Sequence[int],
    rules: LLM,
    model: LLM,
    label: str,
    prices: Prices,
    name: str,
) -> Iterator[Estimate]:
    """Yield the estimate of answering the inputs `asked`; those with the numbers `chosen` are sent to the model."""
    task, sampled = answer_question.ANSWER.name, [inputs[number] for number in chosen]
    all_counts, by_rules, real = (
        _count_answering(*counting) for counting in ((rules, inputs), (rules, sampled), (model, sampled))
    )
    if task in all_counts:
        yield _scale_counts(f"{task}, {label}", all_counts[task], by_rules.get(task), real.get(task), prices, name)


def _count_answering(llm: LLM, inputs: Sequence[Mapping[str, Any]]) -> dict[str, _Counts]:
    with ledger.record_calls() as tally:
        llm.map(answer_question.ANSWER, inputs)
    return dict(_count_by_task(tally))


def has_tokenizer(model: str) -> bool:
    """Return whether the model's own tokenizer is available, so that tokens are counted and not estimated."""
    return not tokens.count_text_tokens("word", model).estimated


def _get_model_name(llm: LLMPlugin) -> str:
    name = getattr(llm, "model", None)
    if not isinstance(name, str):
        raise UsageError("An estimate needs an LLM, as --llm openai:MODEL. Rules cost nothing.")
    return name


def _find_llm_parts(schemes: Sequence[Scheme]) -> list[Part[Any]]:
    """Return the parts that call an LLM, among the parts of `schemes` and their inputs."""
    parts = topological_order([part for scheme in schemes for part in scheme.parts()])
    return [part for part in parts if "model" in part.uses]


def _count_indexing(
    documents: Sequence[Document],
    corpus: Corpus,
    parts: Sequence[Part[Any]],
    llm: Any,
    setting: LLMSettings,
    language: str | None,
) -> dict[str, _Counts]:
    """Build the parts in a temporary folder, and return calls and tokens by task."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ledger.record_calls() as tally,
        Index.open(
            Path(folder), llm=llm, language=language, chunking=corpus.chunking, llm_settings=setting, create=True
        ) as index,
    ):
        index.add(documents)
        if parts:
            index.build(*parts)
    return dict(_count_by_task(tally))


def _count_by_task(tally: ledger.Tally) -> Iterator[tuple[str, _Counts]]:
    counts: dict[str, _Counts] = {}
    for entry in (entry for entry in tally.entries if entry.task != ledger.EMBEDDING):
        count = counts.get(entry.task, _Counts())
        read, written = count.read + entry.input_tokens, count.written + entry.output_tokens
        counts[entry.task] = _Counts(count.calls + 1, read, written)
    yield from counts.items()


def _scale_counts(
    task: str,
    counts: _Counts,
    rules: _Counts | None,
    real: _Counts | None,
    prices: Prices,
    name: str,
    batched: bool = False,
) -> Estimate:
    sampled = rules is not None and real is not None and rules.read > 0 and rules.written > 0
    calls, read, written = counts.calls, counts.read, counts.written
    if sampled and rules is not None and real is not None:
        calls = round(calls * real.calls / rules.calls)
        read, written = round(read * real.read / rules.read), round(written * real.written / rules.written)
    money = prices.money(name, read, 0, written, batched=batched, requests=calls)
    source = getattr(prices.find(name), "source", "")
    return Estimate(task, calls, read, written, money, sampled, has_tokenizer(name), source)


# ---------------------------------------------------------------- an LLM that only counts


class Counting(LLMPlugin):
    """An LLM plugin that answers with the offline rules and records the tokens a model would read and write."""

    version: ClassVar[int] = 1
    model: str = Field(description="Model whose tokenizer counts the tokens.")

    def open(self, setting: LLMSettings | None = None) -> "CountingRules":
        """Open the counting rules; no request is sent."""
        return CountingRules(self.model)


class CountingRules(OfflineRules):
    """The LLM that `Counting` opens: offline rules that record token counts in the ledger."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.id = f"counting for {model}"  # only used for temporary indexes

    def require_rule(self, task: Task[Output]) -> Callable[[Mapping[str, Any]], Output]:
        """Return the task's rule. Raises UsageError if it has none."""
        if task.rule is None:
            raise UsageError(f"{task.name} cannot be estimated: it has no rule to take the place of the LLM.")
        return task.rule

    def record(self, task: Task[Output], inputs: Mapping[str, Any], output: Output, seconds: float) -> None:
        """Record the tokens of a question and its answer."""
        read = tokens.count_message_tokens(render_messages(task, inputs), self.model)
        answered = task.output.model_validate(output.model_dump()).model_dump_json(
            include=set(task.output.model_fields)
        )
        written = tokens.count_text_tokens(answered, self.model)
        entry = ledger.CallRecord(task.name, self.model, input_tokens=read.tokens, output_tokens=written.tokens)
        ledger.record_call(replace(entry, replayed=True), 0.0)  # the call costs nothing


_DIMENSIONS = 32
_COUNTED = "counted encoding"  # the task of what is counted here and costs nothing


def estimate_encoding(
    corpus: Corpus,
    schemes: Mapping[str, Scheme],
    encoder: Plugin,
    prices: Prices,
    *,
    queries: Sequence[Query] = (),
    language: str | None = None,
) -> list[Estimate]:
    """Estimate what encoding costs: one Estimate for the texts of the index, and one of `queries` for each method.

    A text counts as a call. Returns [] for an encoder that costs nothing. The parts that encode are built in a
    temporary folder with made-up vectors; texts that a language model would write are those of the rules. Of a question
    only its own text counts, not what a method searches for later.
    """
    name = getattr(encoder, "model", None)
    encoding = {label: scheme for label, scheme in schemes.items() if any(map(uses_encoder, scheme.parts()))}
    if not isinstance(encoder, PaidPlugin) or not isinstance(name, str) or not encoding:
        return []
    before_query, before_document = (getattr(encoder, f"{kind}_prefix", None) or "" for kind in ("query", "document"))
    question_tokens = sum(tokens.count_text_tokens(f"{before_query}{query.text}", name).tokens for query in queries)
    counting = CountingEncoder(model=name, prefix=before_document)
    counts = [("encoding, index", *_count_encoding(corpus, encoding, counting, language))]
    counts += [(f"encoding, {label}", len(queries), question_tokens) for label in encoding if queries]
    price, listed = getattr(encoder, "price", None), encoder.price_list(prices)
    return [
        Estimate(
            *(task, calls, read, 0),
            money=listed.money(name, read, 0, 0, requests=calls) if price is None else read * price / 1e6,
            sampled=False,
            counted=has_tokenizer(name),
            price_source=getattr(listed.find(name), "source", "") if price is None else "",
        )
        for task, calls, read in counts
    ]


def _count_encoding(
    corpus: Corpus, schemes: Mapping[str, Scheme], counting: "CountingEncoder", language: str | None
) -> tuple[int, int]:
    """Build the parts that encode; return how many texts were encoded, and their tokens."""
    parts = topological_order(part for scheme in schemes.values() for part in scheme.parts())
    with (
        tempfile.TemporaryDirectory() as folder,
        ledger.record_calls() as tally,
        Index.open(Path(folder), encoder=counting, language=language, chunking=corpus.chunking, create=True) as index,
    ):
        index.add(corpus.documents)
        index.build(*[part for part in parts if uses_encoder(part)])
    counted = [entry.input_tokens for entry in tally.entries if entry.task == _COUNTED]
    return len(counted), sum(counted)


class CountingEncoder(EncoderPlugin):
    """An encoder plugin that makes vectors up and records the tokens that the model's service would bill."""

    version: ClassVar[int] = 1
    model: str = Field(description="Model whose tokenizer counts the tokens.")
    prefix: str = Field(default="", description="Text put before each document.")

    def open(self, setting: LLMSettings | None = None) -> "MadeUpVectors":
        """Open the encoder; no request is sent."""
        return MadeUpVectors(self.model, self.prefix)


@dataclass(frozen=True)
class MadeUpVectors(Encoder):
    """The encoder that `CountingEncoder` opens: the vector of a text is drawn by the hash of the text."""

    model: str
    prefix: str = ""
    dimensions: int = _DIMENSIONS

    @property
    def id(self) -> str:
        """Only used for temporary indexes."""
        return f"counting for {self.model}"

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """Return made-up vectors, and record the tokens of each text."""
        for text in texts:
            read = tokens.count_text_tokens(f"{self.prefix}{text}", self.model).tokens
            ledger.record_call(ledger.CallRecord(_COUNTED, self.id, input_tokens=read, replayed=True), 0.0)
        seeds = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) for text in texts]
        drawn = [np.random.default_rng(seed).standard_normal(self.dimensions) for seed in seeds]
        return normalize_rows(np.array(drawn).reshape(len(texts), self.dimensions))

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of `encode_documents`."""
        return self.encode_documents(texts)
