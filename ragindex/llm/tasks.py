"""LLM tasks: a name, a prompt, an output type and, optionally, a rule that does the task without an LLM."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

import regex
from jinja2 import Environment, StrictUndefined, Template, TemplateSyntaxError, UndefinedError
from pydantic import BaseModel, RootModel

from ragindex.canonical import digest, encodable
from ragindex.errors import DataError, UsageError
from ragindex.plugins import code_fingerprint

Output = TypeVar("Output", bound=BaseModel)
Role: TypeAlias = Literal["system", "user", "assistant"]
_ROLE = regex.compile(r"^\[(system|user|assistant)\][ \t]*$", regex.MULTILINE)
_templates = Environment(
    undefined=StrictUndefined,
    autoescape=False,  # noqa: S701  # a prompt is no web page, and its roles are split before anything is filled in
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
    """An input of `LLM.map` that got no usable answer, with the reason; `kind` as `LLMError` has it."""

    task: str
    reason: str
    kind: str


@dataclass(frozen=True)
class Task(Generic[Output]):
    """A task for an LLM.

    `prompt` is a template file beside the code that owns the task (see `render_messages`). `rule` does the task without
    an LLM. `read` parses plain text for servers without JSON output and raises ValueError; without it, the text must
    contain JSON. Raise `version` when the rule or `read` changes results; a changed prompt changes its `hash`.
    """

    name: str
    version: int
    prompt: Path
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

    @property
    def hash(self) -> str:
        """16 hexadecimal digits of the prompt's text: part of every cache key and of what is made with the task."""
        return digest(_text(self.prompt))

    @property
    def identity(self) -> list[str | int]:
        """What of a task a result depends on: name, version, prompt, and its code where that is not ours."""
        code = (one for one in (self.output, self.rule, self.read) if one is not None)
        source = code_fingerprint.of(*code)
        return [self.name, self.version, self.hash, *([] if source is None else [source])]


class LLM(Protocol):
    """Runs tasks: a language model or the rules. Thread-safe."""

    @property
    def id(self) -> str:
        """Names what answers depend on (model, address, parameters); part of the identity of what is made with it."""
        ...

    def run(self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0, again: bool = False) -> Output:
        """The answer to one input. Raises LLMError where there is none for this input.

        `repeat` tells apart answers to equal inputs. With `again`, cached unusable answers are
        requested again. Raises BudgetError, ServiceError, StoreError and UsageError if every other input would fail
        too.
        """
        ...

    def map(
        self,
        task: Task[Output],
        many: Iterable[Mapping[str, Any]],
        *,
        repeat: int = 0,
        again: bool = False,
        progress: Callable[[int], None] = ...,
    ) -> "list[Output | Failure]":
        """`run` for each input, concurrently, in input order; `progress` receives how many are newly done."""
        ...


def render_messages(task: Task[Any], inputs: Mapping[str, Any]) -> list[Message]:
    """The messages of one input.

    The prompt is a jinja2 template. Lines `[system]`, `[user]` and `[assistant]` begin a message; without any, all is
    one user message. Each message is a template of its own, split before anything is filled in: no text of a document
    can begin another message. Raises UsageError for a name that the inputs lack, DataError for a broken template.
    """
    messages = []
    for role, template in _messages(task.prompt):
        try:
            content = template.render(inputs)
        except UndefinedError as error:
            raise UsageError(
                f"The prompt of {task.name} ({task.prompt.name}): {error.message}. It was given {', '.join(inputs)}."
            ) from None
        messages.append(Message(role, encodable(content)))
    return messages


@cache
def _text(prompt: Path) -> str:
    try:
        return prompt.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("a prompt in UTF-8", str(error), path=prompt) from None


@cache
def _messages(prompt: Path) -> tuple[tuple[Role, Template], ...]:
    text = _text(prompt)
    before, *parts = _ROLE.split(text)
    if not parts:
        before, parts = "", ["user", text]
    if before.strip() or parts[-2] != "user":
        raise DataError("[system], [user] or [assistant] first and a [user] message last", repr(text[:60]), path=prompt)
    roles = cast("list[Role]", parts[::2])
    try:
        return tuple(
            (role, _templates.from_string(source.strip())) for role, source in zip(roles, parts[1::2], strict=True)
        )
    except TemplateSyntaxError as error:
        raise DataError("a jinja2 template", error.message or "something else", path=prompt) from None
