"""Write docs/reference/plugin-interfaces.md from the docstrings: `python docs/make_interfaces.py`."""

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generated_pages import describe, list_parameters, table

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
    fields = list_parameters(value) if dataclasses.is_dataclass(value) else ""
    yield from (f"## `{value.__name__}{fields}`", "", describe(value), "")
    rows = [(f"`{name}`", text) for name, text in _methods(value)]
    if rows:
        yield from table(("", ""), rows)


def _methods(value: type) -> Iterator[tuple[str, str]]:
    """The names that a class has itself or from another interface, each with its text."""
    for name in dict.fromkeys(name for base in value.__mro__ if "ragindex" in base.__module__ for name in vars(base)):
        member = inspect.getattr_static(value, name)
        function: Any = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if inspect.isfunction(function) and (not name.startswith("_") or name in _IMPLEMENTED):
            yield (name if isinstance(member, property) else f"{name}{list_parameters(function)}", describe(function))


def _describe_contract() -> Iterator[str]:
    yield from ("## Contract", "", f"`ragindex.testing.check_scheme`: {describe(testing.check_scheme)}", "")
    checks = {name: check for name, check in vars(testing).items() if name.startswith("check_")}
    own = {name: check for name, check in checks.items() if check.__module__ == testing.__name__}
    yield from table(("check", ""), ((f"`{name}`", describe(own[name])) for name in own if name != "check_scheme"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
