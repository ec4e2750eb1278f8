"""The command line with strange texts, when it is stopped or killed, and on a terminal."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import NOTHING_SPENT, build, failed, make_desk, ragindex, write
from project import ROOT

from ragindex import estimate_left
from ragindex._util import progress
from ragindex_eval.cli import estimate, questions
from ragindex_eval.run import answers, estimate_comparison
from ragindex_eval.run.ask import Asking


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Never written to."""
    return build(tmp_path_factory.mktemp("built"))


ESCAPES = "\x1b[31mRed\x1b[0m \x1b]0;pwned\x07\x9b2J\x00 [bold]x[/] :warning: \\"


def controls(text: str) -> set[str]:
    return {letter for letter in text if ord(letter) < 32 or 127 <= ord(letter) < 160} - {"\n"}


def test_control_characters_reach_the_json_and_not_the_terminal() -> None:
    write(Path("odd"), {"a.md": f"# {ESCAPES}\n\nslate {ESCAPES}", "b\x1b[7m.txt": "slate"})
    write(Path(), {"q.csv": f"question,documents\nslate {ESCAPES},a.md\nslate,none\x1b[2J\n"})
    indexed = ragindex("index", "odd", "--index", "w", "--methods", "bm25")
    assert "b�[7m.txt" in indexed.err  # such an id could not be fetched, so the file is left out
    arguments = ("search", f"slate {ESCAPES}", "--index", "w", "--method", "bm25")
    done = ragindex(*(part.replace("\x00", "") for part in arguments), "--explain")
    shown = "�[31mRed�[0m �]0;pwned��2J� [bold]x[/] :warning: \\"
    assert f". {shown}  " in done.out
    assert f"\nslate {shown}\n" in done.out
    assert f"asked: slate {shown.replace('2J�', '2J')}\n" in done.out
    assert controls(done.out + indexed.err) == set()
    value = ragindex("search", "pwned", "--index", "w", "--method", "bm25", "--json", "-").json
    assert value["hits"][0]["title"] == ESCAPES.replace("\0", "\N{REPLACEMENT CHARACTER}")  # as CommonMark has it
    compared = ragindex("compare", "odd", "--questions", "q.csv", "--methods", "bm25", "--skip-bad")
    assert compared.code == 0
    assert controls(compared.out + compared.err) == set()
    assert controls(ragindex("search", "x", "--index", "w", "--method", "b\x1b[7m").err) == set()


def test_every_script_and_half_characters() -> None:
    words = ["slate", "кирпич", "πέτρα", "حجر", "אבן", "पत्थर", "石头", "돌", "หิน", "ქვა", "𐎠𐎼", "👩‍👩‍👧"]
    write(Path("odd"), {f"{number}.txt": f"{word} x{number}" for number, word in enumerate(words)})
    ragindex("index", "odd", "--index", "w", "--methods", "bm25")
    for number, word in enumerate(words):
        value = ragindex("search", f"{word} x{number}", "--index", "w", "--method", "bm25", "--json", "-").json
        assert value["hits"][0]["text"] == f"{word} x{number}"
    broken = ragindex("search", "slate \udcff", "--index", "w", "--method", "bm25", "--json", "-")
    assert (broken.json["question"], broken.json["hits"][0]["id"]) == ("slate \udcff", "0.txt#0")
    assert "slate �" in ragindex("search", "slate \udcff", "--index", "w", "--method", "bm25", "--explain").out


def test_questions_that_are_empty_long_or_meet_nothing(built: Path) -> None:
    assert failed(2, "search", " \n", "--index", built) == "The question is empty."
    assert ragindex("search", "zzzz", "--index", built).out == "No results with hybrid (encoder lsa).\n"
    done = ragindex("search", "slate " * 16_667, "--index", built, "--method", "bm25", "-k", 10**6, "--explain")
    assert [line.split()[1] for line in done.out.splitlines() if re.match(r"\d+\. ", line)] == ["quill", "Sarn"]
    assert len(done.out) < 1000
    hits = ragindex("search", "slate " * 16_667, "--index", built, "--json", "-").json["hits"]
    assert {"quill.txt#0", "rivers/sarn.md#0"} <= {hit["id"] for hit in hits}


def test_a_passage_of_one_character() -> None:
    write(Path("tiny"), {"m.txt": "m"})
    assert ragindex("index", "tiny", "--index", "w").code == 0
    assert ragindex("search", "m", "--index", "w", "--json", "-").json["hits"][0]["text"] == "m"


def test_a_corpus_in_another_language() -> None:
    german = "Der Fluss ist nicht lang und die Stadt liegt auf dem Berg, aber sie hat eine Brücke und ein Schloss. "
    write(Path("texte"), {f"{number}.txt": german for number in range(3)})
    done = ragindex("index", "texte", "--index", "w", "--methods", "bm25", "--json", "-")
    assert done.json["documents"] == 3
    same, warning = done.err.splitlines()
    assert same == "2 documents are almost equal to another: 1.txt ~ 0.txt, 2.txt ~ 0.txt"
    assert warning.startswith("warning: ")
    assert "german" in warning


def interrupted(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """Ctrl-C when the questions of the method `at` are about to be asked."""
    answer_all = answers.answer_all

    def stopping(retriever: Any, queries: Any, k: int, path: Path, asking: Asking, **more: Any) -> Any:
        if asking.label == at:
            signal.raise_signal(signal.SIGINT)
        return answer_all(retriever, queries, k, path, asking, **more)

    monkeypatch.setattr(answers, "answer_all", stopping)


def test_a_comparison_that_was_stopped_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25,hybrid", "--json", "-")
    with monkeypatch.context() as patched:
        interrupted(patched, "hybrid")
        stopped = ragindex(*arguments)
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err == "Stopped. Progress saved. Run the same command to resume.\n"
    contents = {path: path.read_bytes() for path in Path("ragindex-workspaces/notes/runs").rglob("*") if path.is_file()}
    assert {path.name for path in contents} == {"answers-20.jsonl"}
    figures = [
        [(method["label"], method["metrics"]) for method in ragindex(*arguments, *index).json["methods"]]
        for index in ((), ("--index", "other"))
    ]
    assert figures[0] == figures[1]
    assert all(path.read_bytes() == content for path, content in contents.items())


def stop_at_once(*arguments: object, **options: object) -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ((), "Stopped. An estimate keeps nothing, and has paid for nothing."),
        (("--sample", "1"), "Stopped. The answers of the sample are not kept: --index DIR keeps them."),
        (
            ("--sample", "1", "--index", "w"),
            "Stopped. The answers of the sample are kept. Run the same command to resume.",
        ),
    ],
)
def test_estimate_that_was_stopped_says_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any-word-will-do")
    monkeypatch.setattr(estimate, "approve", lambda *_: None)
    monkeypatch.setattr(estimate_comparison, "estimate_left", stop_at_once)
    stopped = ragindex("estimate", "notes", "--methods", "raptor", "--llm", "openai:small", *flags)
    assert (stopped.code, stopped.err) == (130, f"{sentence}\n")


def test_command_that_is_stopped_during_its_estimate_has_done_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any-word-will-do")
    monkeypatch.setattr(estimate_left, "estimate", stop_at_once)
    stopped = ragindex("index", "notes", "--index", "w", "--methods", "raptor", "--llm", "openai:small")
    assert (stopped.code, stopped.err) == (130, "Stopped while costs were estimated. Nothing was done.\n")
    assert not Path("w").exists()


def test_commands_without_progress_claim_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "make_drafts", stop_at_once)
    stopped = ragindex("questions", "notes", "--out", "drafts.csv")
    assert (stopped.code, stopped.err, Path("drafts.csv").exists()) == (130, "Stopped.\n", False)


_STOPPED_WHILE_IMPORTING = """
import signal, sys

class Hook:
    def find_spec(self, name, *rest):
        if name == "pydantic":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Hook())
from {module} import {function}
{function}()
"""


def test_ctrl_c_while_it_is_still_importing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = project["scripts"]["ragindex"].partition(":")
    program = _STOPPED_WHILE_IMPORTING.format(module=module, function=function)
    done = subprocess.run([sys.executable, "-c", program, "methods"], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"Stopped.\n")


_STOPPED = """
import signal, sys
from ragindex.accounting import ledger
from ragindex.cli.console import handle_interrupts, json_destination, run_with_exit_codes

def start():
    handle_interrupts()
    json_destination("told.json")
    ledger.record_call(ledger.CallRecord("echo", "small", input_tokens=7, money=0.5), 0.0)
    try:
        signal.raise_signal(int(sys.argv[1]))
    finally:  # while the first is being handled
        for number in sys.argv[2:]:
            signal.raise_signal(int(number))

run_with_exit_codes(start)
"""


@pytest.mark.parametrize(
    ("signals", "code", "message"),
    [
        ((signal.SIGTERM,), 143, "Stopped. Progress saved. Run the same command to resume."),
        ((signal.SIGINT, signal.SIGINT), 130, "Stopped at once. Run the same command to resume."),
        ((signal.SIGINT, signal.SIGTERM), 143, "Stopped at once. Run the same command to resume."),
    ],
)
def test_signals_print_what_was_spent(signals: tuple[int, ...], code: int, message: str) -> None:
    arguments = [str(int(number)) for number in signals]
    done = subprocess.run([sys.executable, "-c", _STOPPED, *arguments], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.decode() == f"Spent: 7 tokens, $0.500000.\n{message}\n"
    spent = NOTHING_SPENT | {"input_tokens": 7, "money": 0.5}
    assert json.loads(Path("told.json").read_text()) == {"error": message, "exit_code": code, "spent": spent}


@pytest.fixture
def terminal() -> Iterator[tuple[io.TextIOWrapper, Callable[[], str]]]:
    """A terminal to write to, and what stood on it in the end."""
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    writing = os.fdopen(slave, "w", encoding="utf-8")

    def shown() -> str:
        writing.flush()
        os.set_blocking(master, False)
        try:
            return os.read(master, 1_000_000).decode("utf-8")
        except BlockingIOError:
            return ""

    yield writing, shown
    writing.close()
    os.close(master)


class TimerThatIsOver(threading.Timer):
    """A timer that calls its function when it is started."""

    def start(self) -> None:
        self.function()

    def join(self, timeout: float | None = None) -> None:
        pass


def test_bars_on_a_terminal_for_what_takes_long(
    terminal: tuple[io.TextIOWrapper, Callable[[], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """None for what is quick, or goes to a file."""
    writing, shown = terminal
    index = ("index", "notes", "--methods", "bm25", "--json", "-", "--index")
    monkeypatch.setattr(progress, "_PATIENCE", 3600.0)
    assert ragindex(*index, "v", stderr=writing).code == 0
    assert shown() == ""
    monkeypatch.setattr(threading, "Timer", TimerThatIsOver)  # a thread may begin after the end of what is quick
    assert ragindex(*index, "w", stderr=writing).code == 0
    text = shown()
    assert "passages: indexing" in text
    assert "4/4" in text
    assert ragindex(*index, "u").err == ""
