"""Reader that answers questions from retrieved passages, with one task, model and limit for all methods."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragindex._util.canonical import digest
from ragindex.accounting import ledger
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLM, LLMPlugin
from ragindex.llm import answer_question
from ragindex.llm.answer_question import (
    CHOICE,
    LETTERS,
    LONG_ANSWER,
    READER_TASKS,
    AnswerContext,
    AnswerOutput,
    ContextLimits,
    choice_inputs,
    parse_choice,
)
from ragindex.llm.tasks import Failure, Task
from ragindex.plugins import registry
from ragindex.types import Query, Retrieval, Usage
from ragindex_eval.data.gold import Gold
from ragindex_eval.results.records import ReaderAnswer
from ragindex_eval.run.settings import ReaderSettings


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Reader of what was retrieved, within `limits`; `llm` is a language model or offline rules.

    Tokens are counted with the tokenizer of `model`, or estimated if `model` is "" or its tokenizer is not available.
    `plugin` opens `llm`; None is the rules.
    `options` are the choices of multiple-choice questions, by query id; the reader chooses one of them. `ambiguous` are
    the ids of questions with sub-questions, which have long answers. All others are asked by the task in `READER_TASKS`
    that `prompt` names.
    """

    llm: LLM
    limits: ContextLimits
    model: str
    language: str
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ambiguous: frozenset[str] = frozenset()
    prompt: str = "short"
    plugin: LLMPlugin | None = None

    @property
    def name(self) -> str:
        """The label of the language model, as written in a configuration."""
        return "offline" if self.plugin is None else registry.label(self.plugin)

    @property
    def task(self) -> Task[AnswerOutput]:
        """The task that answers in a few words."""
        return READER_TASKS[self.prompt]

    @property
    def id(self) -> str:
        """A hash of what answers depend on, except the retrieved passages.

        Limits that are not set are no part of it: answers that were read before there were such limits stay valid.
        """
        tokens, task = self.limits.tokens, self.task
        given = [self.llm.id, task.version, task.hash, tokens, self.model, self.language, self.estimated]
        passages, notes = self.limits.passages, self.limits.notes
        limits = {**({} if passages is None else {"passages": passages}), **({} if notes else {"notes": False})}
        choices = [[id, *options] for id, options in sorted(self.options.items())]
        chooses = [CHOICE.version, CHOICE.hash, choices] if choices else []
        writes = [LONG_ANSWER.version, LONG_ANSWER.hash, sorted(self.ambiguous)] if self.ambiguous else []
        return digest([*given, *chooses, *writes, *([limits] if limits else [])])

    @property
    def estimated(self) -> bool:
        """Whether token counts are estimates."""
        return ContextLimits().build(Retrieval(()), self.model).estimated

    def read(self, queries: Sequence[Query], retrievals: Sequence[Retrieval]) -> list[ReaderAnswer]:
        """Answer each question from its retrieval, in order; an answer that failed has `error`.

        Raises as `LLM.map` does. The costs are in the answers, and in the ledger recordings of this context.
        """
        seen = [self.limits.build(retrieval, self.model) for retrieval in retrievals]
        tasks, answers = [self._task(query) for query in queries], dict[int, ReaderAnswer]()
        for task in (self.task, CHOICE, LONG_ANSWER):
            numbers = [number for number, retrieval in enumerate(tasks) if retrieval is task]
            inputs = [self._inputs(queries[number], seen[number]) for number in numbers]
            answers |= zip(numbers, self._ask(task, inputs, [seen[number] for number in numbers]), strict=True)
        return [
            replace(answers[number], answer=_format_choice(answers[number].answer, self.options.get(query.id, ())))
            for number, query in enumerate(queries)
        ]

    def _task(self, query: Query) -> Task[AnswerOutput]:
        return CHOICE if query.id in self.options else LONG_ANSWER if query.id in self.ambiguous else self.task

    def _inputs(self, query: Query, seen: AnswerContext) -> dict[str, Any]:
        if query.id in self.options:
            return choice_inputs(query.text, self.options[query.id], seen, self.language)
        return answer_question.answer_inputs(query.text, seen, self.language)

    def _ask(
        self, task: Task[AnswerOutput], inputs: Sequence[Mapping[str, Any]], seen: Sequence[AnswerContext]
    ) -> list[ReaderAnswer]:
        if not inputs:
            return []
        with ledger.attribute_calls(phase="query"), ledger.record_calls() as tally:
            outputs = self.llm.map(task, inputs)
        usage, calls = tally.by_item(), Counter(entry.item for entry in tally.entries if not entry.rule)
        return [
            _make_answer(output, context, usage.get(number, Usage()), calls[number])
            for number, (output, context) in enumerate(zip(outputs, seen, strict=True))
        ]


def _format_choice(answer: str, options: Sequence[str]) -> str:
    """Write the option that an answer names with its letter and text; an answer that names none stays as it is."""
    place = parse_choice(answer, options) if options else None
    return answer if place is None else f"{LETTERS[place]}. {options[place]}"


def make_reader(index: Index, settings: ReaderSettings, gold: Mapping[str, Gold] | None = None) -> AnswerReader:
    """Create the reader of the settings, with the LLM of an index where they name none.

    Answers of each LLM are cached in the index. Of `gold`, the reader gets the options, and which questions have
    sub-questions.
    """
    model = index.model_for(settings.reader_llm)
    options = {id: right.options for id, right in (gold or {}).items() if right.options}
    long = frozenset(id for id, right in (gold or {}).items() if right.sub_questions)
    return AnswerReader(
        model.language,
        settings.context_limits(),
        model.tokens_counted_by,
        index.language,
        options,
        long,
        settings.reader_prompt,
        model.plugin,
    )


def _make_answer(output: AnswerOutput | Failure, seen: AnswerContext, usage: Usage, calls: int) -> ReaderAnswer:
    if isinstance(output, Failure):
        return ReaderAnswer("", False, (), seen.tokens, usage, calls, output.reason)
    answered = answer_question.resolve_citations(output, seen)
    return ReaderAnswer(answered.answer, answered.found, tuple(answered.passages.values()), seen.tokens, usage, calls)
