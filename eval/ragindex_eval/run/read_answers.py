"""Reader that answers questions from retrieved passages, with one task, model and token limit for all methods.

Two bounds are computed with the same reader: answers without passages, which show what the model knows by itself, and
answers from the passages of the gold documents, which show how well it uses all that it needs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ragindex._util.canonical import digest
from ragindex.accounting import ledger
from ragindex.corpus import Chunking, chunk
from ragindex.english import overlaps
from ragindex.index.index import Index
from ragindex.interfaces import Retriever
from ragindex.interfaces.llm import LLM
from ragindex.llm import answer_question
from ragindex.llm.answer_question import (
    CHOICE,
    LETTERS,
    LONG_ANSWER,
    READER_TASKS,
    AnswerContext,
    AnswerOutput,
    choice_inputs,
    parse_choice,
)
from ragindex.llm.tasks import Failure, Task
from ragindex.types import Document, Hit, Passage, Query, Retrieval, Usage
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.metrics import retrieval
from ragindex_eval.metrics.long_answers import SpanReader, add_disambiguated_rouge
from ragindex_eval.results.model import NOT_TIMED, MethodResult
from ragindex_eval.results.reader_results import ReaderAnswer
from ragindex_eval.run.ask import answer_all
from ragindex_eval.run.score import score_answers

NO_PASSAGES, GOLD_PASSAGES = "no-passages", "gold-passages"


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Reader over at most `tokens` tokens of what was retrieved; `llm` is a language model or offline rules.

    Tokens are counted with the tokenizer of `model`, or estimated if `model` is "" or its tokenizer is not available.
    `options` are the choices of multiple-choice questions, by query id; the reader chooses one of them. `ambiguous` are
    the ids of questions with sub-questions, which have long answers. All others are asked by the task in `READER_TASKS`
    that `prompt` names.
    """

    llm: LLM
    tokens: int
    model: str
    language: str
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ambiguous: frozenset[str] = frozenset()
    prompt: str = "short"

    @property
    def task(self) -> Task[AnswerOutput]:
        """The task that answers in a few words."""
        return READER_TASKS[self.prompt]

    @property
    def id(self) -> str:
        """A hash of what answers depend on, except the retrieved passages. Raises UsageError if `tokens` is below 1."""
        given = [self.llm.id, self.task.version, self.task.hash, self.tokens, self.model, self.language, self.estimated]
        choices = [[id, *options] for id, options in sorted(self.options.items())]
        chooses = [CHOICE.version, CHOICE.hash, choices] if choices else []
        writes = [LONG_ANSWER.version, LONG_ANSWER.hash, sorted(self.ambiguous)] if self.ambiguous else []
        return digest([*given, *chooses, *writes])

    @property
    def estimated(self) -> bool:
        """Whether token counts are estimates."""
        return answer_question.build_context((), (), self.tokens, self.model).estimated

    def read(self, queries: Sequence[Query], retrievals: Sequence[Retrieval]) -> list[ReaderAnswer]:
        """Answer each question from its retrieval, in order; an answer that failed has `error`.

        Raises as `LLM.map` does. The costs are in the answers, and in the ledger recordings of this context.
        """
        seen = [answer_question.build_context(one.hits, one.notes, self.tokens, self.model) for one in retrievals]
        tasks, answers = [self._task(query) for query in queries], dict[int, ReaderAnswer]()
        for task in (self.task, CHOICE, LONG_ANSWER):
            numbers = [number for number, one in enumerate(tasks) if one is task]
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
        with ledger.attribute_calls(phase="query"), ledger.record_calls() as asked:
            said = self.llm.map(task, inputs)
        usage, calls = asked.by_item(), Counter(entry.item for entry in asked.entries if not entry.rule)
        return [
            _make_answer(one, context, usage.get(number, Usage()), calls[number])
            for number, (one, context) in enumerate(zip(said, seen, strict=True))
        ]


def _format_choice(answer: str, options: Sequence[str]) -> str:
    """Write the option that an answer names with its letter and text; an answer that names none stays as it is."""
    place = parse_choice(answer, options) if options else None
    return answer if place is None else f"{LETTERS[place]}. {options[place]}"


def make_reader(index: Index, tokens: int, prompt: str, gold: Mapping[str, Gold] | None = None) -> AnswerReader:
    """Create a reader with the LLM of an index. Raises UsageError if `tokens` is below 1.

    Of `gold`, the reader gets the options, and which questions have sub-questions.
    """
    options = {id: one.options for id, one in (gold or {}).items() if one.options}
    long = frozenset(id for id, one in (gold or {}).items() if one.sub_questions)
    reader = AnswerReader(index.llm, tokens, index.tokens_counted_by, index.language, options, long, prompt)
    answer_question.build_context((), (), tokens)
    return reader


def _make_answer(said: AnswerOutput | Failure, seen: AnswerContext, usage: Usage, calls: int) -> ReaderAnswer:
    if isinstance(said, Failure):
        return ReaderAnswer("", False, (), seen.tokens, usage, calls, said.reason)
    answered = answer_question.resolve_citations(said, seen)
    return ReaderAnswer(answered.answer, answered.found, tuple(answered.passages.values()), seen.tokens, usage, calls)


# ---------------------------------------------------------------- the bounds


def bounds(
    reader: AnswerReader,
    dataset: Dataset,
    chunking: Chunking | None,
    k: int,
    folder: Path,
    *,
    fresh: bool = False,
    find_spans: SpanReader | None = None,
) -> list[MethodResult]:
    """Score the reader's answers without passages and from the gold documents, on questions with accepted answers.

    Returns [] if no question has accepted answers. Answers are saved under `folder`; `fresh` asks again. Raises as
    `answer_all` does.
    """
    gold = dataset.gold or {}
    queries, sources = bound_sources(dataset, chunking, reader.language)
    shape = None if chunking is None else [chunking.size, chunking.overlap]
    found = []
    for label, source in sources.items():
        kept = folder / digest([label, dataset.fingerprint, shape, k, reader.id])
        if fresh:
            (kept / "answers.jsonl").unlink(missing_ok=True)
        found.append(_read_bound(label, source, queries, k, kept, reader, gold, find_spans))
    return found


def bound_sources(
    dataset: Dataset, chunking: Chunking | None, language: str
) -> tuple[list[Query], dict[str, Retriever]]:
    """Return the questions with accepted answers, and what the reader gets for each bound; no bounds without them."""
    gold = dataset.gold or {}
    queries = [query for query in dataset.queries if query.id in gold and gold[query.id].answers]
    if not queries:
        return [], {}
    wanted = {id for query in queries for id in gold[query.id].doc_ids}
    documents = {document.id: document for document in dataset.corpus.documents if document.id in wanted}
    return queries, {
        NO_PASSAGES: NoPassages(),
        GOLD_PASSAGES: GoldPassages(gold, documents, chunking, language),
    }


def _read_bound(
    label: str,
    source: Retriever,
    queries: Sequence[Query],
    k: int,
    folder: Path,
    reader: AnswerReader,
    gold: Mapping[str, Gold],
    find_spans: SpanReader | None,
) -> MethodResult:
    with ledger.attribute_calls(method=label), ledger.record_calls() as paid:
        answers = answer_all(source, queries, k, folder / "answers.jsonl", label, reader=reader.read)
    per_query = score_answers(answers, gold, find_spans)
    return MethodResult(
        label,
        label,
        {},
        folder.name,
        {k: answers},
        per_query,
        add_disambiguated_rouge(retrieval.means(list(per_query.values()))),
        NOT_TIMED,
        {},
        spent=paid.spent,
    )


@dataclass(frozen=True, slots=True)
class NoPassages:
    """Retriever that finds nothing."""

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return no hits for each question."""
        return [Retrieval(()) for _ in queries]


@dataclass(frozen=True, slots=True)
class GoldPassages:
    """Retriever that finds the passages of the gold documents; it reads the gold, so it is no method.

    The documents take turns, in order of their grades. Each contributes its passage nearest to the question, then the
    next nearest, and so on.
    """

    gold: Mapping[str, Gold]
    documents: Mapping[str, Document]
    chunking: Chunking | None
    language: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return the first `k` gold passages for each question."""
        return [Retrieval(tuple(self._hits(query)[:k])) for query in queries]

    def _hits(self, query: Query) -> list[Hit]:
        grades = self.gold[query.id].grades
        ids = sorted((id for id in grades if id in self.documents), key=lambda id: (-grades[id], id))
        each = [self._nearest_first(query.text, chunk(self.documents[id], self.chunking)) for id in ids]
        turns = [passage for turn in zip_longest(*each) for passage in turn if passage is not None]
        return [_make_hit(passage, rank) for rank, passage in enumerate(turns, start=1)]

    def _nearest_first(self, question: str, passages: Sequence[Passage]) -> list[Passage]:
        near = overlaps(question, [passage.text for passage in passages], self.language)
        order = sorted(range(len(passages)), key=lambda place: -near[place])
        return [passages[place] for place in order]


def _make_hit(passage: Passage, rank: int) -> Hit:
    ids = (passage.id,), (passage.doc_id,)
    return Hit(passage.id, "passage", *ids, passage.title, passage.text, 1.0 / rank, GOLD_PASSAGES)
