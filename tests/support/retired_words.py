"""Retired words: names in code and phrases in texts that this project has replaced. `make lint` runs it.

A name counts where Python code binds it, found in the syntax tree: variables, parameters, attributes, functions,
classes, imports. A phrase counts in strings, docstrings and comments of Python code, and in Markdown.
`retired_words.toml` has the words with what to write instead, the exceptions with their reasons, and how many of them
a folder may still have. That number only falls: run with `--lower` after you have removed some.
"""

import ast
import fnmatch
import io
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import regex
import tomli_w
from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[2]
RULES = Path(__file__).with_suffix(".toml")


class WordException(BaseModel, frozen=True, extra="forbid"):
    """A word that may stay in the files whose path matches, and why."""

    word: str
    files: str
    reason: str

    def allows(self, occurrence: "Occurrence") -> bool:
        """Whether it names the word for this file."""
        return self.word == occurrence.word and fnmatch.fnmatch(occurrence.path, self.files)


class Rules(BaseModel, frozen=True, extra="forbid"):
    """The content of `retired_words.toml`; words map to what to write instead, `limits` folders to counts."""

    names: dict[str, str]
    phrases: dict[str, str]
    exceptions: list[WordException]
    limits: dict[str, dict[str, int]]


@dataclass(frozen=True)
class Occurrence:
    """A retired word (`kind`: "names" or "phrases") in a line of a file."""

    kind: str
    word: str
    path: str
    line: int

    @property
    def folder(self) -> str:
        """The folder of the repository that the file is in, "." for files in none."""
        return self.path.split("/")[0] if "/" in self.path else "."


def read_rules(path: Path = RULES) -> Rules:
    """The rules of a file."""
    return Rules.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))


def find_names(path: str, text: str, rules: Rules) -> Iterator[Occurrence]:
    """Each place of Python code that binds a retired name; underscores at its ends do not count."""
    for node in ast.walk(ast.parse(text)):
        word = (_bound_name(node) or "").strip("_")
        if word in rules.names:
            yield Occurrence("names", word, path, getattr(node, "lineno", 1))


def _bound_name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.arg(arg=name) | ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.alias(asname=name) | ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
            return name
    return None


def find_phrases(path: str, text: str, rules: Rules) -> Iterator[Occurrence]:
    """Each retired phrase in the texts of a file, however its words are divided into lines."""
    patterns = {phrase: _phrase_pattern(phrase) for phrase in rules.phrases if _phrase_pattern(phrase).search(text)}
    for start, passage in _python_texts(text) if patterns and path.endswith(".py") else [(1, text)]:
        for phrase, pattern in patterns.items():
            for match in pattern.finditer(passage):
                yield Occurrence("phrases", phrase, path, start + passage.count("\n", 0, match.start()))


@cache
def _phrase_pattern(phrase: str) -> regex.Pattern[str]:
    return regex.compile(r"\b(?:" + phrase.replace(" ", r"[\s#]+") + r")\b", regex.IGNORECASE)


def _python_texts(text: str) -> Iterator[tuple[int, str]]:
    """Strings and comments with the lines that they begin at; comments of neighbouring lines are one text."""
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    comments: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.append(token.string)
        elif token.type in kinds:
            yield token.start[0], token.string
        elif comments and token.type != tokenize.NL:
            yield token.start[0] - len(comments), "\n".join(comments)
            comments = []


def find_all(rules: Rules) -> list[Occurrence]:
    """The retired words of all files that git knows, exceptions among them."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.py", "*.md"], cwd=ROOT, capture_output=True, check=True)
    occurrences: list[Occurrence] = []
    for path in sorted(listed.stdout.decode().split("\0")):
        if path and (ROOT / path).is_file():
            text = (ROOT / path).read_text(encoding="utf-8")
            searches: list[Callable[[str, str, Rules], Iterator[Occurrence]]] = [find_phrases]
            searches += [find_names] if path.endswith(".py") else []
            occurrences += [match for search in searches for match in search(path, text, rules)]
    return occurrences


def remove_exceptions(occurrences: list[Occurrence], rules: Rules) -> list[Occurrence]:
    """Those that no exception allows. Raises ValueError for an exception that nothing needs."""
    for rule in rules.exceptions:
        if not any(rule.allows(match) for match in occurrences):
            raise ValueError(
                f"no file needs the exception for {rule.word} in {rule.files}: remove it from {RULES.name}."
            )
    return [match for match in occurrences if not any(rule.allows(match) for rule in rules.exceptions)]


def report_excess(occurrences: list[Occurrence], rules: Rules) -> list[str]:
    """Lines that say which folder has more retired words than it may, and where they are."""
    lines = []
    for (kind, folder), count in sorted(_count(occurrences).items()):
        limit = rules.limits.get(kind, {}).get(folder, 0)
        if count > limit:
            lines.append(
                f"{folder}: {count} retired {kind}, where {limit} are allowed (tests/support/retired_words.toml)"
            )
            for match in occurrences:
                if (match.kind, match.folder) == (kind, folder):
                    instead = getattr(rules, kind)[match.word]
                    lines.append(f"  {match.path}:{match.line}: {match.word}; write {instead}")
    return lines


def lower_limits(occurrences: list[Occurrence], rules: Rules) -> Rules:
    """The rules with each limit that is above the count at that count; none is raised."""
    counts = _count(occurrences)
    limits = {
        kind: {folder: min(limit, counts[kind, folder]) for folder, limit in folders.items() if counts[kind, folder]}
        for kind, folders in rules.limits.items()
    }
    return rules.model_copy(update={"limits": limits})


def _count(occurrences: list[Occurrence]) -> Counter[tuple[str, str]]:
    return Counter((match.kind, match.folder) for match in occurrences)


def main(arguments: list[str]) -> int:
    """Print what is above its limit and return 1, or return 0; `--lower` writes the limits that hold now."""
    rules = read_rules()
    try:
        occurrences = remove_exceptions(find_all(rules), rules)
    except ValueError as error:
        print(error)
        return 1
    if "--lower" in arguments:
        rules = lower_limits(occurrences, rules)
        RULES.write_text(tomli_w.dumps(rules.model_dump()), encoding="utf-8")
    lines = report_excess(occurrences, rules)
    print("\n".join(lines) if lines else f"Retired words: {len(occurrences)}, none above its limit.")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
