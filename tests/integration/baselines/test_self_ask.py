"""Self-ask: dialogues with a scripted server, follow-ups that search, and what the rules ask."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from answering import answer_from_retrieval
from built_retriever import built_retriever
from made_dialogues import (
    DOCUMENTS,
    LONGER,
    QUESTION,
    ask,
    ids,
    opened,
    read_tokens,
    rounds_of,
    script,
    shown,
    work,
)
from made_language import answering
from openai_server import OpenAIServer

from ragindex.errors import LLMError
from ragindex.filters import meta
from ragindex.llm import answer_question
from ragindex.llm.answer_question import ANSWER, NumberedPassage
from ragindex.llm.tasks import render_messages
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_baselines.self_ask import FOLLOW_UPS, FollowUp, SelfAsk, drop_repeats, split_by_rule

WHO = {"question": "Who designed Ostra Bridge?", "answer": "Ilse Harrow"}
WHERE = {"question": "Where was Ilse Harrow born?", "answer": "Port Callan"}
SEA = {"question": "Where does the River Sarn end?", "answer": None}
NOTES = ("Who designed Ostra Bridge? Ilse Harrow", "Where was Ilse Harrow born? Port Callan")
SAID = {"answer": "Port Callan", "passages": [2], "found": True}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with answering(monkeypatch) as running:
        yield running


def test_one_call_and_the_candidates_of_the_base(server: OpenAIServer, tmp_path: Path) -> None:
    script(server, {"follow_ups": [WHO, WHERE]})
    with opened(tmp_path, server) as workspace:
        base, retrieval = ask(workspace, "bm25", k=2), ask(workspace, "self-ask(base=bm25, candidates=2)")
    assert [(hit.id, hit.score) for hit in retrieval.hits] == [(hit.id, hit.score) for hit in base.hits]
    assert {hit.source for hit in retrieval.hits} == {"self-ask(base=bm25, candidates=2)"}
    assert retrieval.notes == NOTES
    assert rounds_of(retrieval) == [(1, ["bridge", "ilse"])]
    search, step = work(retrieval)
    assert (search.iteration, search.index, search.query) == (1, "text", QUESTION)
    assert (step.iteration, step.index, step.query, step.note) == (1, "follow-ups", QUESTION, "\n".join(NOTES))
    assert step.ids == tuple(hit.id for hit in retrieval.hits)
    assert [step.input_tokens] == read_tokens(server)
    assert step.output_tokens == len(json.dumps({"follow_ups": [WHO, WHERE]}).split())
    assert shown(server, 0) == (
        "[1] Ostra Bridge\nOstra Bridge was designed by Ilse Harrow.\n\n"
        f"[2] Ilse Harrow\nIlse Harrow was born in Port Callan.\n\nQuestion: {QUESTION}"
    )


def test_the_second_call_is_the_readers(server: OpenAIServer, tmp_path: Path) -> None:
    """The same candidates and the follow-ups: what is asked here with `answers` is word for word what a reader asks."""
    script(server, {"follow_ups": [WHO, WHERE]}, SAID)
    with opened(tmp_path, server) as workspace:
        apart = ask(workspace, "self-ask(base=bm25)")
        seen = answer_question.build_context(apart.hits, apart.notes, 4_000, "small")
        answer = answer_from_retrieval(workspace.llm, QUESTION, apart, 4_000, model="small")
        within = ask(workspace, "self-ask(base=bm25, answers=true)")
    assert len(server.requests) == 2  # both calls of the second retriever are those of the first and of the reader
    assert (answer.answer, answer.passages) == ("Port Callan", {2: apart.hits[1].id})
    assert (
        shown(server, 1) == render_messages(ANSWER, answer_question.answer_inputs(QUESTION, seen))[-1].content.strip()
    )
    assert within.notes == (*NOTES, "The answer is: Port Callan.")
    assert [(hit.id, hit.score) for hit in within.hits] == [(hit.id, hit.score) for hit in apart.hits]
    assert [(step.iteration, step.index, step.note) for step in work(within)[1:]] == [
        (1, "follow-ups", "\n".join(NOTES)),
        (1, "answer", "Port Callan"),
    ]
    assert [step.input_tokens for step in work(within)[1:]] == read_tokens(server)


def test_follow_ups_that_search(server: OpenAIServer, tmp_path: Path) -> None:
    script(server, {"follow_ups": [WHO, WHERE, SEA]})
    scheme = "self-ask(base=bm25, candidates=2, searches=true)"
    question = "On which river is the home of the designer of Ostra Bridge?"
    with opened(tmp_path, server) as workspace:
        retrieval = ask(workspace, scheme, question)
        texts = (question, *NOTES, "Where does the River Sarn end?")
        rounds = [ask(workspace, "bm25", text, k=2) for text in texts]
    assert [ids(ranking) for ranking in rounds] == [
        ["bridge", "sarn"],
        ["bridge", "ilse"],
        ["ilse", "town"],
        ["sarn", "town"],
    ]
    assert [(step.iteration, step.index, step.query) for step in work(retrieval)] == [
        (1, "text", question),
        (1, "follow-ups", question),
        (2, "text", texts[1]),
        (3, "text", texts[2]),
        (4, "text", texts[3]),
    ]
    assert ids(retrieval) == ["bridge", "ilse", "sarn", "town"]  # bridge, bridge, ilse, sarn; sarn, ilse, town, town
    assert [hit.score for hit in retrieval.hits] == [1.0, 1 / 2, 1 / 3, 1 / 4]
    assert rounds_of(retrieval) == [
        (1, ["bridge", "sarn"]),
        (2, ["bridge", "sarn", "ilse"]),
        (3, ["bridge", "ilse", "sarn", "town"]),
        (4, ["bridge", "ilse", "sarn", "town"]),
    ]
    assert retrieval.notes == texts[1:]
    assert len(server.requests) == 1


def test_follow_ups_without_an_answer_are_searched(server: OpenAIServer, tmp_path: Path) -> None:
    asks = ("Who designed Ostra Bridge?", "Where was she born?", "On which river lies the town where she was born?")
    answers = ("Ilse Harrow", "", "")
    pairs = zip(asks, answers, strict=True)
    script(server, {"follow_ups": [{"question": asked_question, "answer": answer} for asked_question, answer in pairs]})
    with opened(tmp_path, server) as workspace:
        retrieval = ask(workspace, "self-ask(base=bm25, candidates=1, searches=true)")
        alone = [ask(workspace, "bm25", text, k=1) for text in asks[1:]]
    searched = [step for step in retrieval.trace if step.index == "text"]
    assert [step.query for step in searched[1:]] == [f"{asks[0]} Ilse Harrow", *asks[1:]]
    assert [step.ids for step in searched[2:]] == [tuple(hit.id for hit in ranking.hits) for ranking in alone]
    assert {hit.id for ranking in alone for hit in ranking.hits} <= {hit.id for hit in retrieval.hits}


@pytest.mark.parametrize(("merge", "expected"), [("rrf", "ilse"), ("score", "ilse"), ("interleave", "bridge")])
def test_merging_as_ircot_does(server: OpenAIServer, tmp_path: Path, merge: str, expected: str) -> None:
    script(server, {"follow_ups": [WHERE]})
    with opened(tmp_path, server) as workspace:
        retrieval = ask(workspace, f"self-ask(base=bm25, searches=true, merge={merge})")
        rounds = [ask(workspace, "bm25", text) for text in (QUESTION, NOTES[1])]
    assert ids(retrieval)[0] == expected
    if merge == "score":
        best = {
            hit.id: max(h.score for ranking in rounds for h in ranking.hits if h.id == hit.id) for hit in retrieval.hits
        }
        assert [hit.score for hit in retrieval.hits] == [best[hit.id] for hit in retrieval.hits]


def test_a_question_without_parts(server: OpenAIServer, tmp_path: Path) -> None:
    script(server, {"follow_ups": []})
    with opened(tmp_path, server) as workspace:
        base, retrieval = ask(workspace, "bm25"), ask(workspace, "self-ask(base=bm25, searches=true)")
    assert [(hit.id, hit.score) for hit in retrieval.hits] == [(hit.id, hit.score) for hit in base.hits]
    assert (retrieval.notes, retrieval.trace[-1].note) == ((), "There is no follow-up question.")


def test_nothing_found_is_no_failure(server: OpenAIServer, tmp_path: Path) -> None:
    script(server, {"follow_ups": [WHO]})
    with opened(tmp_path, server) as workspace:
        query = Query("q", QUESTION, meta("half", "no such half"))
        (retrieval,) = built_retriever(workspace, "self-ask(base=bm25, searches=true)").retrieve([query], 5)
    assert (retrieval.hits, retrieval.notes) == ((), NOTES[:1])
    assert shown(server, 0) == f"The search found no passages.\n\nQuestion: {QUESTION}"


def test_blank_repeated_and_surplus_follow_ups_go() -> None:
    asks = [FollowUp(question=text, answer=answer) for text, answer in [("A?", "1"), ("  ", "2")]]
    more = [FollowUp(question=text, answer="") for text in ("B?", "a? ", "C?", "D?")]
    assert [repeat.text for repeat in drop_repeats([*asks, *more], 3)] == ["A? 1", "B?", "C?"]
    assert [repeat.answer for repeat in drop_repeats([*asks, FollowUp(question="a?", answer="3")], 3)] == ["1"]


def follow_ups(question: str, most: int = 4, documents: Sequence[Document] = DOCUMENTS) -> list[tuple[str, str]]:
    passages = tuple(
        NumberedPassage(number, document.id, document.title, document.text)
        for number, document in enumerate(documents, 1)
    )
    inputs = {"question": question, "passages": passages, "most": most, "language": "english"}
    return [(follow_up.question, follow_up.answer) for follow_up in split_by_rule(inputs).follow_ups]


def test_the_rules_ask_from_name_to_name() -> None:
    chain = [
        ("Ostra Bridge was designed by what?", "Ilse Harrow"),
        ("Ilse Harrow was born in what?", "Port Callan"),
        ("Port Callan lies on what?", "River Sarn"),
        ("River Sarn ends in what?", "Grey Sea"),
    ]
    assert follow_ups(LONGER) == chain
    assert follow_ups(LONGER, most=2) == chain[:2]


def test_the_rules_ask_for_either_side() -> None:
    born = [document for document in DOCUMENTS if document.id == "ilse"]
    asked_for = [("What was born in Port Callan?", "Ilse Harrow")]
    assert follow_ups("Who was born in Port Callan?", documents=born) == asked_for
    assert follow_ups("Is there anything about Nowhere Castle?") == []


def test_offline_searches_find_what_the_base_does_not(tmp_path: Path) -> None:
    with opened(tmp_path, None) as workspace:
        base = ask(workspace, "bm25", k=4)
        retrieval = ask(workspace, "self-ask(base=bm25, candidates=2, searches=true, answers=true)", k=4)
    assert ids(base) == ["bridge", "ilse", "fair"]
    assert ids(retrieval) == ["bridge", "ilse", "town"]
    assert retrieval.notes == (
        "Ostra Bridge was designed by what? Ilse Harrow",
        "Ilse Harrow was born in what? Port Callan",
        "The answer is: Ilse Harrow.",
    )


def test_what_it_asks_and_needs() -> None:
    assert SelfAsk().tasks() == (FOLLOW_UPS,)
    assert SelfAsk(answers=True).tasks() == (FOLLOW_UPS, ANSWER)
    assert SelfAsk().parts() == registry.scheme("dense").parts()
    assert registry.label(SelfAsk()) == "self-ask"


def test_follow_ups_that_cannot_be_had_fail_the_question(server: OpenAIServer, tmp_path: Path) -> None:
    script(server, "nothing of the kind", '{"follow_ups": "none"}')
    with opened(tmp_path, server) as workspace, pytest.raises(LLMError, match="follow-ups: small gave no usable"):
        ask(workspace, "self-ask(base=bm25)")
    assert len(server.requests) == 2


def test_a_failed_answer_fails_the_question(server: OpenAIServer, tmp_path: Path) -> None:
    script(server, {"follow_ups": [WHO]}, "no", "no")
    with opened(tmp_path, server) as workspace, pytest.raises(LLMError, match="answer: small gave no usable"):
        ask(workspace, "self-ask(base=bm25, answers=true)")
    assert len(server.requests) == 3


def test_malformed_follow_ups_are_asked_for_once_more(server: OpenAIServer, tmp_path: Path) -> None:
    script(server, "I would rather not", {"follow_ups": [{"question": "How old is it?", "answer": 95}]})
    with opened(tmp_path, server) as workspace:
        retrieval = ask(workspace, "self-ask(base=bm25)")
    assert retrieval.notes == ("How old is it? 95",)
    assert work(retrieval)[1].input_tokens == sum(read_tokens(server))
