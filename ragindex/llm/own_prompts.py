"""Prompts of your own, as those that a paper prints: a YAML file with a template for each task that it names.

The file is named with a hash of its content, so that answers to other prompts are other answers.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from ragindex._util.canonical import digest
from ragindex.errors import DataError, UsageError
from ragindex.llm.tasks import check_prompt

_HASH_LENGTH = 12
_MOST_BYTES = 1_000_000
_EXPECTED = "a YAML file with prompts by the name of the task, as 'answer: |' and a template below it"


def resolve_prompts(written: str) -> str:
    """Return the path of a file of prompts with a hash of its content appended, so that it names this content alone.

    Raises DataError if the file cannot be read, and UsageError if `written` has a hash and the content has changed.
    """
    name, _, known = written.partition("#")
    actual = digest(_read_file(name))[:_HASH_LENGTH]
    if known and known != actual:
        raise UsageError(
            f"The prompts in {name} have changed: expected {known}, found {actual}. To use them as they are now, write "
            f"prompts={name}."
        )
    return f"{name}#{actual}"


@cache
def read_prompts(resolved: str) -> Mapping[str, str]:
    """Return the templates by the name of their task, from a file that `resolve_prompts` has named."""
    resolve_prompts(resolved)
    return _read_file(resolved.partition("#")[0])


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
