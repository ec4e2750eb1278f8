"""Examples of the README and of the docs: Python blocks as they stand, `ragindex` lines as commands."""

import re
import runpy
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import write
from empty_tracker import make_tracker
from project import ROOT
from typer.testing import CliRunner

from ragindex import mlflow_tracing
from ragindex.cli import main
from ragindex.llm.prices import load_prices
from ragindex.plugins import registry
from ragindex.plugins.specs import parse_many

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_SLOW_COMMANDS = {"compare", "demo", "gate", "judge", "recommend", "tune"}
_SLOW_PAGES = {  # their programs compare methods, or import what is large
    *("compare-encoders-and-seeds.md", "compare-your-own-retriever.md", "track-with-mlflow.md"),
    *("use-in-dspy.md", "use-in-haystack.md", "use-in-langchain.md", "use-in-llamaindex.md"),
}
ELSEWHERE = {  # tests of their own run them
    *("api.md", "write-a-method-that-asks-a-model.md", "writing-a-retriever.md"),
    *("judge-in-the-browser.md", "serve-over-http.md", "serve-the-winner.md", "update-over-http.md", "upgrading.md"),
}
_INSTALLS = ("make ", "pip install ")  # run by hand, and by the tests of the plugin page
_TEXTS = {
    "my-documents/lindau.md": "# Lindau\nThe lighthouse of Lindau was built in 1856. It stands at the harbour.",
    "my-documents/bread.md": "# Bread\nRye bread keeps for a week. Wheat bread does not.",
    "my-documents/notes/old.md": "# Old notes\nAda Miller painted the harbour of Lindau.",
    "my-documents/garden.txt": "A kitchen garden wants compost, sun and patience.",
    "new-documents/ferry.md": "# Ferry\nThe ferry from Lindau to Bregenz takes twenty minutes.",
    "questions.csv": "question,answer,documents\nWhen was the lighthouse built?,1856,lindau.md\n"
    "Who painted the harbour with the lighthouse?,Ada Miller,notes/old.md;Lindau\n",
    "questions.txt": "What does a garden want?\nHow long does bread keep?\n",
}


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    matches = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [(language, code) for language, code in matches if language in languages]


def runnable_pages(*, slow: bool) -> list[Path]:
    """The pages with examples that run here; slow are those that compare methods."""
    return [
        page
        for page in PAGES
        if page.name not in ELSEWHERE and blocks(page, "python", "bash", "yaml") and _is_slow(page) is slow
    ]


def _is_slow(page: Path) -> bool:
    words = [words for _, code in blocks(page, "bash") for words in commands(code)]
    return page.name in _SLOW_PAGES or any(name in _SLOW_COMMANDS for name, *_ in words)


def commands(code: str) -> list[list[str]]:
    """The words of each `ragindex` line of a block, without `ragindex`; there are no other lines but installations."""
    lines = [line for line in code.splitlines() if line and not line.startswith(_INSTALLS)]
    assert [line for line in lines if not line.startswith("ragindex ")] == []
    return [shlex.split(line, comments=True)[1:] for line in lines]


def parse_command(words: list[str]) -> None:
    """Fail if there is no such command, option, method or parameter of a method."""
    group: Any = typer.main.get_command(main.app)
    context = group.make_context("ragindex", words, resilient_parsing=True)
    name, command, arguments = group.resolve_command(context, words)
    with command.make_context(name, arguments) as parsed:
        named = [parsed.params.get("methods"), parsed.params.get("method")]
    if name == "audit":  # its method is a row of a published table
        return
    for text in chain(*([value] if isinstance(value, str) else value for value in named if value)):
        for spec in parse_many(text) if text != "all" else ():
            assert spec.params.keys() <= registry.load_plugin("schemes", spec.name).model_fields.keys(), spec


@contextmanager
def docs_desk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with the files that the docs speak of."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", make_tracker(folder))
    write(folder, _TEXTS)
    yield folder
    mlflow_tracing.autolog(disable=True)


def run_page(page: Path, desk: Path) -> None:
    for language, code in blocks(page, "python", "bash", "yaml"):
        if language == "python":
            (desk / "example.py").write_text(code, encoding="utf-8")
            runpy.run_path(str(desk / "example.py"))
        elif language == "yaml" and code.startswith("models:"):
            (desk / "prices.yaml").write_text(code)
            assert load_prices(desk / "prices.yaml").models
        elif language == "yaml":
            (desk / "config.yaml").write_text(code)
            named = [] if "corpora:" in code else ["my-documents/", "--questions", "questions.csv"]
            _run(["compare", *named, "--config", "config.yaml", "--index", "w", "--out", "o"])
        else:
            for words in commands(code):
                _run(words)


def _run(words: list[str]) -> None:
    done = CliRunner().invoke(main.app, words)
    assert done.exit_code == 0, f"{words}\n{done.output}\n{done.exception!r}"
