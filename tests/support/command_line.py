"""The command line run in this process, from argument list to exit code, and a folder to run it in."""

import io
import json
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from unrecorded import record_nothing

from ragindex._util.durable_files import RepairWarning
from ragindex.cli import main
from ragindex.errors import LanguageWarning, StaleWarning

TEXTS = {
    "hill.md": "# Grey Anna\n\nGrey Anna is the highest hill of the north.",
    "rivers/sarn.md": "# Sarn\n\nThe Sarn is a river that carries barges with slate.",
    "rivers/orla.md": "# Orla\n\nThe Orla is a short river with eleven gorges.",
    "quill.txt": "Nether Quill is a town made of slate.",
}
NOTHING_SPENT = {
    "input_tokens": 0,
    "output_tokens": 0,
    "estimated": False,
    "money": 0.0,
    "possibly_charged": 0.0,
    "retries": 0,
}
"""What the JSON of a command says of what it spent, where that is nothing."""
QUESTIONS = "question,answer,documents\nWhich hill is highest?,Grey Anna,hill.md\nSlate?,,rivers/sarn.md;quill.txt\n"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def ragindex(*arguments: object, stderr: io.TextIOWrapper | None = None) -> Done:
    """The command, run in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2))
    with (
        patch.object(sys, "argv", ["ragindex", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(stderr or err),
        warnings.catch_warnings(),
        pytest.raises(SystemExit) as stopped,
    ):
        warnings.simplefilter("always", LanguageWarning)
        warnings.simplefilter("always", RepairWarning)
        warnings.simplefilter("always", StaleWarning)
        main.run_cli()
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
    return Done(int(stopped.value.code or 0), *texts)


def failed(code: int, *arguments: object) -> str:
    """The one sentence of a command that fails with `code`, its output otherwise empty but for an estimate."""
    done = ragindex(*arguments)
    assert (done.code, done.out) == (code, ""), done
    output = without_estimate(done.err)
    assert output.startswith("error: "), output
    assert output.count("\n") == 1, output
    return output.removeprefix("error: ").rstrip("\n")


def without_estimate(err: str) -> str:
    """What a command says on standard error beside the estimate that it begins with, if it pays."""
    if not err.startswith("task "):
        return err
    lines = err.splitlines(keepends=True)
    ends = ("Estimate: ", "No price is known for ", "Price: ", "The model's tokenizer is not ", "assumed: ")
    last = max(number for number, line in enumerate(lines) if line.startswith(ends))
    return "".join(lines[last + 1 :])


def write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def make_desk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with documents and questions; comparisons are not recorded, which test_tracking covers."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("OPENAI_API_KEY", "EMBEDDING_API_KEY", "OPENAI_BASE_URL", "EMBEDDING_BASE_URL", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    record_nothing(monkeypatch)
    write(folder / "notes", TEXTS)
    write(folder, {"questions.csv": QUESTIONS, "questions.txt": "Which hill is highest?\nWhat is slate?\n"})
    return folder


def build(folder: Path) -> Path:
    """A workspace with the notes, built for hybrid."""
    write(folder / "notes", TEXTS)
    assert ragindex("index", folder / "notes", "--index", folder / "w").code == 0
    return folder / "w"
