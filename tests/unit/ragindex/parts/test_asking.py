"""The base of parts that ask a model: answers by id, failures, the safe point, and the note of the rules."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from ragindex._util.time_limit import TimeLimitError, limit_time
from ragindex.interfaces import BuildContext
from ragindex.llm.offline import OfflineRules
from ragindex.llm.tasks import Failure, Task
from ragindex.parts.text.topics import Topics


class Word(BaseModel):
    word: str


TASK: Task[Word] = Task("word", 1, Path("word.jinja"), Word)


@dataclass
class Model:
    id: str = "model"
    calls: list[Mapping[str, Any]] = field(default_factory=list)

    def map(
        self,
        task: Task[Word],
        many: Iterable[Mapping[str, Any]],
        *,
        again: bool,
        progress: Callable[[int], None] = lambda done: None,
    ) -> list[Word | Failure]:
        assert again  # failures are not taken from the cache
        answers: list[Word | Failure] = []
        for inputs in many:
            self.calls.append(inputs)
            answers.append(Word(word=inputs["text"]) if inputs["text"] else Failure("word", "no text", "empty", True))
            progress(1)
        return answers


@dataclass
class Context:
    llm: Model = field(default_factory=Model)
    failures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def failed(self, id: str, reason: str, *, set_aside: bool = False) -> None:
        self.failures[id] = f"{reason}, set aside" if set_aside else reason

    def note(self, sentence: str, *, detail: bool = False) -> None:
        self.notes.append(sentence)


def ask(context: Context, texts: Mapping[str, str], progress: str = "") -> dict[str, Word]:
    inputs = {id: {"text": text} for id, text in texts.items()}
    return Topics().ask(cast(BuildContext, context), TASK, inputs, progress)


@pytest.mark.parametrize("progress", ["", "words"])
def test_answers_and_failures_by_id(progress: str) -> None:
    context = Context()
    assert ask(context, {"a": "x", "b": "", "c": "y"}, progress) == {"a": Word(word="x"), "c": Word(word="y")}
    assert context.failures == {"b": "no text, set aside"}
    assert ask(context, {}, progress) == {}
    assert len(context.llm.calls) == 3


def test_answer_is_safe_point() -> None:
    context = Context()
    with limit_time(0), pytest.raises(TimeLimitError):
        ask(context, {"a": "x", "b": "y"}, "words")
    assert len(context.llm.calls) == 1


@pytest.mark.parametrize(
    ("llm", "notes"), [("openai:model", []), (OfflineRules.id, ["Topics were made by rules, not by a language model."])]
)
def test_note_of_rules(llm: str, notes: list[str]) -> None:
    context = Context(Model(llm))
    Topics().finish(cast(BuildContext, context))
    assert context.notes == notes
