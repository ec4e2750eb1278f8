"""LLM tasks: a name, a prompt, an output type and, optionally, a rule that does the task without an LLM."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

import regex
from jinja2 import StrictUndefined, Template, TemplateSyntaxError, UndefinedError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel, RootModel

from ragindex._util.canonical import digest, encodable
from ragindex.errors import DataError, LLMError, UsageError
from ragindex.plugins import code_fingerprint

Output = TypeVar("Output", bound=BaseModel)
Role: TypeAlias = Literal["system", "user", "assistant"]
_ROLE = regex.compile(r"^\[(system|user|assistant)\][ \t]*$", regex.MULTILINE)
_templates = ImmutableSandboxedEnvironment(  # a prompt may come from a file of the user's
    undefined=StrictUndefined,
    autoescape=False,  # a prompt is not HTML, and its roles are split before it is rendered
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Failure:
    """An input of `LLM.map` without a usable answer, and the reason; `kind` and `set_aside` are those of `LLMError`."""

    task: str
    reason: str
    kind: str
    set_aside: bool = False


def require_output(outcome: Output | Failure) -> Output:
    """Return an output of `LLM.map`. Raises LLMError for a failure."""
    if isinstance(outcome, Failure):
        raise LLMError(outcome.reason, outcome.kind, set_aside=outcome.set_aside)
    return outcome


_names = set[str]()


def list_task_names() -> frozenset[str]:
    """Return the names of all tasks of the modules that are imported."""
    return frozenset(_names)


@dataclass(frozen=True)
class Task(Generic[Output]):
    """A task for an LLM.

    `prompt` is a template (see `render_messages`): its text, or the path of its file. `rule` does the task without
    an LLM. `read` parses plain text for servers without JSON output and raises ValueError; without it, the text must
    contain JSON. Raise `version` when the rule or `read` changes results; a changed prompt changes its `hash`.
    """

    name: str
    version: int
    prompt: Path | str
    output: type[Output]
    rule: Callable[[Mapping[str, Any]], Output] | None = None
    max_tokens: int = 1024
    read: Callable[[str], Output] | None = None

    def __post_init__(self) -> None:
        if not self.name or issubclass(self.output, RootModel) or self.max_tokens < 1:
            raise UsageError(
                "A task must have a name, an output type whose JSON is an object, and max_tokens of at least 1. "
                f"Got {self.name!r}, {self.output.__name__}, {self.max_tokens}."
            )
        _names.add(self.name)

    @property
    def hash(self) -> str:
        """Hash of the prompt's text, as 16 hexadecimal digits; part of cache keys and of `identity`."""
        return digest(_read_prompt(self.prompt))

    @property
    def identity(self) -> list[str | int]:
        """Parts of the task that results depend on: name, version, prompt hash, and hash of third-party code."""
        code = (self.output, self.rule, self.read)
        source = code_fingerprint.of(*(part for part in code if part is not None))
        return [self.name, self.version, self.hash, *([] if source is None else [source])]


# ---------------------------------------------------------------- answers that can wait

_can_wait: ContextVar[bool] = ContextVar("ragindex_can_wait", default=False)


@contextmanager
def answers_can_wait() -> Iterator[None]:
    """Let an LLM answer the inputs of `map` inside the block later, in batches, if its parameters say so.

    Building an index and judging wait. Calls for a question that someone waits for do not, nor does `LLM.run`.
    """
    token = _can_wait.set(True)
    try:
        yield
    finally:
        _can_wait.reset(token)


def may_wait() -> bool:
    """Return whether this code runs inside `answers_can_wait`."""
    return _can_wait.get()


# ---------------------------------------------------------------- inputs that are set aside

_retries_failed: ContextVar[bool] = ContextVar("ragindex_retries_failed", default=False)


@contextmanager
def retrying_failed(retry: bool = True) -> Iterator[None]:
    """Let an LLM ask again, inside the block, about inputs that are set aside (see `LLMError`), if `retry`."""
    token = _retries_failed.set(retry)
    try:
        yield
    finally:
        _retries_failed.reset(token)


def retries_failed() -> bool:
    """Return whether this code runs inside `retrying_failed`."""
    return _retries_failed.get()


# ---------------------------------------------------------------- prompts


def render_messages(task: Task[Any], inputs: Mapping[str, Any]) -> list[Message]:
    """Render the prompt of a task to the messages for one input.

    The prompt is a jinja2 template. Lines `[system]`, `[user]` and `[assistant]` begin a message; without such lines,
    the whole prompt is one user message. The prompt is split into one template per message before it is rendered, so
    no text of a document can begin another message. Raises UsageError if the inputs lack a name that the template
    uses, DataError if the template is invalid.
    """
    messages = []
    for role, template in _parse_prompt(task.prompt):
        try:
            content = template.render(inputs)
        except (UndefinedError, SecurityError) as error:
            raise UsageError(
                f"The prompt of {task.name} ({_name_prompt(task.prompt)}): {error.message}. "
                f"It was given {', '.join(inputs)}."
            ) from None
        messages.append(Message(role, encodable(content)))
    return messages


def check_prompt(task: str, prompt: str, path: Path) -> None:
    """Raise DataError if a prompt of a file is no template of messages."""
    try:
        _parse_prompt(prompt)
    except DataError as error:
        raise DataError(f"a prompt of {task}", str(error), path=path) from None


def _name_prompt(prompt: Path | str) -> str:
    return prompt.name if isinstance(prompt, Path) else repr(prompt[:60])


@cache
def _read_prompt(prompt: Path | str) -> str:
    if isinstance(prompt, str):
        return prompt
    try:
        return prompt.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("a prompt in UTF-8", str(error), path=prompt) from None


@cache
def _parse_prompt(prompt: Path | str) -> tuple[tuple[Role, Template], ...]:
    text = _read_prompt(prompt)
    path = prompt if isinstance(prompt, Path) else None
    before, *parts = _ROLE.split(text)
    if not parts:
        before, parts = "", ["user", text]
    if before.strip() or parts[-2] != "user":
        raise DataError("[system], [user] or [assistant] first and a [user] message last", repr(text[:60]), path=path)
    roles = cast("list[Role]", parts[::2])
    try:
        return tuple(
            (role, _templates.from_string(source.strip())) for role, source in zip(roles, parts[1::2], strict=True)
        )
    except TemplateSyntaxError as error:
        raise DataError("a jinja2 template", error.message or "something else", path=path) from None
