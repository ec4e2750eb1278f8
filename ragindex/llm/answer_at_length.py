"""Long answers to ambiguous questions, such as those of ASQA: the LLM task and its rule."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragindex.english import nearest_texts, split_sentences
from ragindex.llm.answer_question import AnswerOutput
from ragindex.llm.tasks import Task

_MOST_SENTENCES = 1_000  # sentences that the rule reads
_SENTENCES = 3  # sentences of an answer by rule


def answer_at_length_by_rule(inputs: Mapping[str, Any]) -> AnswerOutput:
    """Join the three sentences of the passages and notes that overlap most with the question, the nearest first."""
    sentences = [(passage.number, one) for passage in inputs["passages"] for one in split_sentences(passage.text)]
    sentences += [(0, one) for note in inputs["notes"] for one in split_sentences(note)]
    sentences = sentences[:_MOST_SENTENCES]
    texts = [text for _, text in sentences]
    chosen = nearest_texts(inputs["question"], texts, _SENTENCES, inputs.get("language", "english"))
    numbers = sorted({number for number, text in sentences if number and text in chosen})
    return AnswerOutput(answer=" ".join(chosen), passages=numbers, found=bool(chosen))


_PROMPT = Path(__file__).with_name("prompts") / "long_answer.jinja"
LONG_ANSWER = Task("long_answer", 1, _PROMPT, AnswerOutput, rule=answer_at_length_by_rule, max_tokens=600)
