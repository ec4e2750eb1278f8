"""Write docs/reference/plugin-interfaces.md from the docstrings: `python docs/make_interfaces.py`."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ragindex import interfaces, testing
from ragindex.llm.tasks import Task

PAGE = Path(__file__).parent / "reference" / "plugin-interfaces.md"
HEAD = """# Plugin interfaces

What methods, parts, encoders and stores implement and use, and the contract of methods. All names but `Task`
(`ragindex.llm.tasks`) are in `ragindex.interfaces`. Made from the docstrings by `python docs/make_interfaces.py`.
"""
CLASSES: tuple[type, ...] = (
    *(interfaces.Scheme, interfaces.OpenIndex, interfaces.Part, interfaces.Change),
    *(interfaces.BuildContext, interfaces.ReadContext, interfaces.Collection, interfaces.TextQuery),
    *(interfaces.VectorQuery, interfaces.FilterQuery, interfaces.Encoder, interfaces.Store, interfaces.LLM, Task),
)
_IMPLEMENTED = ("_open", "_parts")
"""Names with an underscore that a plugin defines."""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(line for value in CLASSES for line in _describe_class(value)), *_describe_contract()])


def _describe_class(value: type) -> Iterator[str]:
    fields = _parameters(value) if dataclasses.is_dataclass(value) else ""
    yield from (f"## `{value.__name__}{fields}`", "", _text(value), "")
    rows = [f"| `{name}` | {text} |" for name, text in _methods(value)]
    if rows:
        yield from ("| | |", "|---|---|", *rows, "")


def _methods(value: type) -> Iterator[tuple[str, str]]:
    """The names that a class has itself or from another interface, each with its text."""
    for name in dict.fromkeys(name for base in value.__mro__ if "ragindex" in base.__module__ for name in vars(base)):
        member = inspect.getattr_static(value, name)
        function: Any = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if inspect.isfunction(function) and (not name.startswith("_") or name in _IMPLEMENTED):
            yield (name if isinstance(member, property) else f"{name}{_parameters(function)}", _text(function))


def _parameters(function: Callable[..., Any]) -> str:
    """The names of parameters, with plain defaults."""
    signature = inspect.signature(function)
    shown = list[inspect.Parameter]()
    for parameter in signature.parameters.values():
        if parameter.name not in ("self", "cls"):
            plain = isinstance(parameter.default, str | int | float | None)
            default = parameter.default if plain else inspect.Parameter.empty
            shown.append(parameter.replace(annotation=inspect.Parameter.empty, default=default))
    return f"({', '.join(str(parameter) for parameter in shown)})"


def _text(value: Any) -> str:
    """The docstring on one line, as a cell of a table has it."""
    return " ".join((inspect.getdoc(value) or "").split()).replace("|", "\\|")


def _describe_contract() -> Iterator[str]:
    yield from ("## Contract", "", f"`ragindex.testing.check_scheme`: {_text(testing.check_scheme)}", "")
    yield from ("| check | |", "|---|---|")
    for name, function in vars(testing).items():
        if name.startswith("check_") and name != "check_scheme" and function.__module__ == testing.__name__:
            yield f"| `{name}` | {_text(function)} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
