"""IRCoT: dialogues with a scripted server, the rounds as one ranking, and what the rules think."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from built_retriever import built_retriever
from made_dialogues import (
    DOCUMENTS,
    FIRST,
    LONGER,
    QUESTION,
    SECOND,
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
from pydantic import ValidationError

from ragindex.accounting import ledger
from ragindex.errors import LLMError
from ragindex.filters import meta
from ragindex.llm.answer_question import NumberedPassage
from ragindex.llm.output import read_json
from ragindex.llm.tasks import render_messages
from ragindex.types import Document, Hit, Query
from ragindex_baselines.agents import Merge, merge_rankings
from ragindex_baselines.ircot import THOUGHT, Thought, think_by_rule

THIRD = "Port Callan lies on the River Sarn."
ANSWERED = "So the answer is: Port Callan."
PLAIN = Document("plain", "", "rain falls here most of the year, and nobody minds it.")
MERGES: tuple[Merge, ...] = ("score", "rrf", "interleave")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with answering(monkeypatch) as running:
        yield running


def thinks(server: OpenAIServer, *thoughts: str) -> None:
    script(server, *({"thought": thought} for thought in thoughts))


def steps(retrieval: Any) -> list[tuple[int, str, str]]:
    """Iteration, index and what the index was asked; for a thought and the end, their notes."""
    return [(step.iteration, step.index, step.note or step.query) for step in work(retrieval)]


# ---------------------------------------------------------------- dialogues


def test_an_answer_at_once(server: OpenAIServer, tmp_path: Path) -> None:
    thinks(server, ANSWERED)
    with opened(tmp_path, server) as workspace:
        base, retrieval = ask(workspace, "bm25", k=2), ask(workspace, "ircot(base_k=2)")
    assert [(hit.id, hit.score) for hit in retrieval.hits] == [(hit.id, hit.score) for hit in base.hits]
    assert {hit.source for hit in retrieval.hits} == {"ircot(base_k=2)"}
    assert retrieval.notes == ()  # the reader is to find the answer in the passages, not to copy it
    assert steps(retrieval) == [
        (1, "text", QUESTION),
        (1, "thought", ANSWERED),
        (1, "end", "The thought holds the answer."),
    ]
    assert len(server.requests) == 1
    assert shown(server, 0) == (
        "[1] Ostra Bridge\nOstra Bridge was designed by Ilse Harrow.\n\n"
        "[2] Ilse Harrow\nIlse Harrow was born in Port Callan.\n\n"
        f"Question: {QUESTION}\n\nNo thoughts so far."
    )


def test_a_bridge_over_three_rounds(server: OpenAIServer, tmp_path: Path) -> None:
    thinks(server, FIRST, SECOND, THIRD, "So the answer is: the River Sarn.")
    question = "On which river is the home of the designer of Ostra Bridge?"
    with opened(tmp_path, server) as workspace, ledger.record_calls() as tally:
        retrieval = ask(workspace, "ircot(base_k=2)", question)
        rounds = [ask(workspace, "bm25", text, k=2) for text in (question, FIRST, SECOND, THIRD)]
    assert [ids(fused) for fused in rounds] == [
        ["bridge", "sarn"],
        ["bridge", "ilse"],
        ["ilse", "town"],
        ["town", "sarn"],
    ]
    best: dict[str, float] = {}
    for hit in (hit for fused in rounds for hit in fused.hits):
        best[hit.id] = max(best.get(hit.id, 0.0), hit.score)
    assert [(hit.id, hit.score) for hit in retrieval.hits] == sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))
    assert ids(retrieval) == ["bridge", "ilse", "town", "sarn"]
    assert rounds_of(retrieval) == [
        (1, ["bridge", "sarn"]),
        (2, ["bridge", "ilse", "sarn"]),
        (3, ["bridge", "ilse", "town", "sarn"]),
        (4, ["bridge", "ilse", "town", "sarn"]),
    ]
    assert retrieval.notes == (FIRST, SECOND, THIRD)
    assert steps(retrieval) == [
        (1, "text", question),
        (1, "thought", FIRST),
        (2, "text", FIRST),
        (2, "thought", SECOND),
        (3, "text", SECOND),
        (3, "thought", THIRD),
        (4, "text", THIRD),
        (4, "end", "All 4 rounds are done."),
    ]
    thoughts = [step for step in retrieval.trace if step.index == "thought"]
    assert [step.input_tokens for step in thoughts] == read_tokens(server)
    assert [step.output_tokens for step in thoughts] == [1 + len(text.split()) for text in (FIRST, SECOND, THIRD)]
    assert (tally.calls, tally.first.input_tokens) == (3, sum(read_tokens(server)))
    assert [len(step.ids) for step in thoughts] == [2, 3, 4]
    assert shown(server, 2).endswith(f"Thoughts so far:\n- {FIRST}\n- {SECOND}")
    assert [part.partition("\n")[0] for part in shown(server, 1).split("\n\n")[:3]] == [
        "[1] Ostra Bridge",
        "[2] Ilse Harrow",
        "[3] River Sarn",
    ]


@pytest.mark.parametrize("merge", MERGES)
def test_a_round_has_the_ranking_of_a_run_that_ends_there(server: OpenAIServer, tmp_path: Path, merge: Merge) -> None:
    thinks(server, FIRST, SECOND)
    with opened(tmp_path, server) as workspace:
        runs = [ask(workspace, f"ircot(base_k=1, merge={merge}, iterations={most})") for most in (1, 2, 3)]
    assert [ids(run) for run in runs[:2]] == [["bridge"], ["bridge"]]
    assert sorted(ids(runs[2])) == ["bridge", "ilse"]
    assert rounds_of(runs[2]) == [(most, ids(run)) for most, run in enumerate(runs, start=1)]


def test_a_repeated_thought_ends_it(server: OpenAIServer, tmp_path: Path) -> None:
    thinks(server, FIRST, FIRST.upper().removesuffix("."))
    with opened(tmp_path, server) as workspace:
        retrieval = ask(workspace, "ircot(base_k=2)")
    assert retrieval.notes == (FIRST,)
    assert steps(retrieval)[3:] == [
        (2, "thought", FIRST.upper().removesuffix(".")),
        (2, "end", "The thought repeats an earlier one, or the question."),
    ]
    assert len(server.requests) == 2


def test_nothing_found_is_no_failure(server: OpenAIServer, tmp_path: Path) -> None:
    thinks(server, "The designer of Ostra Bridge has to be found.", ANSWERED)
    with opened(tmp_path, server) as workspace:
        query = Query("q", QUESTION, meta("half", "no such half"))
        (retrieval,) = built_retriever(workspace, "ircot").retrieve([query], 5)
    assert (retrieval.hits, retrieval.notes) == ((), ("The designer of Ostra Bridge has to be found.",))
    assert shown(server, 0).startswith(f"The search found no passages.\n\nQuestion: {QUESTION}")


# ---------------------------------------------------------------- what is no thought


def test_a_thought_that_cannot_be_had_fails_the_question(server: OpenAIServer, tmp_path: Path) -> None:
    script(server, {"thought": FIRST}, "{broken", {"thought": "\u200b"})
    with opened(tmp_path, server) as workspace:
        with pytest.raises(LLMError, match="a thought must be a sentence") as raised:
            ask(workspace, "ircot")
        assert raised.value.kind == "malformed"
    assert len(server.requests) == 3


def test_a_reply_is_one_sentence() -> None:
    assert Thought(thought=" It rained.\nThe bridge held. ").thought == "It rained."
    assert Thought(thought="It rained. THE ANSWER IS rain. And so on.").thought == "It rained. THE ANSWER IS rain."
    with pytest.raises(ValidationError, match="a thought must be a sentence"):
        Thought(thought=" \n ")


@pytest.mark.parametrize("label", ["3. ", "99) ", "0. ", "Thought 3: ", "Thought: ", "step 2: ", "- ", "* ", " • "])
def test_what_numbers_a_thought_is_no_part_of_it(label: str) -> None:
    assert Thought(thought=f"{label}{FIRST} {SECOND}").thought == FIRST
    assert Thought(thought=f"{label}{FIRST} {ANSWERED}").thought == f"{FIRST} {ANSWERED}"


def test_the_answer_stands_behind_the_last_fact(server: OpenAIServer, tmp_path: Path) -> None:
    thinks(server, f"{SECOND} {ANSWERED}")
    with opened(tmp_path, server) as workspace:
        retrieval = ask(workspace, "ircot")
    assert steps(retrieval)[1:] == [(1, "thought", f"{SECOND} {ANSWERED}"), (1, "end", "The thought holds the answer.")]
    assert (retrieval.notes, len(server.requests)) == ((SECOND,), 1)


def test_a_thought_may_give_up(server: OpenAIServer, tmp_path: Path) -> None:
    thinks(server, "Her birthplace has to be found.", "So the answer is: unknown.")
    with opened(tmp_path, server) as workspace:
        retrieval = ask(workspace, "ircot")
    assert steps(retrieval)[-1] == (2, "end", "The thought gives up.")
    assert (retrieval.notes, len(server.requests)) == (("Her birthplace has to be found.",), 2)


def test_the_demonstrations_are_in_the_form_asked_for() -> None:
    given: Any = {"question": "", "passages": [], "thoughts": []}
    message = [message.content for message in render_messages(THOUGHT, given) if message.role == "assistant"]
    assert [read_json(text, Thought)[1] for text in message] == ["strict", "strict"]
    assert ["So the answer is" in text for text in message] == [False, True]


def test_a_server_without_json(server: OpenAIServer, tmp_path: Path) -> None:
    server.refuses = {"response_format"}
    script(server, f"{SECOND} That is all.", ANSWERED)
    with opened(tmp_path, server) as workspace:
        retrieval = ask(workspace, "ircot")
    assert retrieval.notes == (SECOND,)
    assert steps(retrieval)[3:] == [(2, "thought", ANSWERED), (2, "end", "The thought holds the answer.")]


def ranking(*scored: tuple[str, float]) -> tuple[Hit, ...]:
    return tuple(Hit(id, "passage", (id,), (id,), "", id, score, "base") for id, score in scored)


ROUNDS = [ranking(("a", 9.0), ("b", 3.0), ("c", 1.0)), ranking(("d", 5.0), ("b", 4.0)), ranking(("c", 5.0))]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("score", [("a", 9.0), ("c", 5.0), ("d", 5.0), ("b", 4.0)]),
        ("rrf", [("b", 2 / 12), ("c", 1 / 11 + 1 / 13), ("a", 1 / 11), ("d", 1 / 11)]),
        ("interleave", [("a", 1.0), ("d", 1 / 2), ("c", 1 / 3), ("b", 1 / 4)]),
    ],
)
def test_merging(how: Merge, expected: list[tuple[str, float]]) -> None:
    merged = merge_rankings(ROUNDS, how, 10, "mine")
    by_score = sorted(expected, key=lambda pair: -pair[1])
    assert [(hit.id, pytest.approx(hit.score)) for hit in merged] == by_score
    assert {(hit.source, hit.text == hit.id) for hit in merged} == {("mine", True)}


def test_one_ranking_stays_as_it_is() -> None:
    tied = ranking(("b", 1.0), ("a", 1.0))
    for how in MERGES:
        assert [(hit.id, hit.score) for hit in merge_rankings([tied], how, 60, "mine")] == [("b", 1.0), ("a", 1.0)]


# ---------------------------------------------------------------- the rules


def shows(*documents: Document) -> tuple[NumberedPassage, ...]:
    return tuple(
        NumberedPassage(number, document.id, document.title, document.text)
        for number, document in enumerate(documents, 1)
    )


def thought(question: str, *thoughts: str, passages: tuple[NumberedPassage, ...] = shows(*DOCUMENTS)) -> str:
    return think_by_rule(
        {"question": question, "passages": passages, "thoughts": thoughts, "language": "english"}
    ).thought


def test_the_rules_go_from_name_to_name() -> None:
    assert thought(LONGER) == FIRST
    assert thought(LONGER, FIRST) == SECOND
    assert thought(LONGER, FIRST, SECOND) == "Port Callan lies on River Sarn."


def test_the_rules_end_with_an_answer_or_repeat_themselves() -> None:
    assert (
        thought("Who designed Ostra Bridge?", FIRST, passages=shows(DOCUMENTS[1])) == "So the answer is: Ilse Harrow."
    )
    assert thought("Who designed Ostra Bridge?", passages=()) == "Who designed Ostra Bridge?"
    assert thought("what falls here", "Rain.", passages=shows(PLAIN)) == "Rain."


def test_the_rules_take_up_the_second_of_two_names() -> None:
    texts = ("The Alder flows into the Wend.", "The Birle flows into the Ostra.")
    passages = shows(*(Document(text, "", text) for text in texts))
    question = "Which of the rivers Alder and Birle flows into the Wend?"
    first = thought(question, passages=passages)
    assert thought(question, first, passages=passages) != first


def test_offline_it_follows_the_chain_that_the_base_does_not_see(tmp_path: Path) -> None:
    with opened(tmp_path, None) as workspace:
        base, retrieval = ask(workspace, "bm25", k=4), ask(workspace, "ircot(base_k=2)", k=4)
    assert ids(base) == ["bridge", "ilse", "fair"]
    assert ids(retrieval) == ["bridge", "ilse", "town", "sarn"]
    assert retrieval.notes == (FIRST, SECOND, "Port Callan lies on River Sarn.")


def test_offline_without_a_fact_it_ends(tmp_path: Path) -> None:
    with opened(tmp_path, None, documents=[PLAIN]) as workspace:
        retrieval = ask(workspace, "ircot", "When does rain fall here?")
    assert (ids(retrieval), retrieval.notes) == (["plain"], ())
    assert steps(retrieval)[-1] == (1, "end", "The thought repeats an earlier one, or the question.")


def test_notes_and_steps_of_the_base_are_kept(tmp_path: Path) -> None:
    with opened(tmp_path, None) as workspace:
        retrieval = ask(workspace, "ircot(base=self-ask(base=bm25, candidates=1), iterations=2)")
    assert retrieval.notes == ("Ostra Bridge was designed by what? Ilse Harrow", FIRST)
    assert [(step.iteration, step.index) for step in work(retrieval)] == [
        (1, "text"),
        (1, "follow-ups"),
        (1, "thought"),
        (2, "text"),
        (2, "follow-ups"),
        (2, "end"),
    ]
    assert [iteration for iteration, _ in rounds_of(retrieval)] == [1, 2]  # not those of its base


def test_long_passages_are_shown_as_far_as_there_is_room(server: OpenAIServer, tmp_path: Path) -> None:
    thinks(server, ANSWERED)
    long = Document("long", "Ostra Bridge", "Ostra Bridge was designed. " * 500)
    with opened(tmp_path, server, documents=[long]) as workspace:
        ask(workspace, "ircot(shown_tokens=20)")
    passage = shown(server, 0).partition("\n\n")[0]
    assert passage.startswith("[1] Ostra Bridge\nOstra Bridge was designed.")
    assert len(passage) < 90
