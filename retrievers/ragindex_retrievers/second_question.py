"""The second question of `hop`, about what a passage mentions and leaves unsaid: by rules, or by a language model."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, StringConstraints

from ragindex.english import find_names, strip_brackets, unmentioned_words
from ragindex.interfaces.llm import LLM
from ragindex.llm.answer_question import build_context
from ragindex.llm.output import read_first_line
from ragindex.llm.tasks import Task, require_output
from ragindex.retrieval.trace import Trace
from ragindex.text_analysis import analyse, token_spans
from ragindex.types import Hit

_TEXT_LENGTH = 20_000
"""The part of a passage that is searched for names, in characters."""
_SHOWN_TOKENS = 1_000
"""Tokens of a passage that the language model is shown at most."""


@dataclass(frozen=True, slots=True)
class Bridge:
    """A result of the base, and the second question that is written from it."""

    hit: Hit
    question: str


@dataclass(frozen=True, slots=True)
class QuestionWriter:
    """Writes second questions: with `llm`, one call for each, else by rules with the first `names` names.

    Tokens of what the LLM is shown are counted with the tokenizer of `model`.
    """

    names: int
    language: str
    llm: LLM | None
    model: str

    def write(self, question: str, hits: Sequence[Hit], count: int, trace: Trace) -> list[Bridge]:
        """Return the first `count` hits with their second questions. Raises LLMError, and what `LLM.map` raises."""
        bridges, texts = hits[:count], [hit.text for hit in hits]
        by_rule = [write_second_question(question, hit, self.names, self.language, texts) for hit in bridges]
        if self.llm is None or not bridges:
            return [Bridge(hit, second) for hit, second in zip(bridges, by_rule, strict=True)]
        with trace.step(2, "writing second questions", question) as step:
            inputs = [
                {"question": question, "title": hit.title, "text": self._shorten(hit), "by_rule": second}
                for hit, second in zip(bridges, by_rule, strict=True)
            ]
            answers = self.llm.map(SECOND_QUESTION, inputs)
            step["ids"] = tuple(hit.id for hit in bridges)
        return [Bridge(hit, require_output(answer).question) for hit, answer in zip(bridges, answers, strict=True)]

    def _shorten(self, hit: Hit) -> str:
        (passage,) = build_context([hit], (), _SHOWN_TOKENS, self.model).passages
        return passage.text


# ---------------------------------------------------------------- by rules


def write_second_question(question: str, bridge: Hit, names: int, language: str, texts: Sequence[str]) -> str:
    """Return the words of a question that a passage does not hold, and `names` names that it mentions.

    Names of the question and of the title are left out. A passage without a name has its rarest words instead, those
    in the fewest of `texts`. The question itself, if nothing is left of it and the passage has neither.
    """
    text = bridge.text[:_TEXT_LENGTH]
    left = unmentioned_words(question, [bridge.title, text], language)
    mentioned = list_new_names(question, bridge.title, text, language)
    mentioned = mentioned or list_rare_words(f"{question} {bridge.title}", text, texts, language)
    return f"{' '.join(left)} {', '.join(mentioned[:names])}".strip() or question


def list_new_names(question: str, title: str, text: str, language: str) -> list[str]:
    """Return the names of a text with a word that is not in the question, and with one that is not in the title.

    >>> list_new_names("Where does the Limpopo end?", "Limpopo", "The Limpopo passes Gwanda District.", "english")
    ['Gwanda District']
    """
    known, own = set(analyse(question, language)), set(analyse(strip_brackets(title), language))
    tokens = {name: set(analyse(name, language)) for name in find_names(text)}
    return [name for name, of_name in tokens.items() if of_name - known and of_name - own]


def list_rare_words(known: str, text: str, texts: Sequence[str], language: str) -> list[str]:
    """Return the words of a text that are not in `known`, those first whose tokens stand in the fewest `texts`."""
    left_out, words = set(analyse(known, language)), dict[str, str]()
    for token, start, end in token_spans(text, language):
        if token not in left_out:
            words.setdefault(token, text[start:end])
    counts = Counter(token for other in texts for token in set(analyse(other[:_TEXT_LENGTH], language)))
    return [words[token] for token in sorted(words, key=lambda token: counts[token])]  # equal ones in the text's order


# ---------------------------------------------------------------- by a language model


class SecondQuestion(BaseModel):
    """Output of the task: a question that can be understood by itself."""

    question: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)]


def _write_by_rule(inputs: Mapping[str, Any]) -> SecondQuestion:
    """Return what the rules wrote, so that without a model both ways of writing are the same."""
    return SecondQuestion(question=inputs["by_rule"][:1_000])


def _read_question(text: str) -> SecondQuestion:
    """Return the first line that is not blank. Raises ValueError if there is none."""
    return SecondQuestion(question=read_first_line(text, "a question"))


SECOND_QUESTION: Task[SecondQuestion] = Task(
    name="second-question",
    version=1,
    prompt=Path(__file__).with_name("prompts") / "second_question.jinja",
    output=SecondQuestion,
    rule=_write_by_rule,
    max_tokens=200,
    read=_read_question,
)
