"""Write docs/reference/api.md from the docstrings: `python docs/make_api.py`. A test compares them."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ragindex

PAGE = Path(__file__).parent / "reference" / "api.md"
HEAD = """# API reference

Everything that `import ragindex` offers. Made from the docstrings by `python docs/make_api.py`.

"""


def page() -> str:
    """The whole page."""
    text = HEAD + "\n".join(line for name in ragindex.__all__ for line in _section(name, getattr(ragindex, name)))
    return re.sub(r"\n{3,}", "\n\n", text)


def _section(name: str, value: Any) -> Iterator[str]:
    yield from (f"## `ragindex.{name}{_parameters(value)}`", "", *_text(value))
    for method, function in vars(value).items() if inspect.isclass(value) else ():
        called = function.fget if isinstance(function, property) else function
        if inspect.isfunction(called) and not method.startswith("_"):
            written = method if isinstance(function, property) else f"{method}{_parameters(called)}"
            yield from (f"### `{name}.{written}`", "", *_text(called))


def _parameters(value: Any) -> str:
    """The parameters without their types, which the text explains."""
    if inspect.isclass(value) and (value is ragindex.Index or issubclass(value, Exception)):
        return ""
    parameters = inspect.signature(value).parameters.values()
    shown = [
        parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters if parameter.name != "self"
    ]
    listed = str(inspect.Signature([parameter.replace(default=_default(parameter.default)) for parameter in shown]))
    return listed.replace("Ellipsis", "...")


def _default(default: Any) -> Any:
    return default if default is inspect.Parameter.empty or isinstance(default, str | int | float | None) else ...


def _text(value: Any) -> Iterator[str]:
    """A docstring with its examples as code."""
    before, example, after = (inspect.getdoc(value) or "").partition("Example:\n")
    yield before.strip()
    if example:
        code = re.match(r"(?:(?: {4}.*)?\n?)*", after)
        assert code is not None  # noqa: S101  # it matches the empty text
        yield from ("", "```python", textwrap.dedent(code.group()).strip(), "```", "", after[code.end() :].strip())
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
