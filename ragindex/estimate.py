"""What asking a language model would cost, before anything is spent.

The parts are built in a folder of their own by the rules, and every call that a model would get is counted with the
model's tokenizer: exact where a prompt is made from the corpus alone. What rules cannot know is measured on a sample of
documents, asked in earnest and kept: how much longer the model's answers are, and the prompts made from them. Both are
scaled up by the ratio of sample and rules, so a prompt that no answer reaches keeps its exact count.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from pydantic import Field

from ragindex.accounting import ledger
from ragindex.corpus import Corpus
from ragindex.errors import ServiceError, UsageError
from ragindex.interfaces import Part, Scheme
from ragindex.llm import answer_question, tokens
from ragindex.llm.offline import OfflineRules
from ragindex.llm.plugins import LLMPlugin
from ragindex.llm.prices import Prices
from ragindex.llm.settings import LLMSettings
from ragindex.llm.tasks import LLM, Output, Task, render_messages
from ragindex.types import Document, Query
from ragindex.workspace.part_keys import topological_order
from ragindex.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one task would take. `output_tokens` are those of the rules' answers, until `sampled`.

    `counted` says whether the tokenizer is the model's own; else tokens are a guess. `money` is None without a price.
    """

    task: str
    calls: int
    input_tokens: int
    output_tokens: int
    money: float | None
    sampled: bool
    counted: bool


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
    """One estimate a task of indexing `corpus` for `schemes` with `llm`, shared parts once.

    With `sample`, that many documents are paid for, and their answers kept in the cache of `setting`. Raises UsageError
    for a task that no rule can do and for a model whose calls nobody would pay (`offline`).
    """
    name, parts = _named(llm), _asking(schemes)
    counting = Counting(model=name)
    whole = _asked(corpus.documents, corpus, parts, counting, LLMSettings(), language)
    chosen = Random(seed).sample(corpus.documents, min(sample, len(corpus.documents)))  # noqa: S311  # no secret
    by_rules = _asked(chosen, corpus, parts, counting, LLMSettings(), language) if chosen else {}
    in_earnest = _asked(chosen, corpus, parts, llm, setting, language) if chosen else {}
    if by_rules and not in_earnest:
        raise ServiceError(
            f"Every request for the {len(chosen)} sampled documents failed. Check --llm and OPENAI_BASE_URL."
        )
    own = tokens.count_text_tokens("word", name).estimated is False
    return [
        _scaled(task, counts, by_rules.get(task), in_earnest.get(task), setting.prices, name, own)
        for task, counts in whole.items()
    ]


def estimate_reading(
    corpus: Corpus,
    schemes: Mapping[str, Scheme],
    llm: LLMPlugin,
    setting: LLMSettings,
    queries: Sequence[Query],
    *,
    reader_tokens: int = answer_question.DEFAULT_TOKENS,
    k: int = 20,
    sample: int = 0,
    seed: int = 0,
    language: str | None = None,
) -> list[Estimate]:
    """One estimate a method, by label: of answering `queries` from what it finds, read by `llm`.

    The method is built by the rules, with `lsa` where it needs an encoder, so nothing is paid for it; what it finds for
    a question is about as long as what it would find. A task that the method asks itself is estimated by the rules'
    answers alone. With `sample`, that many questions are answered in earnest, and the answers kept.
    """
    name = _named(llm)
    own = tokens.count_text_tokens("word", name).estimated is False
    chosen = Random(seed).sample(range(len(queries)), min(sample, len(queries)))  # noqa: S311  # no secret
    found: list[Estimate] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Workspace.open(
            Path(folder), llm=Counting(model=name), language=language, chunking=corpus.chunking
        ) as workspace,
    ):
        workspace.add(corpus.documents)
        workspace.sync(schemes.values())
        model = llm.open(setting)
        for label, scheme in schemes.items():
            with ledger.record_calls() as tally:
                retrievals = scheme.open(workspace).retrieve(queries, k)
            found += [_scaled(task, counts, None, None, setting.prices, name, own) for task, counts in _by_task(tally)]
            contexts = [answer_question.build_context(one.hits, one.notes, reader_tokens, name) for one in retrievals]
            asked = [
                answer_question.answer_inputs(q.text, one, workspace.language)
                for q, one in zip(queries, contexts, strict=True)
            ]
            whole, by_rules = _answered(workspace.llm, asked), _answered(workspace.llm, [asked[n] for n in chosen])
            real = _answered(model, [asked[n] for n in chosen])
            read = (
                whole[answer_question.ANSWER.name],
                by_rules.get(answer_question.ANSWER.name),
                real.get(answer_question.ANSWER.name),
            )
            found.append(_scaled(f"{answer_question.ANSWER.name}, {label}", *read, setting.prices, name, own))
    return found


def _answered(llm: LLM, asked: Sequence[Mapping[str, Any]]) -> dict[str, _Counts]:
    with ledger.record_calls() as tally:
        llm.map(answer_question.ANSWER, asked)
    return dict(_by_task(tally))


def _named(llm: LLMPlugin) -> str:
    name = getattr(llm, "model", None)
    if not isinstance(name, str):
        raise UsageError("An estimate needs an LLM, as --llm openai:MODEL. Rules cost nothing.")
    return name


def _asking(schemes: Sequence[Scheme]) -> list[Part[Any]]:
    """The parts that ask a language model, with what they are made from; nothing that is made of them."""
    parts = topological_order([part for scheme in schemes for part in scheme.parts()])
    return [part for part in parts if "model" in part.uses]


def _asked(
    documents: Sequence[Document],
    corpus: Corpus,
    parts: Sequence[Part[Any]],
    llm: Any,
    setting: LLMSettings,
    language: str | None,
) -> dict[str, _Counts]:
    """What every task was asked while the parts were built in a folder of their own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ledger.record_calls() as tally,
        Workspace.open(Path(folder), llm=llm, language=language, chunking=corpus.chunking, asking=setting) as workspace,
    ):
        workspace.add(documents)
        if parts:
            workspace.sync(parts)
    return dict(_by_task(tally))


def _by_task(tally: ledger.Tally) -> Iterator[tuple[str, _Counts]]:
    counts: dict[str, _Counts] = {}
    for entry in (one for one in tally.entries if one.task != ledger.EMBEDDING):
        held = counts.get(entry.task, _Counts())
        read, written = held.read + entry.input_tokens, held.written + entry.output_tokens
        counts[entry.task] = _Counts(held.calls + 1, read, written)
    yield from counts.items()


def _scaled(
    task: str, whole: _Counts, rules: _Counts | None, real: _Counts | None, prices: Prices, name: str, own: bool
) -> Estimate:
    sampled = rules is not None and real is not None and rules.read > 0 and rules.written > 0
    calls, read, written = whole.calls, whole.read, whole.written
    if sampled and rules is not None and real is not None:
        calls = round(calls * real.calls / rules.calls)
        read, written = round(read * real.read / rules.read), round(written * real.written / rules.written)
    return Estimate(task, calls, read, written, prices.money(name, read, 0, written), sampled, own)


# ---------------------------------------------------------------- a language that only counts


class Counting(LLMPlugin):
    """Answers by rule and books the tokens that a model would have been sent and have answered."""

    version: ClassVar[int] = 1
    model: str = Field(description="Model whose tokenizer counts the tokens.")

    def open(self, setting: LLMSettings | None = None) -> "CountingRules":
        """Send no request."""
        return CountingRules(self.model)


class CountingRules(OfflineRules):
    """See Counting."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.id = f"counting for {model}"  # never of an index that anybody keeps

    def run(self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0, again: bool = False) -> Output:
        """The rule's answer. Raises UsageError for a task without a rule."""
        if task.rule is None:
            raise UsageError(f"{task.name} cannot be estimated: it has no rule to take the place of the LLM.")
        output = task.rule(inputs)
        read = tokens.count_message_tokens(render_messages(task, inputs), self.model)
        answered = task.output.model_validate(output.model_dump()).model_dump_json(
            include=set(task.output.model_fields)
        )
        written = tokens.count_text_tokens(answered, self.model)
        entry = ledger.CallRecord(task.name, self.model, input_tokens=read.tokens, output_tokens=written.tokens)
        ledger.record_call(replace(entry, replayed=True), 0.0)  # nobody is paid
        return output
