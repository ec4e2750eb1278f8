"""Long answers: the rule, and what a model is shown."""

from ragindex.llm.answer_at_length import LONG_ANSWER, answer_at_length_by_rule
from ragindex.llm.answer_question import AnswerContext, AnswerOutput, NumberedPassage, answer_inputs
from ragindex.llm.tasks import render_messages

PASSAGES = (
    NumberedPassage(1, "a", "Pier", "The first pier opened in 1871. It was of wood."),
    NumberedPassage(2, "b", "Mill", "The mill stood still."),
    NumberedPassage(3, "c", "New pier", "The new pier opened in May 1990."),
)


def test_the_rule_joins_the_nearest_sentences() -> None:
    """The overlaps are 0.83, 0.40 (`pier` and `opened` of five words) and 0.29 (`pier` of two)."""
    inputs = answer_inputs("When was the first pier opened?", AnswerContext(PASSAGES, ("A pier burned.",)))
    answer = "The first pier opened in 1871. The new pier opened in May 1990. A pier burned."
    assert answer_at_length_by_rule(inputs) == AnswerOutput(answer=answer, passages=[1, 3], found=True)
    nothing = AnswerOutput(answer="", passages=[], found=False)
    assert answer_at_length_by_rule(answer_inputs("When?", AnswerContext())) == nothing


def test_a_model_is_shown_passages_and_question() -> None:
    system, user = render_messages(LONG_ANSWER, answer_inputs("When did it open?", AnswerContext(PASSAGES[:1])))
    assert "Velka Bridge" in system.content
    assert user.content.strip() == f"[1] Pier\n{PASSAGES[0].text}\n\nQuestion: When did it open?"
    closed = render_messages(LONG_ANSWER, answer_inputs("When did it open?", AnswerContext()))
    assert "passages: an empty list" in closed[0].content
