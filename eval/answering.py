"""Asking a retriever every question of a dataset: in batches, on a few threads, keeping what was answered.

Finished batches are appended to a JSON Lines file, so that a comparison that was stopped goes on where it was.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from eval.comparison import Answer, Ranked
from ragindex.errors import RagindexError, StoreError
from ragindex.interfaces import Retriever
from ragindex.progress import bar
from ragindex.types import Query, Retrieval

_BATCH = 32
_THREADS = min(4, os.cpu_count() or 1)

# What a method may raise on one question without ending the comparison. A plugin is not ours: its mistakes count too.
SURVIVED = (
    *(RagindexError, ValueError, ArithmeticError, LookupError, RuntimeError, OSError),
    *(TypeError, AttributeError, AssertionError),
)


def answer_all(retriever: Retriever, queries: Sequence[Query], k: int, kept: Path, label: str) -> tuple[Answer, ...]:
    """The answers to all questions, in order; those that stand in the file `kept` are read from there.

    A question on which the retriever raises has an Answer with `error`; it is asked again the next time. Raises
    StoreError where the file cannot be written.
    """
    answers = read(kept)
    todo = [query for query in queries if query.id not in answers]
    with bar(f"{label}: asking", len(todo)) as advance:
        for batch in _in_threads(retriever, todo, k):
            append(kept, [answer for answer in batch if answer.error is None])
            answers.update((answer.query_id, answer) for answer in batch)
            advance(len(batch))
    return tuple(answers[query.id] for query in queries)


def retrieve(retriever: Retriever, queries: Sequence[Query], k: int) -> list[Retrieval]:
    """`retriever.retrieve`, held to its contract. Raises RagindexError where it breaks it."""
    found = retriever.retrieve(queries, k)
    if len(found) != len(queries):
        raise RagindexError(f"The retriever must give one Retrieval a question. Got {len(found)} for {len(queries)}.")
    longest = max(len(retrieval.hits) for retrieval in found)
    if longest > k:
        raise RagindexError(f"The retriever must give at most k = {k} hits. Got {longest}.")
    return found


def _in_threads(retriever: Retriever, queries: Sequence[Query], k: int) -> Iterator[list[Answer]]:
    batches = [queries[start : start + _BATCH] for start in range(0, len(queries), _BATCH)]
    pool = ThreadPoolExecutor(_THREADS)
    try:
        for future in as_completed([pool.submit(_answer, retriever, batch, k) for batch in batches]):
            yield future.result()
    finally:  # a stopped comparison does not wait for what it has not begun
        pool.shutdown(cancel_futures=True)


def _answer(retriever: Retriever, batch: Sequence[Query], k: int) -> list[Answer]:
    """The answers of one batch. Where it fails, each question is asked alone, to tell which one is to blame."""
    try:
        found = retrieve(retriever, batch, k)
        return [_reduced(query, retrieval) for query, retrieval in zip(batch, found, strict=True)]
    except SURVIVED as error:
        if len(batch) == 1:
            return [Answer(batch[0].id, (), f"{type(error).__name__}: {error}")]
    return [answer for query in batch for answer in _answer(retriever, [query], k)]


def _reduced(query: Query, retrieval: Retrieval) -> Answer:
    return Answer(query.id, tuple(Ranked(hit.id, tuple(hit.doc_ids), float(hit.score)) for hit in retrieval.hits))


# ---------------------------------------------------------------- the file


def read(path: Path) -> dict[str, Answer]:
    """The answers in a file by question, none where there is no file. Lines cut short by a crash are removed."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    parsed = [(line, _parsed(line)) for line in lines if line]
    whole = [(line, answer) for line, answer in parsed if answer is not None]
    if len(whole) < len(parsed) or lines[-1]:
        replace(path, b"".join(line + b"\n" for line, _ in whole))
    return {answer.query_id: answer for _, answer in whole}


def append(path: Path, answers: Iterable[Answer]) -> None:
    """Add answers to a file, made where it is missing."""
    lines = [json.dumps(_as_json(answer), ensure_ascii=False) + "\n" for answer in answers]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write("".join(lines).encode("utf-8", "surrogatepass"))
    except OSError as error:
        raise _unwritable(path, error) from error


def replace(path: Path, content: bytes) -> None:
    """Write a file in one step. Raises StoreError."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path.name} could not be written in {path.parent}: {error.strerror or error}.")


def _as_json(answer: Answer) -> Mapping[str, Any]:
    return {"query": answer.query_id, "hits": [[hit.id, list(hit.doc_ids), hit.score] for hit in answer.hits]}


def _parsed(line: bytes) -> Answer | None:
    """One line as an answer, None where it is not whole."""
    try:
        value = json.loads(line.decode("utf-8", "surrogatepass"))
        return Answer(value["query"], tuple(Ranked(id, tuple(docs), score) for id, docs, score in value["hits"]))
    except (ValueError, KeyError, TypeError):
        return None
