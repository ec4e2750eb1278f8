"""What scripts that make pages share: tables, blocks between markers, docstrings and signatures as text."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ragindex_eval.results.model import MethodResult
from ragindex_retrievers.gear.method import MEMORY


def put_block(path: Path, name: str, lines: Iterable[str]) -> str:
    """The text of a page with `lines` between its markers. Raises SystemExit if it has no markers."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, marker, rest = path.read_text(encoding="utf-8").partition(begin)
    if not marker or end not in rest:
        raise SystemExit(f"{path.name} needs the lines {begin} and {end}")
    block = "\n".join(lines).strip()
    return f"{before}{begin}\n\n{block}\n\n{end}{rest.partition(end)[2]}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; bars in cells are escaped, and there is an empty line after it."""
    yield f"| {' | '.join(heads)} |".replace("  ", " ")
    yield "|" + "---|" * len(heads)
    for row in rows:
        cells = [" ".join(cell.split()).replace("|", r"\|") for cell in row]
        yield f"| {' | '.join(cells)} |".replace("  ", " ")
    yield ""


def count_empty_memories(methods: Sequence[MethodResult]) -> dict[str, list[int]]:
    """For agents with a gist memory, for how many questions it is empty at the end, and of how many.

    A long trace is cut before its last step, so what was read into the memory counts too.
    """
    counts = {}
    for method in methods:
        memories = [[step for step in answer.trace if step.index in (MEMORY, "gist read")] for answer in method.final]
        memories = [steps for steps in memories if steps]
        if memories:
            counts[method.label] = [sum(not any(step.triples for step in steps) for steps in memories), len(memories)]
    return counts


def describe(value: Any) -> str:
    """The docstring of a class or function on one line."""
    return " ".join((inspect.getdoc(value) or "").split())


def list_parameters(function: Any) -> str:
    """The parameters without their types, which the text explains, and with plain defaults; others are `...`."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty, default=_plain_default(parameter.default))
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    return str(inspect.Signature(parameters)).replace("Ellipsis", "...")


def _plain_default(default: Any) -> Any:
    return default if default is inspect.Parameter.empty or isinstance(default, str | int | float | None) else ...
