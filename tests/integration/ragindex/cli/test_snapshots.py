"""What the commands print, held in the files under snapshots/; UPDATE_SNAPSHOTS=1 writes them anew."""

import re
import sys
import warnings
from pathlib import Path

import pytest
from command_line import make_desk, ragindex, write
from snapshots import assert_matches, masked

from ragindex.cli import doctor
from ragindex.encoders.transformer_model import ENGINES
from ragindex.errors import LeftOutWarning

SNAPSHOTS = Path(__file__).with_name("snapshots")
INDEX = ("--index", "w")
COMMANDS = (
    *("methods", "read", "index", "search", "ask", "add", "remove", "export", "parts", "repair", "cache", "use"),
    *("serve", "mcp", "spending", "doctor", "new-plugin", "update"),
)


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


def check(name: str, *arguments: object) -> None:
    done = ragindex(*arguments)
    text = f"$ ragindex {' '.join(map(str, arguments))}\n{done.out}{done.err}exit code {done.code}\n"
    tables = ((r"\b\d+\.\d\b", "<n>"), (r"\d+\.\d ms", "<n> ms"))
    assert_matches(masked(text, (str(Path.cwd()), "<folder>"), *tables), SNAPSHOTS / f"{name}.txt")


def test_an_index_from_its_first_document_to_its_last() -> None:
    check("index", "index", "notes", *INDEX, "--methods", "bm25")
    check("index_again", "index", "notes", *INDEX, "--methods", "bm25")
    check("search", "search", "Which town is of slate?", *INDEX, "--method", "bm25", "--explain")
    check("search_unknown_key", "search", "slate", *INDEX, "--method", "bm25", "--filter", "sauce=x")
    check("search_not_built", "search", "slate", *INDEX, "--method", "dense")
    check("ask", "ask", "Which hill is highest?", *INDEX, "--method", "bm25")
    check("parts", "parts", *INDEX)
    check("cache", "cache", *INDEX)
    write(Path(), {"new/mill.txt": "A mill grinds."})
    check("add", "add", "new", "--as", "new", *INDEX)
    check("remove", "remove", "quill.txt", *INDEX)
    check("repair", "repair", *INDEX)


def test_what_is_read_of_files_and_what_is_not() -> None:
    page = "<h1>Tides</h1><p>High at noon</p><table><tr><td>Ely<td>7</table><div hidden>ebb</div>"
    cells = '{"cells": [{"cell_type": "markdown", "source": "Neap"}]}'
    files = {"a.html": page, "b.ipynb": cells, "sub/c.txt": "Low", "d.zip": "x", "e.png": "x", "empty.md": ""}
    write(Path("docs"), files)
    check("read", "read", "docs", "--exclude", "sub/*")
    check("read_show", "read", "docs", "--show", "a.html")
    check("read_show_unknown", "read", "docs", "--show", "a.htm")
    ragindex("index", "docs", *INDEX, "--methods", "bm25")
    write(Path("docs"), {"b.ipynb": "damaged", "sub/c.txt": ""})
    with warnings.catch_warnings():
        warnings.simplefilter("default", LeftOutWarning)  # printed, as outside of tests
        check("index_damaged", "index", "docs", *INDEX, "--methods", "bm25")
    check("doctor_index", "doctor", *INDEX)
    Path("docs/b.ipynb").unlink()
    assert "1 document removed (b.ipynb)" in ragindex("index", "docs", *INDEX, "--methods", "bm25").out
    assert "b.ipynb" not in ragindex("doctor", *INDEX).out


def test_methods_and_errors() -> None:
    check("methods_hybrid", "methods", "hybrid")
    check("methods", "methods")
    check("unknown_method", "methods", "hybird")
    check("no_index", "search", "slate", *INDEX)
    check("empty_question", "search", " ", *INDEX)


def test_doctor_without_optional_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("torch", *ENGINES, *(module for module, _ in doctor._EXTRAS.values())):
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    for variable in doctor._VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(doctor, "_find_third_party_plugins", lambda: ())  # other tests register some in this process
    check("doctor", "doctor")


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str) -> None:
    """The text of a command; the lists of its options differ between versions of typer."""
    text = re.split("\n\n╭─ (?:Arguments|Options) ", ragindex(command, "--help").out)[0].partition("[OPTIONS]")[2]
    assert_matches(masked(text).partition("\n")[2].lstrip("\n"), SNAPSHOTS / f"help_{command}.txt")
