"""What the reader sees, what it says, and what is made of that."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from answering import answer_from_retrieval
from hypothesis import given, settings
from hypothesis import strategies as st
from made_language import QUICK
from openai_server import OpenAIServer

from examples import examples
from ragindex.accounting import ledger
from ragindex.errors import UsageError
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import answer_question, tokens
from ragindex.llm.answer_question import (
    ANSWER,
    AnswerContext,
    AnswerOutput,
    CitedAnswer,
    NumberedPassage,
    answer_inputs,
    build_context,
)
from ragindex.llm.offline import OfflineRules
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.tasks import render_messages
from ragindex.types import Hit, Retrieval

LIGHTHOUSE = "The lighthouse of Lindau was built in 1856. It stands at the harbour."


def hit(id: str, text: str, title: str = "") -> Hit:
    return Hit(id, "passage", (id,), (id,), title, text, 1.0, "test")


HITS = (
    hit("bread", "Rye bread keeps for a week.", "Bread"),
    hit("lindau", LIGHTHOUSE, "Lindau"),
    hit("notes", "Ada Miller painted the harbour of Lindau.", "Old notes"),
)


# ---------------------------------------------------------------- the context


def test_passages_are_numbered_in_order_of_rank() -> None:
    seen = build_context(HITS, ("She was a painter.",), 100)
    assert seen.passages == (
        NumberedPassage(1, "bread", "Bread", "Rye bread keeps for a week."),
        NumberedPassage(2, "lindau", "Lindau", LIGHTHOUSE),
        NumberedPassage(3, "notes", "Old notes", "Ada Miller painted the harbour of Lindau."),
    )
    assert seen.notes == ("She was a painter.",)
    # four characters a token, each text with its head and an empty line: 20, 39, 82 and 58 characters
    assert (seen.tokens, seen.estimated) == (5 + 10 + 21 + 15, True)


def test_the_last_passage_is_cut_after_a_sentence() -> None:
    seen = build_context(HITS, (), 24)
    assert [passage.text for passage in seen.passages] == [
        "Rye bread keeps for a week.",
        "The lighthouse of Lindau was built in 1856.",
    ]
    assert seen.tokens == 24
    assert build_context(HITS, (), 23).passages == build_context(HITS[:1], (), 23).passages  # a sentence does not fit


def test_the_first_passage_is_cut_after_a_word() -> None:
    (only,) = build_context(HITS[1:], (), 10).passages
    assert only.text == "The lighthouse of Lindau"


def test_no_passage_ends_within_a_sentence_but_the_first() -> None:
    first, second = (
        "One two three. Four five six.",
        "Mr. Low met Dr. High at 3.5 km. They spoke. 東京は首都である。大阪は都市である。",
    )
    context = build_context([hit("a", first), hit("b", second)], (), 1_000)
    ends = {"", "Mr. Low met Dr. High at 3.5 km.", "Mr. Low met Dr. High at 3.5 km. They spoke.", second}
    ends.add("Mr. Low met Dr. High at 3.5 km. They spoke. 東京は首都である。")
    seen = [build_context([hit("a", first), hit("b", second)], (), budget) for budget in range(12, context.tokens + 1)]
    assert {passage.passages[1].text if len(passage.passages) > 1 else "" for passage in seen} == ends
    assert all(passage.passages[0].text == first for passage in seen)


def test_notes_are_paid_for_with_passages() -> None:
    note = "one two three four five six"
    assert build_context(HITS, (note,), 18).notes == (note,)
    assert [passage.number for passage in build_context(HITS, (note,), 18).passages] == [1]
    assert build_context(HITS, (note,), 5) == AnswerContext((), ("one two three four",), 5, True)


def test_titles_are_bounded_and_texts_without_spaces_are_cut() -> None:
    (only,) = build_context([hit("a", "text", "t" * 1000)], (), 60).passages
    assert only.title == "t" * 200
    (only,) = build_context([hit("a", "x" * 1000)], (), 26).passages
    assert only.text == "x" * 80
    (only,) = build_context([hit("a", "東京は日本の首都である。")], (), 8).passages
    assert only.text == "東京は日本の"


def test_a_budget_is_at_least_one_token() -> None:
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(UsageError, match=r"The 'tokens' of a context must be an int in the range \[1, inf\). Got"):
            build_context(HITS, (), wrong)  # type: ignore[arg-type]


def _is_packed(hits: list[Hit], notes: list[str], budget: int, model: str) -> None:
    seen = build_context(hits, notes, budget, model)
    blocks = [*notes, *(f"[{number}] {ranked.title}\n{ranked.text}" for number, ranked in enumerate(hits, 1))]
    packed = [*seen.notes, *(f"[{passage.number}] {passage.title}\n{passage.text}" for passage in seen.passages)]
    taken, total = (
        sum(tokens.count_text_tokens(f"{text}\n\n", model).tokens for text in texts) for texts in (packed, blocks)
    )
    assert taken == seen.tokens <= budget
    assert [passage.hit_id for passage in seen.passages] == [ranked.id for ranked in hits[: len(seen.passages)]]
    shown = [*seen.notes, *(passage.text for passage in seen.passages)]
    given = [*notes[: len(seen.notes)], *(ranked.text for ranked in hits[: len(seen.passages)])]
    cut = [number for number, (text, start) in enumerate(zip(given, shown, strict=True)) if text != start]
    assert all(text.startswith(start) for text, start in zip(given, shown, strict=True))
    assert set(cut) <= {len(seen.notes) - 1, len(shown) - 1}  # the last of the notes, the last of the passages
    assert packed == blocks or total > budget


TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from(" \n.東a"), max_size=80)


@settings(max_examples=examples(60))
@given(st.lists(TEXTS, max_size=5), st.lists(TEXTS, max_size=2), st.integers(1, 120))
def test_packing(texts: list[str], notes: list[str], budget: int) -> None:
    _is_packed([hit(str(number), text, text[:5]) for number, text in enumerate(texts)], notes, budget, "")


class _Characters:
    """A vocabulary whose tokens are pairs of letters, so that one is often cut."""

    def encode(self, text: str, disallowed_special: tuple[()] = ()) -> list[str]:
        return [text[at : at + 2] for at in range(0, len(text), 2)]


@settings(max_examples=examples(30))
@given(st.lists(TEXTS, max_size=4), st.integers(1, 120))
def test_packing_by_a_vocabulary(texts: list[str], budget: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tokens, "load_tokenizer", lambda model: _Characters() if model == "known" else None)
        hits = [hit(str(number), text) for number, text in enumerate(texts)]
        assert build_context(hits, (), budget, "known").estimated is False
        _is_packed(hits, [], budget, "known")


def test_whose_tokens_count(tmp_path: Path) -> None:
    model = OpenAICompatibleChat(model="small", base_url="http://127.0.0.1:1")
    assert Index.open(tmp_path / "a", llm=model, create=True).tokens_counted_by == "small"
    assert Index.open(tmp_path / "b", create=True).tokens_counted_by == ""


# ---------------------------------------------------------------- the prompt


def test_the_prompt_holds_passages_notes_and_question() -> None:
    _, user = render_messages(ANSWER, answer_inputs("When was it built?", build_context(HITS[:2], ("It is tall.",))))
    assert user.content == (
        "[1] Bread\nRye bread keeps for a week.\n\n"
        f"[2] Lindau\n{LIGHTHOUSE}\n\n"
        "Notes of the search:\nIt is tall.\n\n"
        "Question: When was it built?"
    )


def test_without_passages_the_instruction_alone_is_left() -> None:
    system, user = render_messages(ANSWER, answer_inputs("When was it built?", AnswerContext()))
    assert user.content == "Question: When was it built?"
    assert "in as few words as say all of it" in system.content
    assert "passages that a search found" not in system.content
    assert "Velka" not in system.content


def test_each_style_says_how_long_an_answer_is() -> None:
    given = answer_inputs("?", build_context(HITS))
    message = {name: render_messages(task, given)[0].content for name, task in answer_question.READER_TASKS.items()}
    limits = {name: "at most six words" in text for name, text in message.items()}
    assert limits == {"short": False, "six-words": True, "fewest-words": False}
    assert all("each step that leads to it" in text and "A note may be a guess" in text for text in message.values())


def test_the_example_of_the_prompt_is_an_answer_to_it() -> None:
    system = render_messages(ANSWER, answer_inputs("?", build_context(HITS)))[0].content
    shown = next(line for line in system.splitlines() if line.startswith("{"))
    assert AnswerOutput.model_validate_json(shown) == AnswerOutput(answer="Port Callan", passages=[1, 3], found=True)
    assert "[1] Velka Bridge\n" in system


# ---------------------------------------------------------------- answers by rule


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was the lighthouse of Lindau built?", CitedAnswer("1856", True, {2: "lindau"}, 46)),
        ("Who painted the harbour of Lindau?", CitedAnswer("Ada Miller", True, {3: "notes"}, 46)),
        ("Does rye bread keep for a week?", CitedAnswer("yes", True, {1: "bread"}, 46)),
        ("What is plutonium?", CitedAnswer("", False, {}, 46)),
    ],
)
def test_rules_answer_from_the_passages(question: str, answer: CitedAnswer) -> None:
    with ledger.record_calls() as tally:
        assert answer_from_retrieval(OfflineRules(), question, Retrieval(HITS)) == answer
    assert (tally.rules, tally.calls) == (1, 0)


def test_rules_read_notes_too() -> None:
    answer = answer_from_retrieval(
        OfflineRules(), "When was the ferry built?", Retrieval((), notes=("The ferry was built in 1902.",))
    )
    assert answer == CitedAnswer("1902", True, {}, 8)
    assert answer_from_retrieval(OfflineRules(), "When was the ferry built?", Retrieval(())) == CitedAnswer(
        "", False, {}, 0
    )


# ---------------------------------------------------------------- answers by a model


def answer_with(server: OpenAIServer, reply: Any, **given: Any) -> tuple[CitedAnswer, ledger.Tally]:
    server.write = lambda body: reply if isinstance(reply, str) else json.dumps(reply)
    plugin = OpenAICompatibleChat(model="small", base_url=server.url)
    with ledger.record_calls() as tally:
        return answer_from_retrieval(plugin.open(LLMSettings(clock=QUICK)), "Who?", Retrieval(HITS), **given), tally


def test_what_a_model_says(server: OpenAIServer) -> None:
    answer, tally = answer_with(server, {"answer": " Ada Miller ", "passages": [3, 2, 3], "found": True}, model="small")
    assert answer == CitedAnswer("Ada Miller", True, {2: "lindau", 3: "notes"}, 46)
    assert tally.stages == {"answer": Counter(strict=1)}
    (request,) = server.requests
    assert request.body["messages"][1]["content"].endswith("harbour of Lindau.\n\nQuestion: Who?")
    assert set(request.body["response_format"]["json_schema"]["schema"]["properties"]) == {
        "answer",
        "passages",
        "found",
    }


def test_a_guess_is_told_apart(server: OpenAIServer) -> None:
    answer, _ = answer_with(server, {"answer": "Kurt", "passages": [], "found": False})
    assert answer == CitedAnswer("Kurt", False, {}, 46)


def test_passages_that_are_not_there_are_dropped_and_counted(server: OpenAIServer) -> None:
    answer, tally = answer_with(server, {"answer": "Ada", "passages": [0, 3, 9], "found": True}, tokens=1000)
    assert answer.passages == {3: "notes"}
    assert tally.stages == {"answer": Counter({"strict": 1, "unknown passage": 2})}


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ('```json\n{"answer": "Ada", "passages": [3], "found": true}\n```', CitedAnswer("Ada", True, {3: "notes"}, 46)),
        ({"answer": 1856, "passages": ["2"]}, CitedAnswer("1856", True, {2: "lindau"}, 46)),
        ({"answer": None, "passages": [], "found": False}, CitedAnswer("", False, {}, 46)),
    ],
)
def test_answers_that_are_nearly_right(
    server: OpenAIServer, reply: str | Mapping[str, Any], answer: CitedAnswer
) -> None:
    assert answer_with(server, reply)[0] == answer


def test_nothing_is_found_in_nothing() -> None:
    output = AnswerOutput(answer="Paris", passages=[1], found=True)
    assert answer_question.resolve_citations(output, AnswerContext()) == CitedAnswer("Paris", False, {}, 0)
