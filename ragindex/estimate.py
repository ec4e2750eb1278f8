"""Estimates of what paid calls would cost, before any money is spent.

The parts are built in a temporary folder with the offline rules, and every call that the LLM would receive is counted
with its tokenizer; answers that an index has paid for already cost nothing. The count is exact for prompts made from
the corpus alone. Rules cannot know how long the LLM's answers are, nor the prompts made from those answers. These are
measured on a sample that is sent to the LLM, whose responses are cached: the counts are scaled by the ratio of the
LLM's tokens to the rules' tokens on the sample, so a prompt that depends on no answer keeps its exact count. Without a
sample they are assumed. How sure each figure is, is its interval (docs/dev/decisions/0146-intervals-of-estimates.md).
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import date
from math import log2
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias

import regex

from ragindex.accounting import ledger
from ragindex.corpus import Corpus
from ragindex.counting import (
    COUNTED_ENCODING,
    Counting,
    CountingEncoder,
    CountingRules,
    FindStored,
    Repaid,
    RepaidAnswers,
)
from ragindex.errors import ServiceError, UsageError
from ragindex.index.index import Index
from ragindex.index.parts import inputs_of, parts_of, tasks_of, topological_order, uses_encoder
from ragindex.interfaces import Part, Retriever, Scheme
from ragindex.interfaces.llm import LLM, LLMPlugin, LLMSettings, PaidPlugin
from ragindex.llm import answer_question, tokens
from ragindex.llm.answer_question import AnswerOutput, ContextLimits
from ragindex.llm.output import schema_text
from ragindex.llm.prices import Prices
from ragindex.llm.tasks import Task
from ragindex.parts.asking import PassageAnswers
from ragindex.plugins import registry
from ragindex.plugins.base import Plugin, asks_service
from ragindex.types import Chunking, Document, Query, Retrieval

Basis: TypeAlias = Literal["counted", "sampled", "assumed"]
ChunkingChoice: TypeAlias = Chunking | Literal["default", "corpus"] | None
"""The chunking of an index; "corpus" is the one that suits the corpus."""
EstimateStep: TypeAlias = Literal["index", "questions", "answers"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated calls, tokens and cost (in dollars) of one task.

    The cost lies between `money_low` and `money_high`. `basis` says how the figures were made: counted, sampled, or
    assumed, where the lengths of answers are those of the offline rules. `counted` says whether the model's own
    tokenizer was used; otherwise token counts are approximate. The money is None if the model has no known price;
    `price_source` says where the price is from, "" if a price file does not say, and `price_date` from which day on it
    holds. `methods` are the labels of the methods that need the calls: they are made once for all of them. `repaid` are
    those of the calls that were answered under other settings, and are paid for again. `share` is the part of the
    documents, or questions, that was counted; the figures are scaled to all of them.
    """

    task: str
    calls: int
    input_tokens: int
    output_tokens: int
    money: float | None
    sampled: bool
    counted: bool
    price_source: str = ""
    price_date: date | None = None
    money_low: float | None = None
    money_high: float | None = None
    basis: Basis = "assumed"
    methods: tuple[str, ...] = ()
    step: EstimateStep = "index"
    repaid: tuple[Repaid, ...] = ()
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of estimates: tokens, and the money of those that have a price, with its interval.

    `unpriced` are the tasks of models without a price.
    """

    tokens: int
    money: float
    low: float
    high: float
    unpriced: tuple[str, ...]


def add_up(estimates: Iterable[Estimate]) -> Total:
    """Add up estimates."""
    each = list(estimates)
    priced = [estimate for estimate in each if estimate.money is not None]
    return Total(
        sum(estimate.input_tokens + estimate.output_tokens for estimate in each),
        sum(estimate.money or 0.0 for estimate in priced),
        sum(estimate.money_low or 0.0 for estimate in priced),
        sum(estimate.money_high or 0.0 for estimate in priced),
        tuple(estimate.task for estimate in each if estimate.money is None),
    )


@dataclass(frozen=True, slots=True)
class _Counts:
    """Calls and tokens; `known` are the tokens read that began an earlier prompt."""

    calls: float = 0
    read: float = 0
    written: float = 0
    known: float = 0

    def times(self, factor: float) -> "_Counts":
        return _Counts(self.calls * factor, self.read * factor, self.written * factor, self.known * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateScope:
    """How a corpus is indexed, what of it costs nothing, and how much of it is counted, or sent as a sample.

    `chunking` "corpus" is the one that suits the corpus. What `paid` has in its cache costs nothing, nor do the parts
    `built`. A `sample` of so many documents, or questions, is sent to the LLM and paid for; the responses are kept in
    the cache of the settings of requests. Of a corpus with more than `most_characters` a part is counted, as of more
    than `most_questions`.
    """

    language: str | None = None
    chunking: ChunkingChoice = "corpus"
    seed: int = 0
    paid: LLM | None = None
    built: tuple[Part[Any], ...] = ()
    sample: int = 0
    most_characters: int | None = None
    most_questions: int | None = None

    def chunking_of(self, corpus: Corpus) -> Chunking | Literal["default"] | None:
        """Return the chunking to index `corpus` with."""
        return corpus.chunking if self.chunking == "corpus" else self.chunking


_WHOLE = EstimateScope()


def estimate(
    corpus: Corpus,
    schemes: Mapping[str, Scheme | Part[Any]] | Sequence[Scheme],
    llm: LLMPlugin,
    setting: LLMSettings,
    scope: EstimateScope = _WHOLE,
) -> list[Estimate]:
    """Estimate the cost of indexing `corpus` for `schemes` with `llm`: one Estimate per task; shared parts count once.

    The schemes, or parts, may have labels of their own. An LLM that answers in batches is priced so, and answers a
    sample at once. Raises UsageError if `llm` names no model (`offline`) or a task has no rule, and ServiceError if
    every request for the sample failed.
    """
    by_label = schemes if isinstance(schemes, Mapping) else {registry.label(scheme): scheme for scheme in schemes}
    require_model(llm)
    language = scope.language
    all_parts = [part for part in topological_order(_list_parts(by_label)) if "model" in part.uses]
    parts = [part for part in all_parts if part not in scope.built]
    if not parts or not corpus.documents:
        return []
    chunking = scope.chunking_of(corpus)
    pricing = Pricing.of(llm, setting, batched=llm.batches())
    sample = min(scope.sample, len(corpus.documents))
    chosen = Random(scope.seed).sample(corpus.documents, sample)  # noqa: S311  # no secret
    by_rules = _count_indexing(chosen, chunking, parts, Counting.beside(llm), LLMSettings(), language) if chosen else {}
    in_earnest = _count_indexing(chosen, chunking, parts, _ask_at_once(llm), setting, language) if chosen else {}
    if by_rules and not in_earnest:
        raise ServiceError(
            f"Every request for the {len(chosen)} sampled documents failed. Check --llm and OPENAI_BASE_URL."
        )
    counting = Counting.beside(llm, scope.paid)  # after the sample, which is paid for now
    documents, share = _draw_documents(corpus.documents, scope)
    indexing = _count_indexing(documents, chunking, parts, counting, LLMSettings(), language)
    tasks = {task.name: task for part in parts for task in part.tasks()}
    paid_tasks = {task.name for part in all_parts for task in part.tasks()} - tasks.keys()
    first = {task.name for part in parts if _asks_of_passages(part) for task in part.tasks()[:1]}
    estimates = list[Estimate]()
    for task in dict.fromkeys((*indexing, *counting.repaid.tasks())):
        if task in paid_tasks:
            continue
        priced = pricing.price(
            task,
            indexing.get(task, _Counts()).times(share),
            _Scaling(by_rules.get(task), in_earnest.get(task), len(corpus.documents) / max(1, len(chosen))),
            tasks.get(task),
            from_corpus=task in first,
            part_of_corpus=share > 1,
        )
        priced = _add_repaid(priced, [each.times(share) for each in counting.repaid.take(task)])
        labels = tuple(label for label, scheme in by_label.items() if _needs(scheme, task))
        estimates.append(replace(priced, methods=labels, share=1 / share))
    return estimates


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """The language model that reads what was found, how much of it, and by which task; `paid` has paid answers."""

    llm: LLMPlugin
    limits: ContextLimits = field(default_factory=ContextLimits)
    task: Task[AnswerOutput] = answer_question.ANSWER
    paid: LLM | None = None

    def open_rules(self) -> CountingRules:
        """Open the rules that count what the model would read and write; its paid answers are not counted."""
        require_model(self.llm)
        return Counting.beside(self.llm, self.paid).open()


def estimate_questions(
    corpus: Corpus,
    schemes: Mapping[str, Scheme],
    llm: LLMPlugin | None,
    setting: LLMSettings,
    queries: Sequence[Query],
    *,
    reading: ReadingPlan | None = None,
    k: int = 20,
    scope: EstimateScope = _WHOLE,
) -> list[Estimate]:
    """Estimate the cost of asking `queries` of each method in `schemes`, by label: one Estimate per task and method.

    Counted are the tasks that the methods run for questions with `llm`, None if that costs nothing, and `reading`
    answers from the top `k` hits. Each method is built with the offline rules, and with `lsa` if it needs an encoder,
    so building costs nothing; the passages it finds have about the same length as the real ones. The sample of a
    `scope` is of questions: the LLM takes as many rounds for them as it does, and asking them again costs nothing.
    Without one, the rounds are those of the rules. Raises UsageError if an LLM names no model (`offline`), a task has
    no rule, or a method asks a service.
    """
    pricing = None if llm is None else Pricing.of(llm, setting)
    asking = {
        label: scheme for label, scheme in schemes.items() if reading is not None or (pricing and tasks_of(scheme))
    }
    for label, scheme in asking.items():
        if asks_service(scheme):
            raise UsageError(f"{label} asks a service, and an estimate asks none. Leave it out of --methods.")
    if not asking:
        return []
    documents, share = _draw_documents(corpus.documents, scope)
    drawn = _draw(queries, scope.most_questions, scope.seed)
    factor = len(queries) / max(1, len(drawn))
    chosen = _draw(queries, scope.sample, scope.seed) if scope.sample else []
    model = _ask_at_once(llm).open(setting) if chosen and llm is not None else None
    reads = None if reading is None else reading.open_rules()
    estimates: list[Estimate] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Index.open(
            Path(folder),
            llm=None if llm is None else Counting.beside(llm, scope.paid),
            language=scope.language,
            chunking=scope.chunking_of(corpus),
            create=True,
        ) as index,
    ):
        index.add(documents)
        index.build(*asking.values())
        for label, scheme in asking.items():
            retriever, rules = scheme.open(index), index.llm
            by_rules, real = dict[str, _Counts](), dict[str, _Counts]()
            if chosen and tasks_of(scheme) and isinstance(rules, CountingRules):
                by_rules = _count_retrieval(retriever, chosen, k, rules.without_paid())
                real = _count_retrieval(retriever, chosen, k, rules.delegating_to(model))
            with ledger.record_calls() as tally:  # after the sample, which is paid for now
                retrievals = retriever.retrieve(drawn, k)
            if pricing is not None and isinstance(rules, CountingRules):
                counted = _CountedQuestions(
                    _count_by_task(tally), by_rules, real, factor, len(queries) / max(1, len(chosen)), share
                )
                estimates += counted.price(label, scheme, pricing, rules.repaid)
            if reading is not None and reads is not None:
                estimates += estimate_reading(
                    *(reading, reads, label, drawn, retrievals, index.language, setting), sampled=chosen, factor=factor
                )
    return estimates


@dataclass(frozen=True, slots=True)
class _CountedQuestions:
    """What a method asks for questions, by task: by rules for those that were drawn, and on a sample by both.

    A question that was drawn stands for `factor` questions, a sampled one for `sample_factor`, and a document that was
    read for `document_factor` documents.
    """

    counts: Mapping[str, _Counts]
    by_rules: Mapping[str, _Counts]
    real: Mapping[str, _Counts]
    factor: float
    sample_factor: float
    document_factor: float

    def price(self, label: str, scheme: Scheme, pricing: "Pricing", repaid: RepaidAnswers) -> Iterator[Estimate]:
        """Yield an estimate for each task."""
        tasks = {task.name: task for task in tasks_of(scheme)}
        for task in dict.fromkeys((*self.counts, *self.real, *repaid.tasks())):
            estimate = pricing.price(
                f"{task}, {label}",
                self.counts.get(task, _Counts()).times(self.factor),
                _Scaling(self.by_rules.get(task), self.real.get(task), self.sample_factor),
                tasks.get(task),
                from_corpus=False,
                part_of_corpus=self.document_factor > 1,
            )
            estimate = _add_repaid(estimate, [each.times(self.factor) for each in repaid.take(task)])
            share = 1 / max(self.document_factor, self.factor)
            yield replace(estimate, methods=(label,), step="questions", share=share)


def estimate_reading(
    reading: ReadingPlan,
    rules: CountingRules,
    label: str,
    queries: Sequence[Query],
    retrievals: Sequence[Retrieval],
    language: str,
    setting: LLMSettings,
    *,
    sampled: Sequence[Query] = (),
    factor: float = 1.0,
) -> list[Estimate]:
    """Estimate reading the answers of queries from their retrievals; those of `sampled` queries are sent to the model.

    `rules` are those of the plan, which `open_rules` opens once for several methods. The counts of the queries stand
    for `factor` times as many.
    """
    pricing, task = Pricing.of(reading.llm, setting), reading.task
    contexts = [reading.limits.build(retrieval, pricing.name) for retrieval in retrievals]
    inputs = {
        query.id: answer_question.answer_inputs(query.text, context, language)
        for query, context in zip(queries, contexts, strict=True)
    }
    by_rules = real = None
    sent = [inputs[query.id] for query in sampled if query.id in inputs]
    if sent:
        with rules.without_paid():
            by_rules = _count_answering(rules, task, sent).get(task.name)
        real = _count_answering(_ask_at_once(reading.llm).open(setting), task, sent).get(task.name)
    counts = _count_answering(rules, task, list(inputs.values())).get(task.name)  # after the sample, paid for now
    repaid = rules.repaid.take(task.name)
    if counts is None and not repaid:
        return []
    priced = pricing.price(
        f"{task.name}, {label}", (counts or _Counts()).times(factor), _Scaling(by_rules, real), task, from_corpus=True
    )
    priced = _add_repaid(priced, [each.times(factor) for each in repaid])
    return [replace(priced, methods=(label,), step="answers", share=1 / factor)]


def _add_repaid(estimate: Estimate, repaid: Sequence[Repaid]) -> Estimate:
    """Add to an estimate what asking again takes, by the answers that there are under other settings."""
    if not repaid:
        return estimate
    costs = [each.money for each in repaid]
    money = None if estimate.money is None or None in costs else sum(cost or 0.0 for cost in costs)
    low, high = estimate.money_low or 0.0, estimate.money_high or 0.0
    return replace(
        estimate,
        calls=estimate.calls + round(sum(each.answers for each in repaid)),
        input_tokens=estimate.input_tokens + round(sum(each.input_tokens for each in repaid)),
        output_tokens=estimate.output_tokens + round(sum(each.output_tokens for each in repaid)),
        money=None if money is None else (estimate.money or 0.0) + money,
        money_low=None if money is None else low + money / _OF_ANSWERS,
        money_high=None if money is None else high + money * _OF_ANSWERS,
        repaid=tuple(repaid),
    )


def price_calls(tally: ledger.Tally, task: Task[Any], pricing: "Pricing") -> list[Estimate]:
    """Estimate the calls of a task that `CountingRules` have counted; their prompts are exact."""
    counts = _count_by_task(tally).get(task.name)
    return [] if counts is None else [pricing.price(task.name, counts, _Scaling(), task, from_corpus=True)]


def _describe_schema(task: Task[Any] | None) -> str:
    """Return the schema of a task's answer, "" without a task."""
    output: Any = None if task is None else task.output
    return "" if output is None else schema_text(output)


def _count_retrieval(
    retriever: Retriever, queries: Sequence[Query], k: int, answering: AbstractContextManager[None]
) -> dict[str, _Counts]:
    with answering, ledger.record_calls() as tally:
        retriever.retrieve(queries, k)
    return _count_by_task(tally)


def _count_answering(llm: LLM, task: Task[AnswerOutput], inputs: Sequence[Mapping[str, Any]]) -> dict[str, _Counts]:
    with ledger.record_calls() as tally:
        llm.map(task, inputs)
    return _count_by_task(tally)


def has_tokenizer(model: str) -> bool:
    """Return whether the model's own tokenizer is available, so that tokens are counted and not estimated."""
    return not tokens.count_text_tokens("word", model).estimated


def require_model(llm: LLMPlugin) -> str:
    """Return the name of the model of an LLM. Raises UsageError if it names none (`offline`)."""
    name = getattr(llm, "model", None)
    if not isinstance(name, str):
        raise UsageError("An estimate needs an LLM, as --llm openai:MODEL. Rules cost nothing.")
    return name


def _ask_at_once(llm: LLMPlugin) -> LLMPlugin:
    """Return an LLM with the same answers that waits for no batch: who asks for an estimate waits for it."""
    return llm.model_copy(update={"batch": False}) if llm.batches() else llm


# ---------------------------------------------------------------- what is counted


def _list_parts(wanted: Mapping[str, Scheme | Part[Any]]) -> Iterator[Part[Any]]:
    for each in wanted.values():
        yield from parts_of(each)


def _asks_of_passages(part: Part[Any]) -> bool:
    """Return whether a part's first question is about each passage as it is, so that rules make the same prompts."""
    return isinstance(part, PassageAnswers) and not any(
        "model" in source.uses for source in topological_order(inputs_of(part))
    )


def _needs(method: Scheme | Part[Any], task: str) -> bool:
    return any(task == own.name for part in topological_order(parts_of(method)) for own in part.tasks())


def _draw(queries: Sequence[Query], most: int | None, seed: int) -> list[Query]:
    if most is None or len(queries) <= most:
        return list(queries)
    places = Random(seed).sample(range(len(queries)), most)  # noqa: S311  # no secret
    return [queries[place] for place in places]


def _draw_documents(documents: Sequence[Document], scope: EstimateScope) -> tuple[Sequence[Document], float]:
    """Return the documents, or a part of them of so many characters, and by what its counts are multiplied."""
    size, most_characters = sum(len(document.text) for document in documents), scope.most_characters
    if most_characters is None or size <= most_characters:
        return documents, 1.0
    drawn, drawn_size = list[Document](), 0
    for document in Random(scope.seed).sample(list(documents), len(documents)):  # noqa: S311  # no secret
        if drawn and drawn_size + len(document.text) > most_characters:
            continue
        drawn.append(document)
        drawn_size += len(document.text)
    return drawn, size / max(1, drawn_size)


def _count_indexing(
    documents: Sequence[Document],
    chunking: Any,
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
            Path(folder), llm=llm, language=language, chunking=chunking, llm_settings=setting, create=True
        ) as index,
    ):
        index.add(documents)
        if parts:
            index.build(*parts)
    return _count_by_task(tally)


def _count_by_task(tally: ledger.Tally) -> dict[str, _Counts]:
    counts: dict[str, _Counts] = {}
    for entry in (entry for entry in tally.entries if entry.task != ledger.EMBEDDING):
        count = counts.get(entry.task, _Counts())
        read, written = count.read + entry.input_tokens, count.written + entry.output_tokens
        counts[entry.task] = _Counts(count.calls + 1, read, written, count.known + entry.cached_tokens)
    return counts


# ---------------------------------------------------------------- prices and intervals

_THINKS = regex.compile(r"(?:^|/)(?:gpt-5(?!.*chat)|o[134](?:-|$)|deepseek-reasoner|deepseek-r1|qwq|magistral)")
"""Names of models that think before they answer."""
_THOUGHTS: Mapping[str | None, int] = {None: 450, "none": 0, "minimal": 50, "low": 200, "medium": 450, "high": 1500}
"""Tokens that they are assumed to think, by reasoning effort; answers to the project's prompts are short."""
_EXACT, _DRAWN, _OF_ANSWERS, _ASSUMED = 1.02, 1.06, 1.2, 1.33
"""By what a figure may be too low or too high: counted, from a part of the corpus, made from answers, assumed."""
_OF_FEW = 2**0.5
"""The same for calls whose number answers decide, where no sample or too small a one shows it: rounds of agents, groups
of a graph. It is the widest, as the upper end is at most twice the lower."""
_LEAST_SAMPLED = 1.08
_SPREAD_OF_LENGTHS = 0.5
"""The standard deviation of answers' lengths, as a share of their mean: about that of triples and summaries."""
_RETRIED = 1.02
"""Answers that cannot be used are asked for again: about one in fifty."""
_FEW_CALLS = 0.5
"""Tasks that a model is asked so much more rarely than rules: of groups of a graph, a sample has other numbers."""
_SAMPLE_OF_CALLS = 20
"""So many calls of a sample weigh as much as what is typical, where answers decide how many calls there are."""


@dataclass(frozen=True, slots=True)
class _Typical:
    """How often a model is asked and how long its answers are, as multiples of what rules do.

    `growth` is added to `calls` for each doubling of the rules' calls beyond 200. An answer has `least` tokens, where
    rules often have nothing to say.
    """

    calls: float = 1.0
    length: float = 1.0
    least: int = 0
    growth: float = 0.0

    def scale_calls(self, by_rules: float) -> float:
        """Return `calls` where rules ask so often."""
        doublings = log2(max(1.0, by_rules / 200))
        return min(1.0, self.calls + self.growth * doublings) if self.growth else self.calls


_TYPICAL: Mapping[str, _Typical] = {
    "extract": _Typical(length=0.95),
    "extract_names": _Typical(length=0.95),
    "extract_relations": _Typical(length=0.95),
    "entities": _Typical(length=1.3),
    "propositions": _Typical(length=2.9),
    "rewrite": _Typical(length=0.9),
    "summary": _Typical(length=1.8),
    "community_report": _Typical(calls=0.17, growth=0.09, length=0.8),
    "same_as": _Typical(calls=0.6),
    "question-entities": _Typical(length=1.15),
    "thought": _Typical(calls=1.1, length=1.4),
    "follow-ups": _Typical(length=1.3),
    "rerank": _Typical(length=1.5),
    "gear-read": _Typical(calls=1.2, least=65),
    "context": _Typical(least=30),
    "gear-reason": _Typical(calls=1.1, length=1.25),
    "gear-rewrite": _Typical(calls=0.6, length=0.65),
}
"""Of answers of two models, beside those of rules over the same passages; other tasks are taken to be as of rules.

Groups of a graph: by GPT-3.5's published extractions from six sets of 150 passages (the median), and from more.
"""


@dataclass(frozen=True, slots=True)
class _Scaling:
    """What rules and the model took on a sample; None without one. The sample's calls stand for `factor` times more."""

    rules: _Counts | None = None
    real: _Counts | None = None
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Pricing:
    """What a model's calls cost: prices, the tokens that it thinks, and the `reasoning_tokens` set aside for these."""

    prices: Prices
    name: str
    thoughts: int
    batched: bool = False
    reasoning_tokens: int = 0

    @classmethod
    def of(cls, llm: LLMPlugin, setting: LLMSettings, *, batched: bool = False) -> "Pricing":
        """Return the pricing of an LLM. Raises UsageError if it names no model."""
        name = require_model(llm)
        prices = llm.price_list(setting.prices) if isinstance(llm, PaidPlugin) else setting.prices
        effort = getattr(llm, "reasoning_effort", None)
        thinks = effort is not None or _THINKS.search(name.lower()) is not None
        thoughts = _THOUGHTS.get(effort, _THOUGHTS[None]) if thinks else 0
        return cls(prices, name, thoughts, batched, getattr(llm, "reasoning_tokens", 0))

    def price(
        self,
        label: str,
        counts: _Counts,
        scaling: _Scaling,
        task: Task[Any] | None,
        *,
        from_corpus: bool,
        part_of_corpus: bool = False,
    ) -> Estimate:
        """Return the estimate of a task from its counts by rules, scaled by what a sample took.

        The interval has for prompts that are made `from_corpus` the schema of the answer, which some services charge
        for; for others, and for answers, what `docs/dev/decisions/0146-intervals-of-estimates.md` says.
        """
        rules, real = scaling.rules, scaling.real
        typical = _TYPICAL.get(task.name if task else "", _Typical())
        typical = replace(typical, calls=typical.scale_calls(counts.calls))
        known, spread = (counts.known / counts.read if counts.read else 0.0), _ASSUMED
        sampled = real is not None and real.calls > 0
        if real is not None and sampled and (rules is None or not rules.calls):
            counts, known = real.times(scaling.factor), real.known / max(1.0, real.read)  # rules never ask what it asks
        elif real is not None and sampled and rules is not None:
            each = real.calls / rules.calls  # answers that are asked for again are among the calls
            few = typical.calls < _FEW_CALLS and scaling.factor > 1
            blended = typical.calls if few else _blend(real.calls, rules.calls, typical.calls, scaling.factor)
            calls_ratio = each if from_corpus else blended
            counts = _Counts(
                counts.calls * calls_ratio,
                counts.read * calls_ratio * _ratio(real.read / real.calls, rules.read / rules.calls),
                counts.written * calls_ratio * _ratio(real.written / real.calls, rules.written / rules.calls),
            )
            least, deviation = (_LEAST_SAMPLED, _SPREAD_OF_LENGTHS) if from_corpus else (_OF_ANSWERS, 1.0)
            spread = _OF_FEW if few else min(_ASSUMED, max(least, 1 + deviation / real.calls**0.5))
        else:
            counts = self._assume(counts.times(1.0 if from_corpus else typical.calls), typical, task)
            spread = _ASSUMED if from_corpus or typical.calls == 1.0 else _OF_FEW
        drawn = _DRAWN if part_of_corpus else 1.0
        of_prompts = drawn * (_EXACT if from_corpus else spread)
        of_answers = drawn * spread
        schema = tokens.count_text_tokens(_describe_schema(task), self.name).tokens
        middle = self._money(counts.calls, counts.read, counts.written, known)
        low = self._money(counts.calls, counts.read / of_prompts, counts.written / of_answers, known)
        high = self._money(
            counts.calls * _RETRIED,
            _RETRIED * (counts.read * of_prompts + counts.calls * schema),
            _RETRIED * counts.written * of_answers,
            known,
        )
        if low is not None and high is not None:
            high = max(high, self._money(counts.calls, counts.read, counts.written, 0.0) or 0.0)  # no discount
            low = max(low, high / 2)
        price = self.prices.find(self.name)
        return Estimate(
            label,
            *(max(1, round(counts.calls)) if counts.calls else 0, round(counts.read), round(counts.written)),
            money=middle,
            sampled=sampled,
            counted=has_tokenizer(self.name),
            price_source=getattr(price, "source", ""),
            price_date=getattr(price, "as_of", None),
            money_low=low,
            money_high=high,
            basis="sampled" if sampled else "assumed",
        )

    def _assume(self, counts: _Counts, typical: _Typical, task: Task[Any] | None) -> _Counts:
        """Return counts by rules with the answers of a model, which may think for longer than the limit of an answer.

        Such an answer is cut off, and asked for again with a higher limit.
        """
        written = max(counts.written * typical.length, counts.calls * typical.least) + counts.calls * self.thoughts
        limit = self.reasoning_tokens + (0 if task is None else task.max_tokens)
        if not self.thoughts or task is None or written <= counts.calls * limit:
            return replace(counts, written=written)
        return _Counts(2 * counts.calls, 2 * counts.read, written + counts.calls * limit, 2 * counts.known)

    def _money(self, calls: float, read: float, written: float, known: float) -> float | None:
        """Return the cost of calls of which the share `known` of what is read began an earlier prompt."""
        requests = max(1, round(calls))
        cached = round(read * known)
        return self.prices.money(
            self.name, round(read), cached, round(written), batched=self.batched, requests=requests
        )


def _blend(real: float, rules: float, typical: float, factor: float) -> float:
    """Return how often a model is asked for each time that rules are, from a sample and from what is typical.

    A sample of everything (`factor` 1) counts alone.
    """
    weight = _SAMPLE_OF_CALLS * (1 - 1 / max(1.0, factor))
    return (real + weight * typical) / (rules + weight)


def _ratio(part: float, total: float) -> float:
    return part / total if total else 1.0


# ---------------------------------------------------------------- encoders


def estimate_encoding(
    corpus: Corpus,
    schemes: Mapping[str, Scheme | Part[Any]],
    encoder: Plugin,
    prices: Prices,
    *,
    queries: Sequence[Query] = (),
    llm: LLMPlugin | None = None,
    find_stored: FindStored | None = None,
    scope: EstimateScope = _WHOLE,
) -> list[Estimate]:
    """Estimate what encoding costs: one Estimate for the texts of the index, and one of `queries` for all methods.

    A text counts as a call. Returns [] for an encoder that costs nothing. The parts that encode are built in a
    temporary folder with made-up vectors; texts that a language model would write are those of `llm`, by default of the
    rules. Texts that `find_stored` returns cost nothing. A comparison encodes a question once; what a method searches
    for later is not counted.
    """
    name = _find_paid_name(encoder)
    encoding = {label: scheme for label, scheme in schemes.items() if any(map(uses_encoder, parts_of(scheme)))}
    parts = [
        part for part in topological_order(_list_parts(encoding)) if uses_encoder(part) and part not in scope.built
    ]
    if name is None:
        return []
    estimates = list[Estimate]()
    if parts and corpus.documents:
        counting = CountingEncoder.beside(name, getattr(encoder, "document_prefix", None) or "", find_stored)
        documents, share = _draw_documents(corpus.documents, scope)
        chunking = scope.chunking_of(corpus)
        texts, read = _count_encoding(documents, chunking, parts, counting, llm, scope.language)
        by_model = any("model" in part.uses for part in topological_order(parts))  # texts as long as those of rules
        spread = _ASSUMED if by_model else _DRAWN if share > 1 else _EXACT
        priced = _price_encoding("encoding, index", round(share * texts), round(share * read), encoder, prices, spread)
        estimates.append(replace(priced, methods=tuple(encoding), share=1 / share))
    return estimates + (estimate_question_vectors(encoding, encoder, prices, queries) if queries else [])


def estimate_question_vectors(
    schemes: Mapping[str, Scheme | Part[Any]], encoder: Plugin, prices: Prices, queries: Sequence[Query]
) -> list[Estimate]:
    """Estimate what encoding `queries` costs: one Estimate for all methods, as a comparison encodes a question once.

    What a method searches for later is not counted. Returns [] for an encoder that costs nothing.
    """
    name = _find_paid_name(encoder)
    encoding = {label: scheme for label, scheme in schemes.items() if any(map(uses_encoder, parts_of(scheme)))}
    if name is None or not encoding:
        return []
    prefix = getattr(encoder, "query_prefix", None) or ""
    read = sum(tokens.count_text_tokens(f"{prefix}{query.text}", name).tokens for query in queries)
    searches = any(tasks_of(each) for each in encoding.values() if isinstance(each, Scheme))  # for other questions, too
    spread = _ASSUMED if searches else _EXACT
    priced = _price_encoding("encoding, questions", len(queries), read, encoder, prices, spread)
    return [replace(priced, methods=tuple(encoding), step="questions")]


def _find_paid_name(encoder: Plugin) -> str | None:
    """Return the name of the model of an encoder that costs money, else None."""
    name = getattr(encoder, "model", None)
    return name if isinstance(encoder, PaidPlugin) and isinstance(name, str) else None


def _price_encoding(task: str, calls: int, read: int, encoder: Plugin, prices: Prices, spread: float) -> Estimate:
    """Return the estimate of so many texts with so many tokens, which may be wrong by the factor `spread`."""
    assert isinstance(encoder, PaidPlugin)  # noqa: S101  # _find_paid_name has checked it
    name, price, listed = _find_paid_name(encoder) or "", getattr(encoder, "price", None), encoder.price_list(prices)
    listed_price = listed.find(name) if price is None else None
    money = listed.money(name, read, 0, 0, requests=max(1, calls)) if price is None else read * price / 1e6
    return Estimate(
        *(task, calls, read, 0),
        money=money,
        sampled=False,
        counted=has_tokenizer(name),
        price_source=getattr(listed_price, "source", ""),
        price_date=getattr(listed_price, "as_of", None),
        money_low=None if money is None else money / spread,
        money_high=None if money is None else money * spread,
        basis="assumed" if spread == _ASSUMED else "counted",
    )


def _count_encoding(
    documents: Sequence[Document],
    chunking: Any,
    parts: Sequence[Part[Any]],
    counting: CountingEncoder,
    llm: LLMPlugin | None,
    language: str | None,
) -> tuple[int, int]:
    """Build the parts that encode; return how many texts were encoded, and their tokens."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ledger.record_calls() as tally,
        Index.open(Path(folder), encoder=counting, llm=llm, language=language, chunking=chunking, create=True) as index,
    ):
        index.add(documents)
        index.build(*parts)
    counted = [entry.input_tokens for entry in tally.entries if entry.task == COUNTED_ENCODING]
    return len(counted), sum(counted)
