"""Thoughts between the marks of many chat templates never reach an answer."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ragindex.llm.json_text import drop_thoughts
from ragindex.llm.output import read_json

MARKS = [
    ("<think>", "</think>"),
    ("<THINK>\n", "\n</THINK>\n"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<Reasoning>", "</Reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>"),
    ("analysis", "assistantfinal"),
]
DRAFT = {"entities": ["Draft"], "triples": [["WRONG", "draft", "THOUGHT"]]}
FINAL = {"entities": ["Lindau"], "triples": [["Lindau", "lies on", "Lake Constance"]]}


class Facts(BaseModel):
    entities: list[str]
    triples: list[list[str]]


@pytest.mark.parametrize(("opening", "closing"), MARKS)
def test_only_the_answer_is_read(opening: str, closing: str) -> None:
    thought = f"{opening}First: {json.dumps(DRAFT)} no, that is wrong.{closing}"
    assert drop_thoughts(f"\ufeff{thought}{json.dumps(FINAL)}").strip() == json.dumps(FINAL)
    assert read_json(f"{thought}```json\n{json.dumps(FINAL)}\n```", Facts)[0].model_dump() == FINAL


@pytest.mark.parametrize(("opening", "closing"), MARKS[:-1])
def test_an_unfinished_thought_is_no_answer(opening: str, closing: str) -> None:
    assert drop_thoughts(f"{opening}First: {json.dumps(DRAFT)}").strip() == ""


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("no thought", "no thought"),
        ("the template opened it </think>yes", "yes"),
        ("<think>a<think>b</think>c</think>yes", "yes"),
        ("<think>a[THINK]b[/THINK]c</think>yes", "yes"),
        ("<think></think><think>b</think>yes", "yes"),
        ("yes <think>more</think>", "yes "),
        ("yes <think>more", "yes <think>more"),
        ("Well, <think>a</think>yes", "Well, yes"),
        ("<|begin_of_thought|>a<|end_of_thought|><|begin_of_solution|>yes<|end_of_solution|>", "yes"),
        ("<|channel|>final<|message|>yes<|return|>", "yes"),
        ("<|channel|>commentary<|message|>no", ""),
        ("analysis of the harbour", "analysis of the harbour"),
        ("", ""),
    ],
)
def test_where_thoughts_stand(text: str, answer: str) -> None:
    assert drop_thoughts(text) == answer


@given(
    st.lists(st.sampled_from([*(mark for pair in MARKS for mark in pair), "a", " ", "{}"]), max_size=12).map("".join)
)
def test_any_marks(text: str) -> None:
    answer: Any = drop_thoughts(text)
    assert len(answer) <= len(text)
    if "<" not in text and "[" not in text and "◁" not in text and "analysis" not in text:
        assert answer == text


@pytest.mark.parametrize(
    "piece", ["a<think>b</think>", "<think>", "</think>", "<|channel|>x", "<|channel|>a<|message|>"]
)
def test_the_time_grows_with_the_text(piece: str) -> None:
    """A reading that goes back over the text for each mark would take minutes."""
    assert len(drop_thoughts(piece * 100_000)) <= len(piece) * 100_000
