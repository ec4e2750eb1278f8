"""Prompts of your own, as those that a paper prints: a YAML file with a template for each task that it names.

The file is named with a hash of its content, so that answers to other prompts are other answers.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from ragindex._util.canonical import digest
from ragindex.errors import DataError, UsageError
from ragindex.llm.tasks import Output, Task, check_prompt

_HASH_LENGTH = 12
_MOST_BYTES = 1_000_000
_EXPECTED = "a YAML file with prompts by the name of the task, as 'answer: |' and a template below it"
_contents: dict[str, Mapping[str, str]] = {}
"""What was read, by the name with the hash."""


def resolve_prompts(written: str) -> str:
    """Return the path of a file of prompts with a hash of its content appended, so that it names this content alone.

    Raises DataError if the file cannot be read, and UsageError if `written` has a hash and the content has changed.
    """
    name, _, known = written.partition("#")
    prompts = _read_file(name)
    actual = digest(prompts)[:_HASH_LENGTH]
    if known and known != actual:
        raise UsageError(
            f"The prompts in {name} have changed: expected {known}, found {actual}. To use them as they are now, write "
            f"prompts={name}."
        )
    resolved = f"{name}#{actual}"
    _contents[resolved] = prompts
    return resolved


def read_prompts(resolved: str) -> Mapping[str, str]:
    """Return the templates by the name of their task, from a file that `resolve_prompts` has named."""
    if resolved not in _contents:  # named by another process
        resolve_prompts(resolved)
    return _contents[resolved]


def with_own_prompt(task: Task[Output], prompts: Mapping[str, str]) -> Task[Output]:
    """Return a task with the prompt that `prompts` has for it in place of its own, if there is one."""
    prompt = prompts.get(task.name)
    return task if prompt is None else replace(task, prompt=prompt)


def _read_file(name: str) -> dict[str, str]:
    path = Path(name).expanduser()
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(_EXPECTED, f"more than {_MOST_BYTES:,} bytes", path=path)
        prompts = TypeAdapter(dict[str, str]).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise DataError(_EXPECTED, error.strerror or str(error), path=path) from error
    except (UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        raise DataError(_EXPECTED, " ".join(str(error).split())[:200], path=path) from error
    for task, prompt in prompts.items():
        check_prompt(task, prompt, path)
    return prompts
