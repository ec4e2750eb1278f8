"""docs/reference/prompts.md has every prompt as it is, and no answer to another wording of a prompt is ever used."""

import json
import runpy
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_language import answering, opened
from project import ROOT

from ragindex.accounting import ledger
from ragindex.index.parts import tasks_of, topological_order
from ragindex.llm.output import schema_text
from ragindex.llm.tasks import Task, render_messages
from ragindex.plugins import registry

MADE = runpy.run_path(str(ROOT / "docs" / "make_prompts.py"))
TASKS: dict[Path, Task[Any]] = MADE["find_tasks"]()
NOTES = tomllib.loads(MADE["NOTES"].read_text(encoding="utf-8"))


def test_the_page_is_that_of_the_prompts() -> None:
    assert MADE["PAGE"].read_text(encoding="utf-8") == MADE["page"](), "Run: python docs/make_prompts.py"


def test_every_prompt_has_a_task_and_a_note_and_no_note_is_left_over() -> None:
    prompts = MADE["list_prompts"]()
    assert set(TASKS) == set(prompts)
    assert set(NOTES) == {path.relative_to(ROOT).as_posix() for path in prompts}


def test_the_tasks_of_methods_are_on_the_page() -> None:
    names = [name for name in registry.plugin_names("schemes") if name != "http"]
    for scheme in map(registry.scheme, [*names, "http(url=https://docs.example/search)"]):
        tasks = [*tasks_of(scheme), *(task for part in topological_order(scheme.parts()) for task in part.tasks())]
        assert {task.prompt.resolve() for task in tasks} <= set(TASKS), scheme


@pytest.mark.parametrize("path", TASKS, ids=lambda path: "-".join((path.parts[-3], path.stem)))
def test_an_answer_to_another_wording_is_never_used(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = TASKS[path]
    source = path.read_text(encoding="utf-8")
    unseen = tmp_path / path.name  # another prompt, whose messages are mostly the same
    unseen.write_text(source + "{# another #}", encoding="utf-8")
    seen = tmp_path / f"seen-{path.name}"
    seen.write_text(source.replace("[system]\n", "[system]\nBe brief.\n", 1), encoding="utf-8")
    wordings = [task, replace(task, prompt=unseen), replace(task, prompt=seen)]
    assert (
        len({json.dumps(wording.identity) for wording in wordings}) == 3
    )  # a part that was made with another is another part
    answer = json.dumps(_make_answer(json.loads(schema_text(task.output))))
    with answering(monkeypatch, lambda body: answer) as server:
        client = opened(server, tmp_path / "calls.sqlite")
        for wording in wordings:
            messages = {
                str(render_messages(each, MADE["blank_inputs"](each)))
                for each in wordings[: wordings.index(wording) + 1]
            }
            before = len(server.requests)
            with ledger.record_calls() as tally:
                first, again = (client.run(wording, MADE["blank_inputs"](wording)) for _ in range(2))
            assert first == again
            assert len(server.requests) == len(messages)  # equal messages have one answer
            assert (tally.calls, tally.replayed) == (2, 2 - (len(messages) - before))


def _make_answer(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> Any:
    """A value that fits the schema."""
    root = root or schema
    if "$ref" in schema:
        return _make_answer(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return _make_answer(schema["anyOf"][0], root)
    if schema["type"] == "object":
        return {name: _make_answer(property_schema, root) for name, property_schema in schema["properties"].items()}
    return {"array": [], "string": "It rained.", "boolean": True, "integer": 1}[schema["type"]]
