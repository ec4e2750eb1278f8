"""Asking methods, the file of their answers, and the sample and percentiles of latency."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import QUESTIONS, Scripted, ScriptedRetriever, dataset, hit

from ragindex._util import durable_files
from ragindex.accounting.ledger import EMBEDDING, CallRecord, record_call
from ragindex.errors import RagindexError, StoreError
from ragindex.filters import meta
from ragindex.types import Query, Retrieval, Step, Triple
from ragindex_eval.data.gold import Gold, SubQuestion
from ragindex_eval.results.model import NOT_TIMED, MethodAnswer, SavedHit
from ragindex_eval.run import ask, latency
from ragindex_eval.run.answers_file import answer_keys, append_answers, load_answers
from ragindex_eval.run.ask import Asking, Batching, without_own_documents


def test_the_trace_and_what_a_person_reads_are_kept_and_bounded(tmp_path: Path) -> None:
    class Telling(ScriptedRetriever):
        def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
            path = (Triple("a", "b", "c"),) * 30
            steps = (Step(1, "words", "x" * 9000, ("id",) * 900, path, (path,) * 30, 2.0),) * 60
            hits = tuple(replace(hit("anna"), id=str(n), title="t" * 900, text="x" * 900) for n in range(k))
            return [Retrieval(hits, steps, ("note",))] * len(queries)

    answer_file = tmp_path / "answers.jsonl"
    answers = ask.answer_all(Telling(Scripted()), dataset().queries[:1], 7, answer_file, Asking("telling"))
    assert [(len(found_hit.title), len(found_hit.text)) for found_hit in answers[0].hits] == [(200, 300)] * 5 + [
        (0, 0)
    ] * 2
    assert len(answers[0].trace) == 50
    step = answers[0].trace[0]
    assert (len(step.query), len(step.ids), len(step.triples), len(step.paths)) == (500, 20, 20, 20)
    assert step.paths[0][19] == Triple("a", "b", "c")
    assert answers[0].notes == ("note",)
    assert load_answers(answer_file) == {"q1": answers[0]}


@given(st.integers(1, 70), st.integers(0, 200), st.integers(0, 200), st.integers(0, 3))
def test_what_a_batch_pays_is_shared_out_to_the_last_token(questions: int, read: int, written: int, calls: int) -> None:
    class Paying(ScriptedRetriever):
        def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
            record_call(CallRecord(EMBEDDING, "encoder", input_tokens=read, money=0.5), 0.0)
            for _ in range(calls):
                record_call(CallRecord("task", "model", output_tokens=written), 0.0)
            return super().retrieve(queries, k)

    queries = [Query(f"q{number}", "?") for number in range(questions)]
    with TemporaryDirectory() as folder:
        answers = ask.answer_all(Paying(Scripted()), queries, 1, Path(folder) / "answers.jsonl", Asking("paying"))
    batches = math.ceil(questions / Batching().size)
    assert sum(answer.usage.input_tokens for answer in answers) == batches * read
    assert sum(answer.usage.output_tokens for answer in answers) == batches * calls * written
    assert sum(answer.calls for answer in answers) == batches * calls
    assert math.fsum(answer.usage.money for answer in answers) == pytest.approx(batches * 0.5)
    for first in range(0, questions, Batching().size):
        tokens = [answer.usage.input_tokens for answer in answers[first : first + Batching().size]]
        assert max(tokens) - min(tokens) <= 1


def test_a_stopped_comparison_goes_on_where_it_was(tmp_path: Path) -> None:
    answer_file, queries = tmp_path / "answers.jsonl", dataset().queries
    journal = tmp_path / "journal"
    with pytest.raises(KeyboardInterrupt):
        ask.answer_all(
            ScriptedRetriever(Scripted(journal=str(journal), stops_at=QUESTIONS[2])),
            queries,
            5,
            answer_file,
            Asking("scripted", Batching(1, 1)),
        )
    assert journal.read_text() == "5 q1\n5 q2\n"
    answers = ask.answer_all(
        ScriptedRetriever(Scripted(journal=str(journal))), queries, 5, answer_file, Asking("scripted")
    )
    assert [answer.query_id for answer in answers] == ["q1", "q2", "q3"]
    assert journal.read_text().split("\n")[0] == "5 q1"
    assert "5 q3" in journal.read_text()
    assert journal.read_text().count("5 q1") == 1


@pytest.mark.parametrize("cut", [2, 30, 58])
def test_a_line_cut_short_is_asked_again_and_nothing_else(tmp_path: Path, cut: int) -> None:
    answer_file, queries, journal = tmp_path / "answers.jsonl", dataset().queries, tmp_path / "journal"
    answers = ask.answer_all(ScriptedRetriever(Scripted()), queries, 5, answer_file, Asking("scripted"))
    answer_file.write_bytes(answer_file.read_bytes()[:-cut])
    again = ask.answer_all(
        ScriptedRetriever(Scripted(journal=str(journal))), queries, 5, answer_file, Asking("scripted")
    )
    assert again == answers
    assert journal.read_text() == "5 q3\n"
    assert load_answers(answer_file) == {answer.query_id: answer for answer in answers}


def test_answers_survive_the_file_whatever_their_ids_hold(tmp_path: Path) -> None:
    answer = MethodAnswer("q\n1", (SavedHit("ä\u2028\x00", ("\ud800", 'a"b'), -1.5),))
    append_answers(tmp_path / "runs" / "a.jsonl", [answer, MethodAnswer("q2", ())])
    assert load_answers(tmp_path / "runs" / "a.jsonl") == {"q\n1": answer, "q2": MethodAnswer("q2", ())}


def test_answers_that_cannot_be_kept_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where a folder should be")
    with pytest.raises(StoreError, match="a.jsonl could not be written"):
        append_answers(tmp_path / "runs" / "a.jsonl", [MethodAnswer("q", ())])


def test_latency_percentiles_are_numpys() -> None:
    assert latency.MethodTimes().latency == NOT_TIMED
    seconds = {f"q{n}": [n / 1000, 0, 0, n / 1000, 0.001] for n in range(1, 101)}
    times = latency.Times("run", "2025-01-01T00:00:00+00:00", tuple(seconds), seconds)
    measured = latency.MethodTimes(times).latency
    assert measured.total.p50 == pytest.approx(50.5)
    assert measured.total.p95 == pytest.approx(95.05)


def test_latency_sample_is_drawn_by_the_seed() -> None:
    queries = [Query(f"q{number}", "text") for number in range(1000)]
    assert latency.sample(queries[:200], 1) == queries[:200]
    drawn = latency.sample(queries, 1)
    assert len({query.id for query in drawn}) == 200
    assert drawn == latency.sample(queries, 1)
    assert drawn != latency.sample(queries, 2)


@pytest.mark.parametrize(
    ("ranking", "k", "expected", "rounds"),
    [
        (["own", "a", "b", "c"], 2, ["a", "b"], [3]),
        (["a", "b", "own", "c"], 2, ["a", "b"], [3]),
        (["a", "own"], 2, ["a"], [3]),
        (["own:1", "own:2", "own:3", "a", "b", "own:4", "c"], 2, ["a", "b"], [3, 6]),
        (["own:1", "own:2", "own:3"], 2, [], [3, 6]),
        (["own+a", "own", "b"], 2, ["a", "b"], [3]),
        (["own", "own", "own", "own", "own"], 2, [], [3]),  # a breach of the contract does not go on for ever
    ],
)
def test_own_documents_are_left_out_of_k_hits(
    ranking: list[str], k: int, expected: list[str], rounds: list[int]
) -> None:
    depths = list[int]()

    class Ranked(ScriptedRetriever):
        def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
            depths.append(k)
            hits = [replace(hit(*(id.partition(":")[0] for id in name.split("+"))), id=name) for name in ranking]
            return [Retrieval(tuple(hits[:k]))] * len(queries)

    gold = {"q2": Gold(frozenset({"a"}), own_document="own")}
    plain, without = without_own_documents(Ranked(Scripted()), gold).retrieve(dataset().queries[:2], k)
    assert [hit.id for hit in plain.hits] == ranking[:k]
    assert [id for hit in without.hits for id in hit.doc_ids] == expected
    assert depths == rounds


def test_without_own_documents_a_retriever_stays_as_it_is() -> None:
    retriever = ScriptedRetriever(Scripted())
    assert without_own_documents(retriever, {"q1": Gold(frozenset({"a"}))}) is retriever


def test_retrieve_holds_a_retriever_to_one_answer_a_question() -> None:
    class Short(ScriptedRetriever):
        def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
            return super().retrieve(queries, k)[1:]

    with pytest.raises(RagindexError, match="gives 2 Retrievals for 3 questions"):
        ask.retrieve(Short(Scripted()), dataset().queries, 5)


def test_answers_are_found_again_among_more_questions(tmp_path: Path) -> None:
    """Wherever a question stands in the file; to ask anew deletes no answer to another question."""
    answer_file, journal = tmp_path / "answers.jsonl", tmp_path / "journal"
    first = dataset().queries
    moved = [Query("q1", "And who else?"), *(Query(f"q{at}", former.text) for at, former in enumerate(first, start=2))]
    answers = ask.answer_all(
        ScriptedRetriever(Scripted()), first, 5, answer_file, Asking("x"), keys=answer_keys(first, None)
    )
    asking, keys = ScriptedRetriever(Scripted(journal=str(journal))), answer_keys(moved, None)
    again = ask.answer_all(asking, moved, 5, answer_file, Asking("x"), keys=keys)
    assert again[1:] == tuple(replace(former, query_id=f"q{at}") for at, former in enumerate(answers, start=2))
    assert len(journal.read_text().splitlines()) == 1
    ask.answer_all(asking, moved[:1], 5, answer_file, Asking("x"), keys=keys, fresh=True)
    assert len(journal.read_text().splitlines()) == 2
    assert len(load_answers(answer_file)) == len(moved)


def test_an_interrupted_deletion_loses_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers to other questions stand in the same file, and were paid for."""
    answer_file, queries = tmp_path / "answers.jsonl", dataset().queries
    keys = answer_keys(queries, None)
    ask.answer_all(ScriptedRetriever(Scripted()), queries, 5, answer_file, Asking("x"), keys=keys)
    before = load_answers(answer_file)

    def interrupt(partial: Path, path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(durable_files, "move_durably", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ask.answer_all(ScriptedRetriever(Scripted()), queries[:1], 5, answer_file, Asking("x"), keys=keys, fresh=True)
    assert load_answers(answer_file) == before


def test_keys_of_answers_differ_in_all_that_an_answer_depends_on() -> None:
    query, none = Query("q1", "Who?"), frozenset[str]()
    of_gold = [
        None,
        {"q1": Gold(none, own_document="a")},
        {"q1": Gold(none, options=("b", "c"))},
        {"q1": Gold(none, sub_questions=(SubQuestion("Which?", ("d",)),))},
    ]
    keys = [answer_keys([query], gold)["q1"] for gold in of_gold]
    keys += [
        answer_keys([other], None)["q1"] for other in (Query("q1", "Who else?"), replace(query, filter=meta("a", "b")))
    ]
    assert len(set(keys)) == len(keys)
    assert answer_keys([replace(query, id="q2")], {"q2": Gold(frozenset({"e"}))}) == {"q2": keys[0]}
