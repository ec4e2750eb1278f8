"""The patterns of all packages, in variables and as texts: on texts of strangers, their time grows with the text.

The growth is judged at 10 kB and 100 kB in CPU time. A linear pattern takes up to ten times as long, a quadratic one a
hundred times; what is fast at 10 kB cannot cost much at 100 kB, and is not measured there.
"""

import ast
import importlib
import re
import string
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import regex

AnyPattern: TypeAlias = "re.Pattern[Any] | regex.Pattern[Any]"
PACKAGES = ("ragindex", "ragindex_baselines", "ragindex_eval", "ragindex_retrievers")
LIMITED = "ragindex.corpus.readers."  # each file is read in a process with limits of time and memory
BOUNDED = {"ragindex.english.sentences._LAST_WORD[0]"}  # searches in 20 characters
REPEATED = (
    *("a", "1", " ", "\n", "-", "漢", "=", "(", "<", "*", "a ", "a.", "A-", "Aa", "Aa ", "Aa-a and ", "{", "?a-"),
    *("1,", "a:", "[a](", "<!--", "\n<script>", "a://", "x://u:p/", "&key=", "\\"),
)
END = f" {string.punctuation} "  # what a pattern may look for, so that it cannot give up at once
FAST, SLOW = 0.06, 1.0  # seconds at 10 kB, at 100 kB
APPLIED = "(match|fullmatch|search|sub|finditer|findall|split)"
WHOLE = {"match", "fullmatch"}  # how patterns are applied to the beginning of a text only
Pattern = (re.Pattern, regex.Pattern)
MODULES = {"re": re, "regex": regex}


def list_patterns(value: object) -> Iterator[AnyPattern]:
    """Yield the patterns in a value of a module."""
    if isinstance(value, Pattern):
        yield value
    elif isinstance(value, tuple | list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from list_patterns(item)


def list_sources() -> Iterator[tuple[str, str]]:
    """Yield the name and the source of each module."""
    for package in PACKAGES:
        root = Path(str(importlib.import_module(package).__file__)).parent
        for file in sorted(root.rglob("*.py")):
            name = ".".join((package, *file.relative_to(root).with_suffix("").parts))
            if not name.startswith(LIMITED):
                yield name, file.read_text()


def collect_patterns() -> dict[str, tuple[AnyPattern, bool]]:
    """Return the compiled patterns of all modules by place, and whether they are only matched from a text's start."""
    collected = dict[str, tuple[AnyPattern, bool]]()
    for name, source in list_sources():
        if ".compile(" not in source:
            continue
        module = importlib.import_module(name.removesuffix(".__init__"))
        for variable, value in vars(module).items():
            applied = set(re.findall(rf"\b{variable}\.{APPLIED}\b|\.{APPLIED}\({variable}\)", source))
            methods = {function or other for function, other in applied}
            for number, pattern in enumerate(list_patterns(value)):
                collected[f"{name}.{variable}[{number}]"] = (pattern, bool(methods) and methods <= WHOLE)
    return collected


def collect_texts() -> dict[str, tuple[AnyPattern, bool]]:
    """Return the patterns that stand as texts where they are applied, by place, as `collect_patterns` does."""
    collected = dict[str, tuple[AnyPattern, bool]]()
    for name, source in list_sources():
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in MODULES
                and node.func.attr != "compile"  # in a variable
                and isinstance(node.args[0], ast.Constant)
            ):
                compiled = MODULES[node.func.value.id].compile(node.args[0].value)
                collected[f"{name}:{node.lineno}"] = (compiled, node.func.attr in WHOLE)
    return collected


def measure(pattern: AnyPattern, full_match: bool, repeated: str, size: int) -> float:
    """Return the CPU seconds that a pattern takes for a text."""
    text: Any = repeated * (size // len(repeated)) + END
    if isinstance(pattern.pattern, bytes):
        text = text.encode()
    stop: dict[str, Any] = {} if isinstance(pattern, re.Pattern) else {"timeout": 10}
    start = time.process_time()
    try:
        if full_match:
            pattern.match(text, **stop)
            pattern.fullmatch(text, **stop)
        else:
            for _ in pattern.finditer(text, **stop):
                pass
    except TimeoutError:
        return float("inf")
    return time.process_time() - start


def grows_too_fast(pattern: AnyPattern, full_match: bool, repeated: str) -> bool:
    short = measure(pattern, full_match, repeated, 10_000)
    if short <= FAST:
        return False
    long = measure(pattern, full_match, repeated, 100_000) if short < SLOW else float("inf")
    return long > SLOW and long > 30 * short


def test_time_of_each_pattern_grows_with_the_text() -> None:
    in_variables, in_texts = collect_patterns(), collect_texts()
    assert (len(in_variables) > 100, len(in_texts) > 20) == (True, True)
    patterns = in_variables | in_texts
    slow = [
        f"{place}, {repeated!r}: {pattern.pattern!r}"
        for place, (pattern, full_match) in patterns.items()
        for repeated in REPEATED
        if place not in BOUNDED and grows_too_fast(pattern, full_match, repeated)
    ]
    assert slow == []
