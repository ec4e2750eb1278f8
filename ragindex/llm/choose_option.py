"""Multiple-choice question answering: the LLM task, its rule, and the option that an answer names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regex

from ragindex.english import nearest_texts, overlaps, split_sentences
from ragindex.llm.answer_question import AnswerContext, AnswerOutput, answer_inputs
from ragindex.llm.tasks import Task

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LABEL = regex.compile(
    r"(?:(?:the )?(?:correct |right )?(?:answer|option|choice)(?: is)?[: ]*)?"
    r"[(\[]?(?P<label>[a-z]|[0-9]{1,2})(?:[.:)\]]+|$|(?=\s))\s*(?P<text>.*)",
    regex.IGNORECASE | regex.DOTALL,
)
_SPACE = regex.compile(r"\s+")
_MOST_SENTENCES = 1_000  # sentences that the rule compares with each option
_LONGEST_ANSWER = 10_000  # characters of an answer that are read


@dataclass(frozen=True, slots=True)
class Option:
    """An option as the reader is shown it."""

    letter: str
    text: str


def choice_inputs(
    question: str, options: Sequence[str], context: AnswerContext, language: str = "english"
) -> dict[str, Any]:
    """Return the inputs of CHOICE: those of ANSWER, and the options, which are named A to Z in the given order."""
    lettered = [Option(letter, text) for letter, text in zip(LETTERS, options, strict=False)]
    return {**answer_inputs(question, context, language), "options": lettered}


def choose_option_by_rule(inputs: Mapping[str, Any]) -> AnswerOutput:
    """Choose the option that overlaps most with one sentence of the passages, more so if the question does too.

    An option scores max((1 + overlap of question and sentence) * overlap of option and sentence) over the sentences
    (see `lexical_overlap.overlaps`). The first of equals is chosen; none if no sentence has a word of an option.
    """
    question, language, options = inputs["question"], inputs.get("language", "english"), inputs["options"]
    texts = {passage.number: passage.text for passage in inputs["passages"]}
    sentences = [one for text in [*texts.values(), *inputs["notes"]] for one in split_sentences(text)][:_MOST_SENTENCES]
    near = [1 + score for score in overlaps(question, sentences, language)]
    each = [overlaps(option.text, sentences, language) for option in options]
    scores = [max((a * b for a, b in zip(near, one, strict=True)), default=0.0) for one in each]
    if not any(scores):
        return AnswerOutput(answer="", found=False)
    best = options[scores.index(max(scores))]
    nearest = nearest_texts(f"{question} {best.text}", list(texts.values()), 1, language)
    return AnswerOutput(answer=best.letter, passages=[number for number, text in texts.items() if text in nearest])


_PROMPT = Path(__file__).with_name("prompts") / "choose.jinja"
CHOICE = Task("choose", 1, _PROMPT, AnswerOutput, rule=choose_option_by_rule, max_tokens=200)


def parse_choice(answer: str, options: Sequence[str]) -> int | None:
    """Return the place of the one option that an answer names, from 0; None if it names none, or several.

    In this order, an answer names an option by its letter, its text, its number from 1, or a letter or number followed
    by its text; `answer: B`, `(b)` and `B.` are the letter B. Case, white space and a full stop at the end do not
    matter. A letter followed by anything but the option's own text names none.
    """
    said = answer[:_LONGEST_ANSWER].strip().strip("\"'*`").strip()
    found = _LABEL.fullmatch(said)
    label, text = (found["label"].upper(), found["text"]) if found else ("", "")
    labelled = LETTERS.find(label) if label.isalpha() else int(label or 0) - 1
    known = 0 <= labelled < len(options)
    same = [place for place, option in enumerate(options) if _fold(option) == _fold(said)]
    if known and label.isalpha() and not text:
        return labelled
    if same:
        return same[0] if len(same) == 1 else None
    return labelled if known and (not text or _fold(text) == _fold(options[labelled])) else None


def _fold(text: str) -> str:
    return _SPACE.sub(" ", text).strip().removesuffix(".").rstrip().casefold()
