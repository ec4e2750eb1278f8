"""Multiple choice and long answers: what an answer names, the rules, and what a model is shown."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragindex.llm.answer_question import (
    CHOICE,
    LETTERS,
    LONG_ANSWER,
    AnswerContext,
    AnswerOutput,
    NumberedPassage,
    answer_at_length_by_rule,
    answer_inputs,
    choice_inputs,
    choose_option_by_rule,
    parse_choice,
)
from ragindex.llm.tasks import render_messages

OPTIONS = ("The dog", "A cat", "2", "Both.")


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ("A", 0),
        ("b", 1),
        ("(B)", 1),
        ("[b]", 1),
        ("B.", 1),
        (" C: ", 2),
        ("**D**", 3),
        ("B. A cat", 1),
        ("(b) a CAT.", 1),
        ("Answer: C", 2),
        ("The correct answer is D.", 3),
        ("option d", 3),
        ("A cat", 1),  # the text of B, not the letter A
        ("the  dog", 0),
        ("both", 3),
        ("2", 2),  # the text of C, not the number of B
        ("1", 0),
        ("4.", 3),
        ("3. 2", 2),
        ("E", None),
        ("5", None),
        ("0", None),
        ("", None),
        ("A or B", None),
        ("A dog", None),
        ("B. The dog", None),
        ("dog", None),
        ("I think it is B", None),
        ("Neither", None),
    ],
)
def test_an_answer_names_one_option_or_none(answer: str, place: int | None) -> None:
    assert parse_choice(answer, OPTIONS) == place


def test_a_text_that_two_options_share_names_none() -> None:
    assert parse_choice("same", ["Same", "same.", "other"]) is None
    assert parse_choice("B", ["Same", "same.", "other"]) == 1


TEXTS = st.text(alphabet="abAB dD()[].:12 \n*'ſK", max_size=12)


@given(TEXTS | st.text(max_size=30), st.lists(TEXTS, min_size=2, max_size=6))
@example("B" * 100_000, ["a", "b"])
@example("\N{KELVIN SIGN}", ["a"] * 26)
def test_what_is_named_is_an_option(answer: str, options: list[str]) -> None:
    place = parse_choice(answer, options)
    assert place is None or 0 <= place < len(options)


@given(st.lists(st.text(min_size=2, max_size=20), min_size=2, max_size=26), st.data())
def test_a_letter_always_names_its_option(options: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(options) - 1))
    written = data.draw(st.sampled_from(["{}", "({})", "{}.", "{})", "Answer: {}", " {}\n"])).format(LETTERS[place])
    assert parse_choice(written, options) == place
    assert parse_choice(written.lower(), options) == place


PASSAGES = (
    NumberedPassage(1, "h1", "Mara", "Mara left the valley in spring. She wanted to find work in the harbour."),
    NumberedPassage(2, "h2", "Mill", "The mill stood still."),
)
WHY = ("To sing in a choir", "To find work", "To sleep")


def inputs(*passages: NumberedPassage) -> dict[str, object]:
    return choice_inputs("Why did Mara leave?", WHY, AnswerContext(passages))


def test_the_rule_takes_the_option_that_one_sentence_supports_most() -> None:
    assert choose_option_by_rule(inputs(*PASSAGES)) == AnswerOutput(answer="B", passages=[1], found=True)
    assert choose_option_by_rule(inputs()) == AnswerOutput(answer="", found=False)
    assert choose_option_by_rule(inputs(NumberedPassage(1, "h", "", "Nothing here."))) == AnswerOutput(
        answer="", found=False
    )


def test_a_model_is_shown_the_options_with_letters() -> None:
    system, user = render_messages(CHOICE, inputs(*PASSAGES))
    assert (system.role, user.role) == ("system", "user")
    assert user.content.startswith("[1] Mara\nMara left the valley")
    question = "Question: Why did Mara leave?\nA. To sing in a choir\nB. To find work\nC. To sleep"
    assert user.content.rstrip().endswith(question)
    closed = render_messages(CHOICE, inputs())
    assert closed[1].content.strip() == question
    assert "passages: an empty list" in closed[0].content


# ---------------------------------------------------------------- long answers

PIERS = (
    NumberedPassage(1, "a", "Pier", "The first pier opened in 1871. It was of wood."),
    NumberedPassage(2, "b", "Mill", "The mill stood still."),
    NumberedPassage(3, "c", "New pier", "The new pier opened in May 1990."),
)


def test_long_answer_joins_nearest_sentences() -> None:
    """The overlaps are 0.83, 0.40 (`pier` and `opened` of five words) and 0.29 (`pier` of two)."""
    inputs = answer_inputs("When was the first pier opened?", AnswerContext(PIERS, ("A pier burned.",)))
    answer = "The first pier opened in 1871. The new pier opened in May 1990. A pier burned."
    assert answer_at_length_by_rule(inputs) == AnswerOutput(answer=answer, passages=[1, 3], found=True)
    nothing = AnswerOutput(answer="", passages=[], found=False)
    assert answer_at_length_by_rule(answer_inputs("When?", AnswerContext())) == nothing


def test_prompt_of_long_answer() -> None:
    system, user = render_messages(LONG_ANSWER, answer_inputs("When did it open?", AnswerContext(PIERS[:1])))
    assert "Velka Bridge" in system.content
    assert user.content.strip() == f"[1] Pier\n{PIERS[0].text}\n\nQuestion: When did it open?"
    closed = render_messages(LONG_ANSWER, answer_inputs("When did it open?", AnswerContext()))
    assert "passages: an empty list" in closed[0].content
