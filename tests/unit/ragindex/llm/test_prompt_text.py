"""Prompts written as a text in the code of a task."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from ragindex.errors import DataError, UsageError
from ragindex.llm.tasks import Message, Task, render_messages

_PROMPT = "[system]\nWrite a passage.\n[user]\nQuestion: {{ question }}\n"


class _Passage(BaseModel):
    passage: str


def _make_task(prompt: Path | str) -> Task[_Passage]:
    return Task("draft", 1, prompt, _Passage)


def test_text_and_file_are_one_prompt(tmp_path: Path) -> None:
    """The same prompt as a text and as a file asks the same and has the same identity."""
    file = tmp_path / "draft.jinja"
    file.write_text(_PROMPT)
    messages = [Message("system", "Write a passage."), Message("user", "Question: Who?")]
    text, read = _make_task(_PROMPT), _make_task(file)
    assert render_messages(text, {"question": "Who?"}) == messages
    assert render_messages(read, {"question": "Who?"}) == messages
    assert text.identity == read.identity
    assert text.hash != _make_task(_PROMPT + "Be brief.").hash


def test_text_without_roles_is_the_question() -> None:
    """A text without role lines is one user message."""
    assert render_messages(_make_task("Who is {{ name }}?"), {"name": "Ada"}) == [Message("user", "Who is Ada?")]


def test_mistakes_name_the_text() -> None:
    """A missing input and a template that cannot be parsed are named with the beginning of the text."""
    with pytest.raises(UsageError, match=r"The prompt of draft \('Who is \{\{ name \}\}\?'\): 'name' is undefined"):
        render_messages(_make_task("Who is {{ name }}?"), {"question": "x"})
    with pytest.raises(DataError, match="a jinja2 template"):
        render_messages(_make_task("Who is {{ name"), {"name": "x"})
