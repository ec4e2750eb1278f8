"""Retrieval for all questions of a dataset, in batches on a few threads, or one by one while a language model answers.

Finished batches are appended to a JSON Lines file, so that a stopped comparison resumes where it was.
"""

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextvars import copy_context
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from ragindex._util.cores import available_cores, limit_blas
from ragindex._util.progress import progress_bar
from ragindex.accounting import ledger
from ragindex.accounting.ledger import EMBEDDING
from ragindex.corpus import passage_text
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
from ragindex.index.index import Index
from ragindex.index.parts import tasks_of
from ragindex.index.retriever import PassagePositions
from ragindex.interfaces import Retriever, Scheme
from ragindex.llm.client import threads_for
from ragindex.llm.rate_limits import StopSignal, stopping
from ragindex.llm.tokens import count_text_tokens
from ragindex.plugins.base import asks_service
from ragindex.plugins.plugin_errors import describe_failure, is_of_plugin
from ragindex.retrieval.hits import find_breach
from ragindex.retrieval.trace import IF_STOPPED, KEPT_IDS
from ragindex.types import Hit, Query, Retrieval, Step, Usage
from ragindex_eval.data.gold import Gold, own_documents
from ragindex_eval.format import many
from ragindex_eval.results.model import MethodAnswer, SavedHit
from ragindex_eval.results.records import ReaderAnswer
from ragindex_eval.run.answers_file import append_answers, delete_answers, find_answers
from ragindex_eval.run.functions import FunctionMethod

_log = logging.getLogger(__name__)
_THREADS = min(4, available_cores())
_PATIENCE = 1.0  # seconds after which a stopped comparison says what it is waiting for

ReadAnswers: TypeAlias = Callable[[Sequence[Query], Sequence[Retrieval]], Sequence[ReaderAnswer]]
"""Answers questions from what was found for them, in order."""

# Errors of settings, services or the engine end the comparison: they say nothing about a method, and every other
# question would fail in the same way. So does a breach of the retriever contract, which is no failed question.
_ENDING_ERRORS = (BudgetError, ContractError, DataError, ServiceError, StoreError, UsageError, WorkspaceError)

# Limits of the hits and steps that are saved: enough for a person to see what happened, however much was found.
_HITS_WITH_TEXT = 5
_TITLE, _TEXT, _QUERY, _NOTE = 200, 300, 500, 2_000  # characters
_STEPS, _STEP_TRIPLES = 50, 20


@dataclass(frozen=True, slots=True)
class Batching:
    """How questions are asked: `size` of them together, and `at_once` such batches at the same time."""

    size: int = 32
    at_once: int = _THREADS


_IN_BATCHES = Batching()


def batching_for(index: Index, scheme: Scheme) -> Batching:
    """Return how to ask a scheme: one question at a time per thread if it asks a model or a service, else in batches.

    The costs of a batch are shared, so that only questions asked one by one have costs of their own. A question that
    waits for a model uses no core: as many are asked at once as keep the model's requests in flight.
    """
    if isinstance(scheme, FunctionMethod):  # which may not bear several threads
        return Batching(1, 1)
    if not tasks_of(scheme):
        return Batching(1) if asks_service(scheme) else _IN_BATCHES
    return Batching(1, max(_THREADS, threads_for(index.model.plugin.requests_at_once())))


@dataclass(frozen=True, slots=True)
class Asking:
    """How a method is asked.

    Questions come as `batching` says. Hits get their `positions`, and name documents that are in `known`. With a
    `reader`, it reads the complete hits, before they are cut for saving. With `strict`, the first question on which the
    method fails raises QuestionError.
    """

    label: str
    batching: Batching = _IN_BATCHES
    strict: bool = False
    reader: ReadAnswers | None = None
    known: Container[str] | None = None
    positions: PassagePositions = PassagePositions(())  # noqa: RUF009  # of no passages, and frozen

    def require_contract(self, queries: Sequence[Query], retrievals: Sequence[Retrieval], k: int) -> None:
        """Check the contract of a retriever. Raises ContractError for the first answer that breaks it."""
        for query, retrieval in zip(queries, retrievals, strict=True):
            broken = find_breach(retrieval.hits, k, self.known)
            if broken is not None:
                raise ContractError(f"{broken} (the question {query.id}: {query.text[:100]!r})")

    def advise(self, error: ContractError) -> ContractError:
        """Return the error with the name of the method, and advice."""
        return ContractError(
            f"{self.label} breaks the contract of a retriever: {error}. No score is made of such an answer. To find "
            "its faults, run ragindex.testing.check_scheme on it; to go on without it, leave it out of --methods."
        )


def answer_all(
    retriever: Retriever,
    queries: Sequence[Query],
    k: int,
    path: Path,
    asking: Asking,
    *,
    keys: Mapping[str, str] | None = None,
    fresh: bool = False,
) -> tuple[MethodAnswer, ...]:
    """Return the answers to all questions, in order; answers in the file are reused.

    The file may have answers to other questions too. Answers stand in it under `keys`, by the id of the question, or
    under these ids. The costs of a batch are divided evenly among its questions. With `fresh`, the answers to these
    questions are deleted first.

    A question on which the retriever raises gets an answer with `error`, which is not saved, so it is asked again the
    next time. Errors for which `ends_all` holds are always raised. A question that the reader cannot answer counts as
    failed, and exceptions of the reader are raised.

    Raises ContractError if the hits of a question break the contract of a retriever (`hits.find_breach`), for example
    with documents that are not known, and StoreError if the file cannot be written.
    """
    keys = {query.id: query.id if keys is None else keys[query.id] for query in queries}
    if fresh:
        delete_answers(path, set(keys.values()))
    saved = find_answers(path, keys)
    answers = {id: answer for id, answer in saved.items() if find_breach(answer.hits, k, asking.known) is None}
    todo, label = [query for query in queries if query.id not in answers], asking.label
    with progress_bar(f"{label}: asking", len(todo)) as advance:
        for batch in _answer_in_threads(retriever, todo, k, asking):
            successes = [replace(answer, query_id=keys[answer.query_id]) for answer in batch if failure(answer) is None]
            append_answers(path, successes)
            if asking.strict:
                _require_answers(batch, {query.id: query.text for query in todo}, label)
            answers.update((answer.query_id, answer) for answer in batch)
            advance(len(batch))
            ledger.count_asked(label, len(batch), len(todo))
    return tuple(answers[query.id] for query in queries)


def ends_all(error: Exception) -> bool:
    """Return whether an error on one question ends the comparison, as one of settings, a service or the engine."""
    if isinstance(error, RagindexError):
        return isinstance(error, _ENDING_ERRORS) and not isinstance(error, RequestError)
    return not is_of_plugin(error)


def retrieve(retriever: Retriever, queries: Sequence[Query], k: int) -> list[Retrieval]:
    """Call `retriever.retrieve`. Raises ContractError unless it returns exactly one Retrieval per question."""
    with limit_blas(1):
        retrievals = retriever.retrieve(queries, k)
    if len(retrievals) != len(queries):
        raise ContractError(
            f"it gives {len(retrievals)} Retrievals for {len(queries)} questions, and must give one for each"
        )
    return retrievals


def _answer_in_threads(
    retriever: Retriever, queries: Sequence[Query], k: int, asking: Asking
) -> Iterator[list[MethodAnswer]]:
    size, at_once = asking.batching.size, asking.batching.at_once
    batches = [queries[start : start + size] for start in range(0, len(queries), size)]
    stop, context = StopSignal(), copy_context()
    context.run(stopping.set, stop)
    pool, futures = ThreadPoolExecutor(max(1, min(at_once, len(batches)))), list[Future[list[MethodAnswer]]]()
    try:
        for batch in batches:
            futures.append(pool.submit(context.copy().run, _answer_batch, retriever, batch, k, asking))
        for future in as_completed(futures):
            yield future.result()
    except ContractError as error:
        raise asking.advise(error) from error
    finally:
        _stop_asking(pool, futures, stop, asking.label)


def _stop_asking(
    pool: ThreadPoolExecutor, futures: Sequence[Future[list[MethodAnswer]]], stop: StopSignal, label: str
) -> None:
    """End the batches that have not begun, and those that have before their next request to a language model.

    Requests in flight are waited for: they are paid, and their answers are kept.
    """
    stop.set()
    pool.shutdown(wait=False, cancel_futures=True)
    begun = [future for future in futures if not future.cancelled()]
    if wait(begun, timeout=_PATIENCE).not_done:
        _log.warning("%s: waiting for requests in flight, whose answers will be saved (Ctrl-C: do not wait)", label)
    pool.shutdown()


def _answer_batch(retriever: Retriever, batch: Sequence[Query], k: int, asking: Asking) -> list[MethodAnswer]:
    """Answer one batch. If it fails, ask each question alone to find out which one fails."""
    with ledger.attribute_calls(phase="query"), ledger.record_calls() as tally:
        try:
            retrievals = retrieve(retriever, batch, k)
            asking.require_contract(batch, retrievals, k)
            located = asking.positions.locate(retrievals)
            reduced = [reduce_retrieval(query, retrieval) for query, retrieval in zip(batch, located, strict=True)]
        except Exception as error:
            if ends_all(error):
                raise
            reduced = [MethodAnswer(query.id, (), describe_failure(error)) for query in batch]
    failed = any(answer.error is not None for answer in reduced)
    if failed and len(batch) > 1:
        return [answer for query in batch for answer in _answer_batch(retriever, [query], k, asking)]
    paid = zip(reduced, _shared(tally, len(batch)), strict=True)
    answers = [replace(answer, usage=usage, calls=calls) for answer, (usage, calls) in paid]
    if failed or asking.reader is None:
        return answers
    readings = asking.reader(batch, retrievals)
    return [replace(answer, reading=reading) for answer, reading in zip(answers, readings, strict=True)]


def _shared(tally: ledger.Tally, questions: int) -> Iterator[tuple[Usage, int]]:
    """Yield for each question of a batch its share of the usage and of the LLM calls.

    Tokens and calls stay integers: the first questions get the remainder.
    """
    usage, all_calls = tally.first, sum(not entry.rule and entry.task != EMBEDDING for entry in tally.entries)
    for number in range(questions):
        read, written, calls = (
            count // questions + (number < count % questions)
            for count in (usage.input_tokens, usage.output_tokens, all_calls)
        )
        money = None if usage.money is None else usage.money / questions
        yield Usage(usage.seconds / questions, read, written, money, usage.estimated), calls


def failure(answer: MethodAnswer) -> str | None:
    """Return why retrieval or reading failed for a question; None if neither did."""
    return answer.error or (answer.reading.error if answer.reading else None)


def _require_answers(answers: Iterable[MethodAnswer], texts: Mapping[str, str], label: str) -> None:
    for answer in answers:
        reason = failure(answer)
        if reason is not None:
            raise QuestionError(
                f"{label} failed on the question {answer.query_id} ({texts[answer.query_id][:100]!r}): {reason}. "
                "Without --strict it is counted, and scores 0."
            )


def reduce_retrieval(query: Query, retrieval: Retrieval) -> MethodAnswer:
    """Reduce a retrieval for saving: keep the whole ranking, and bound everything else."""
    ranked = tuple(
        SavedHit(
            hit.id, tuple(hit.doc_ids), float(hit.score), *_shorten_texts(hit, rank), hit.positions, _count_tokens(hit)
        )
        for rank, hit in enumerate(retrieval.hits)
    )
    steps = [step for at, step in enumerate(retrieval.trace) if at < _STEPS or step.index == IF_STOPPED]
    trace = tuple(_reduce_step(step) for step in steps[: 2 * _STEPS])
    return MethodAnswer(query.id, ranked, None, trace, tuple(note[:_NOTE] for note in retrieval.notes[:_STEPS]))


def _count_tokens(hit: Hit) -> int:
    return count_text_tokens(passage_text(hit.title, hit.text), "").tokens


def _shorten_texts(hit: Hit, rank: int) -> tuple[str, str]:
    return (hit.title[:_TITLE], hit.text[:_TEXT]) if rank < _HITS_WITH_TEXT else ("", "")


def _reduce_step(step: Step) -> Step:
    return replace(
        step,
        query=step.query[:_QUERY],
        ids=step.ids[:KEPT_IDS],
        triples=step.triples[:_STEP_TRIPLES],
        paths=tuple(path[:_STEP_TRIPLES] for path in step.paths[:_STEP_TRIPLES]),
        scores=step.scores[:_STEP_TRIPLES],
        note=step.note[:_NOTE],
    )


# ---------------------------------------------------------------- own documents


def describe_own_documents(gold: Mapping[str, Gold] | None) -> list[str]:
    """Return a note that rankings leave out own documents, as BEIR's evaluation does; [] if no question has one."""
    count = len(own_documents(gold))
    questions = many(count, "question has the id of a document", "questions have the ids of documents")
    left_out = f"which {'its' if count == 1 else 'their'} rankings leave out, as BEIR's evaluation does"
    return [f"{questions}, {left_out} (ignore_identical_ids)"] if count else []


def without_own_documents(retriever: Retriever, gold: Mapping[str, Gold] | None) -> Retriever:
    """Return a retriever that leaves out each question's own document; the same one if no question has any."""
    own = own_documents(gold)
    return _WithoutOwnDocuments(retriever, own) if own else retriever


@dataclass(frozen=True, slots=True)
class _WithoutOwnDocuments:
    """Retriever that finds k hits beside those of the own document, whose id is in `own` by the id of the question."""

    retriever: Retriever
    own: Mapping[str, str]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Ask for one hit more; where the own document has several, ask again for twice as many until k are left."""
        retrievals, wanted = dict[int, Retrieval](), k + 1
        todo = list(range(len(queries)))
        while todo:
            answers = retrieve(self.retriever, [queries[at] for at in todo], wanted)
            short = list[int]()
            for at, answer in zip(todo, answers, strict=True):
                retrievals[at] = self._leave_out(answer, queries[at], k, wanted)
                if len(retrievals[at].hits) < k and len({hit.id for hit in answer.hits}) == wanted:
                    short.append(at)
            todo, wanted = short, 2 * wanted
        return [retrievals[at] for at in range(len(queries))]

    def _leave_out(self, answer: Retrieval, query: Query, k: int, wanted: int) -> Retrieval:
        """Return the first k hits without the own document; more than were asked for are left for the contract."""
        own = self.own.get(query.id)
        others = [(hit, tuple(id for id in hit.doc_ids if id != own)) for hit in answer.hits]
        hits = [
            hit if len(doc_ids) == len(hit.doc_ids) else replace(hit, doc_ids=doc_ids)
            for hit, doc_ids in others
            if doc_ids or not hit.doc_ids
        ]
        return replace(answer, hits=tuple(hits if len(answer.hits) > wanted else hits[:k]))
