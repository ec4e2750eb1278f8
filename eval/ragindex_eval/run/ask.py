"""Asking a retriever every question of a dataset: in batches, on a few threads, keeping what was answered.

Finished batches are appended to a JSON Lines file, so that a comparison that was stopped goes on where it was.
"""

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from ragindex.accounting import ledger
from ragindex.accounting.ledger import EMBEDDING
from ragindex.errors import (
    BudgetError,
    ContractError,
    DataError,
    QuestionError,
    RagindexError,
    RequestError,
    ServiceError,
    StoreError,
    UsageError,
    WorkspaceError,
)
from ragindex.interfaces import Retriever
from ragindex.progress import progress_bar
from ragindex.redaction import hide_secrets
from ragindex.retrieval.hits import find_breach
from ragindex.retrieval.trace import IF_STOPPED, KEPT_IDS
from ragindex.types import Hit, Query, Retrieval, Step, Usage
from ragindex_eval.results.model import MethodAnswer, SavedHit
from ragindex_eval.results.reader_results import ReaderAnswer
from ragindex_eval.run.answers_file import append_answers, load_answers

_THREADS = min(4, os.cpu_count() or 1)
BATCH = 32
"""Questions that are asked together, of a method that asks no language model."""

ReadAnswers: TypeAlias = Callable[[Sequence[Query], Sequence[Retrieval]], Sequence[ReaderAnswer]]
"""Answers questions from what was found for them, in order."""

# What a method may raise on one question without ending the comparison. A plugin is not ours: its mistakes count too.
MISTAKES = (
    *(ValueError, ArithmeticError, LookupError, RuntimeError, OSError),
    *(TypeError, AttributeError, AssertionError, ImportError, NameError),
)
SURVIVED = (RagindexError, *MISTAKES)
# Of these, what is wrong with the settings, a service or the engine: it says nothing of a method, and every other
# question would fail alike. An answer that no retriever may give is none that failed.
_ENDING = (BudgetError, ContractError, DataError, ServiceError, StoreError, UsageError, WorkspaceError)


# What is kept of a hit for a person to read, and of a step: enough to see what happened, however much was found.
_READ_HITS = 5
_TITLE, _TEXT, _QUERY, _NOTE = 200, 300, 500, 2_000  # characters
_STEPS, _STEP_TRIPLES = 50, 20


def answer_all(
    retriever: Retriever,
    queries: Sequence[Query],
    k: int,
    kept: Path,
    label: str,
    *,
    strict: bool = False,
    size: int = BATCH,
    reader: ReadAnswers | None = None,
    known: Container[str] | None = None,
    fresh: bool = False,
) -> tuple[MethodAnswer, ...]:
    """The answers to all questions, in order; those that stand in the file `kept` are read from there.

    With `fresh`, what the file held is asked again. An answer that no retriever may give (`hits.find_breach`), as one
    with documents that are not `known`, raises ContractError.

    A question on which the retriever raises has an Answer with `error`; it is asked again the next time. With
    `strict`, the first such question raises QuestionError. What `ends_all` is raised in any case. Questions are asked
    in batches of `size`; what a batch pays for is shared out evenly, so methods that ask a language model are asked one
    by one. With a `reader`, what was found is read while it is whole; one that was not read counts as failed, and what
    the reader raises ends all. Raises StoreError where the file cannot be written.
    """
    if fresh:
        kept.unlink(missing_ok=True)
    answers = {id: one for id, one in load_answers(kept).items() if find_breach(one.hits, k, known) is None}
    todo = [query for query in queries if query.id not in answers]
    with progress_bar(f"{label}: asking", len(todo)) as advance:
        for batch in _in_threads(retriever, todo, k, size, reader, _Contract(label, known)):
            append_answers(kept, [answer for answer in batch if failure(answer) is None])
            if strict:
                _require_answers(batch, {query.id: query.text for query in todo}, label)
            answers.update((answer.query_id, answer) for answer in batch)
            advance(len(batch))
    return tuple(answers[query.id] for query in queries)


def ends_all(error: Exception) -> bool:
    """Whether an error of one question is one of settings, of a service or of the engine, and no score."""
    return isinstance(error, _ENDING) and not isinstance(error, RequestError)


def retrieve(retriever: Retriever, queries: Sequence[Query], k: int) -> list[Retrieval]:
    """`retriever.retrieve`, one Retrieval a question. Raises ContractError where they are fewer or more."""
    found = retriever.retrieve(queries, k)
    if len(found) != len(queries):
        raise ContractError(
            f"it gives {len(found)} Retrievals for {len(queries)} questions, and must give one for each"
        )
    return found


@dataclass(frozen=True, slots=True)
class _Contract:
    """What a method's answers are held to: they are no answers where they break it, and the comparison ends."""

    label: str
    known: Container[str] | None

    def require(self, queries: Sequence[Query], found: Sequence[Retrieval], k: int) -> None:
        """Raises ContractError for the first answer that breaks it."""
        for query, retrieval in zip(queries, found, strict=True):
            broken = find_breach(retrieval.hits, k, self.known)
            if broken is not None:
                raise ContractError(f"{broken} (the question {query.id}: {query.text[:100]!r})")

    def error(self, error: ContractError) -> ContractError:
        """With the method's name, and what to run."""
        return ContractError(
            f"{self.label} breaks the contract of a retriever: {error}. No score is made of such an answer. To find "
            "its faults, run ragindex.testing.check_scheme on it; to go on without it, leave it out of --methods."
        )


def _in_threads(
    retriever: Retriever, queries: Sequence[Query], k: int, size: int, reader: ReadAnswers | None, contract: _Contract
) -> Iterator[list[MethodAnswer]]:
    batches = [queries[start : start + size] for start in range(0, len(queries), size)]
    pool = ThreadPoolExecutor(_THREADS)
    try:
        for future in as_completed(
            [pool.submit(copy_context().run, _answer, retriever, batch, k, reader, contract) for batch in batches]
        ):
            yield future.result()
    except ContractError as error:
        raise contract.error(error) from error
    finally:  # a stopped comparison does not wait for what it has not begun
        pool.shutdown(cancel_futures=True)


def _answer(
    retriever: Retriever, batch: Sequence[Query], k: int, reader: ReadAnswers | None, contract: _Contract
) -> list[MethodAnswer]:
    """The answers of one batch. Where it fails, each question is asked alone, to tell which one is to blame."""
    with ledger.attribute_calls(phase="query"), ledger.record_calls() as asked:
        try:
            found = retrieve(retriever, batch, k)
            contract.require(batch, found, k)
            reduced = [_reduced(query, retrieval) for query, retrieval in zip(batch, found, strict=True)]
        except SURVIVED as error:
            if ends_all(error):
                raise
            reduced = [MethodAnswer(query.id, (), hide_secrets(f"{type(error).__name__}: {error}")) for query in batch]
    failed = any(answer.error is not None for answer in reduced)
    if failed and len(batch) > 1:
        return [answer for query in batch for answer in _answer(retriever, [query], k, reader, contract)]
    paid = zip(reduced, _shared(asked, len(batch)), strict=True)
    answers = [replace(answer, usage=usage, calls=calls) for answer, (usage, calls) in paid]
    if failed or reader is None:
        return answers
    return [replace(answer, reading=read) for answer, read in zip(answers, reader(batch, found), strict=True)]


def _shared(asked: ledger.Tally, questions: int) -> Iterator[tuple[Usage, int]]:
    """For each question of a batch its share of what was paid, and of the calls.

    Tokens and calls stay whole: the first questions have one more where they do not go round.
    """
    whole, made = asked.first, sum(not entry.rule and entry.task != EMBEDDING for entry in asked.entries)
    for number in range(questions):
        read, written, calls = (
            count // questions + (number < count % questions)
            for count in (whole.input_tokens, whole.output_tokens, made)
        )
        money = None if whole.money is None else whole.money / questions
        yield Usage(whole.seconds / questions, read, written, money), calls


def failure(answer: MethodAnswer) -> str | None:
    """Why a question was not answered, or what was found not read."""
    return answer.error or (answer.reading.error if answer.reading else None)


def _require_answers(answers: Iterable[MethodAnswer], texts: Mapping[str, str], label: str) -> None:
    for answer in answers:
        reason = failure(answer)
        if reason is not None:
            raise QuestionError(
                f"{label} failed on the question {answer.query_id} ({texts[answer.query_id][:100]!r}): {reason}. "
                "Without --strict it is counted, and scores 0."
            )


def _reduced(query: Query, retrieval: Retrieval) -> MethodAnswer:
    """What is kept of a retrieval: the ranking whole, the rest bounded."""
    ranked = tuple(
        SavedHit(hit.id, tuple(hit.doc_ids), float(hit.score), *_read_by_a_person(hit, rank))
        for rank, hit in enumerate(retrieval.hits)
    )
    told = [step for at, step in enumerate(retrieval.trace) if at < _STEPS or step.index == IF_STOPPED]
    trace = tuple(_reduced_step(step) for step in told[: 2 * _STEPS])
    return MethodAnswer(query.id, ranked, None, trace, tuple(note[:_NOTE] for note in retrieval.notes[:_STEPS]))


def _read_by_a_person(hit: Hit, rank: int) -> tuple[str, str]:
    return (hit.title[:_TITLE], hit.text[:_TEXT]) if rank < _READ_HITS else ("", "")


def _reduced_step(step: Step) -> Step:
    return replace(
        step,
        query=step.query[:_QUERY],
        ids=step.ids[:KEPT_IDS],
        triples=step.triples[:_STEP_TRIPLES],
        paths=tuple(path[:_STEP_TRIPLES] for path in step.paths[:_STEP_TRIPLES]),
        scores=step.scores[:_STEP_TRIPLES],
        note=step.note[:_NOTE],
    )
