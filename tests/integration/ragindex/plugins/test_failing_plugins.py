"""Mistakes in a plugin, through every command: one line that names the class or the file to open, and no traceback."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import make_desk, ragindex
from installed_plugins import Installed, plugins_folder
from pydantic import SerializeAsAny

from ragindex.cli import main
from ragindex.index.parts import require_working
from ragindex.interfaces import Scheme
from ragindex_baselines.bm25 import BM25

MODULE = """
from typing import Any

from pydantic import Field
from ragindex.interfaces import Part, Scheme
from ragindex.parts.text.passages import Passages


class Working(Part[None]):
    version = 1
    def inputs(self): return (Passages(),)
    def apply(self, change, context): pass
    def open(self, context): ...

class Bare(Part[None]):
    def inputs(self): return (Passages(),)
    def apply(self, change, context): pass
    def open(self, context): ...

class FailsToApply(Working):
    def apply(self, change, context):
        for id in change.upsert:
            self.read(id, context)
    def read(self, id, context):
        (title,) = context.passages([id]).column("title").to_pylist()
        {"Grey Anna": 1, "Orla": 2, "Nether": 3, "quill": 4}[title]  # but not Sarn

class FailsOnMany(Working):
    def apply(self, change, context):
        if len(change.upsert) > 1:
            raise ZeroDivisionError("too many")

class FailsOtherwise(Working):
    def apply(self, change, context):
        if len(change.upsert) > 1:
            raise KeyError("many")
        raise IndexError("one")

APPLIED = []

class Asks(Working):
    uses = frozenset({"model"})
    def apply(self, change, context):
        APPLIED.append(len(change.upsert))
        raise KeyError("before it asks")

class OwnError(Exception): pass

class FailsInOwnWords(Working):
    def apply(self, change, context): raise OwnError("no quota")

class FailsToFinish(Working):
    def finish(self, context): raise ZeroDivisionError("division by zero")

class FailsToOpen(Working):
    def open(self, context): raise OSError("no such model")


class Base(Scheme):
    version = 1
    def _parts(self): return (Working(),)
    def _open(self, index): return Silent()

class Silent:
    def retrieve(self, queries, k): raise KeyError("answer")

class PartWithoutVersion(Base):
    def _parts(self): return (Bare(),)

class NoJson(Base):
    thing: Any = Field(default_factory=object, description="A thing.")

class OtherJson(Base):
    things: Any = Field(default_factory=lambda: {1}, description="Things.")

class Reexported(Base): pass

class Applying(Base):
    def _parts(self): return (FailsToApply(),)

class ApplyingMany(Base):
    def _parts(self): return (FailsOnMany(),)

class ApplyingOtherwise(Base):
    def _parts(self): return (FailsOtherwise(),)

class Asking(Base):
    def _parts(self): return (Asks(),)

class ApplyingOwn(Base):
    def _parts(self): return (FailsInOwnWords(),)

class AnsweringOwn(Base):
    def _open(self, index): return Own()

class Own:
    def retrieve(self, queries, k): raise OwnError("answer")

class Finishing(Base):
    def _parts(self): return (FailsToFinish(),)

class PartOpening(Base):
    def _parts(self): return (FailsToOpen(),)
    def _open(self, index): return index.open_part(FailsToOpen())

class Opening(Base):
    def _open(self, index): return index.no_such_name
"""

CLASSES = (
    *("PartWithoutVersion", "NoJson", "OtherJson", "Reexported", "Applying", "ApplyingMany", "Finishing"),
    *("PartOpening", "Opening", "Base", "ApplyingOtherwise", "Asking", "ApplyingOwn", "AnsweringOwn"),
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    with plugins_folder(tmp_path, monkeypatch) as folder:
        yield folder


@pytest.fixture
def module(installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the plugins, in a folder with documents and questions."""
    make_desk(tmp_path, monkeypatch)
    defined = {
        class_name: "another_names" if class_name == "Reexported" else "another_failing" for class_name in CLASSES
    }
    points = "".join(f"{class_name.lower()} = {place}:{class_name}\n" for class_name, place in defined.items())
    files = {"another_failing.py": MODULE, "another_names.py": "from another_failing import Reexported\n"}
    installed.distribution("another-failing", f"[ragindex.schemes]\n{points}", files)
    return installed.folder / "another_failing.py"


def run(*arguments: str) -> str:
    """The last line of a command that fails, without a traceback."""
    done = ragindex(*arguments)
    assert done.code != 0
    assert "Traceback" not in done.err
    return done.err.splitlines()[-1]


COMPARE = ("compare", "notes", "--questions", "questions.csv", "--index", "w", "--methods")
INDEX = ("index", "notes", "--index", "w", "--methods")
BEFORE = {  # found before anything is built: the message behind the class and its file
    "partwithoutversion": ("Bare", "has no version. Add: version: ClassVar[int] = 1"),
    "nojson": ("NoJson", "the parameter 'thing' must be JSON, and <object object at "),
    "otherjson": ("OtherJson", "the parameter 'things' is {1}, and from its JSON [1] it becomes another"),
    "reexported": (
        "Reexported",
        "the entry point 'reexported' names another_names:Reexported, which imports the class from elsewhere. "
        "Name the module that defines it: another_failing:Reexported",
    ),
}


def test_commands_name_what_a_class_lacks(module: Path) -> None:
    ragindex(*INDEX, "bm25")
    for name, (kind, message) in BEFORE.items():
        search = ("search", "slate", "--index", "w", "--method", name)
        for command in (("methods", name), (*INDEX, name), search, (*COMPARE, f"bm25,{name}")):
            assert run(*command).startswith(f"error: {kind} ({module}): {message}"), command


def line_of(module: Path, text: str) -> int:
    return 1 + next(number for number, line in enumerate(module.read_text().splitlines()) if text in line)


BATCH = "in a batch of 4 passages of the part another_failing"
BUILDING = {  # what is raised while a part is built, the line that raises it, and the function that it is in
    "applying": (
        f"KeyError: 'Sarn' {BATCH}:FailsToApply, first at the passage 'rivers/sarn.md#0'",
        '{"Grey Anna": 1',
        "read",
    ),
    "applyingmany": (f"ZeroDivisionError: too many {BATCH}:FailsOnMany, at no passage alone", "too many", "apply"),
    "applyingotherwise": (
        f"KeyError: 'many' {BATCH}:FailsOtherwise, first at the passage 'hill.md#0'",
        'KeyError("many")',
        "apply",
    ),
    "applyingown": (
        f"OwnError: no quota {BATCH}:FailsInOwnWords, first at the passage 'hill.md#0'",
        "no quota",
        "apply",
    ),
    "finishing": ("ZeroDivisionError: division by zero", "division by zero", "finish"),
}


def test_build_error_names_location(module: Path) -> None:
    for name, (message, raising, function) in BUILDING.items():
        place = f"({module}, line {line_of(module, raising)}, in {function})"
        output = run(*INDEX, name)
        assert output == (
            f"error: A plugin failed: {message} {place}. Fix it, or see the traceback with RAGINDEX_TRACEBACK=1."
        )
    output = run(*COMPARE, f"bm25,{name}")
    assert output == f"error: The method {name} is broken: {message} {place}. Fix or uninstall it, or leave it out."


def test_search_error_names_location(module: Path) -> None:
    raised = {
        "opening": ("AttributeError: 'Index' object has no attribute 'no_such_name'", "index.no_such_name", "_open"),
        "base": ("KeyError: 'answer'", 'KeyError("answer")', "retrieve"),
        "answeringown": ("OwnError: answer", 'OwnError("answer")', "retrieve"),
    }
    assert ragindex(*INDEX, ",".join(raised)).code == 0
    for name, (error, raising, function) in raised.items():
        place = f"({module}, line {line_of(module, raising)}, in {function})"
        for command in (("search", "slate"), ("ask", "What is made of slate?")):
            output = run(*command, "--index", "w", "--method", name)
            assert output.startswith(f"error: A plugin failed: {error} {place}. Fix it")
        output = run(*COMPARE, f"bm25,{name}")
        assert f"{name} failed on every question, and is not compared: {error} {place}." in output


def test_part_that_cannot_be_opened_names_location(module: Path) -> None:
    place = f"({module}, line {line_of(module, 'no such model')}, in open)"
    for command in ((*INDEX, "partopening"), ("search", "slate", "--index", "w", "--method", "partopening")):
        assert f"OSError: no such model {place}" in run(*command)


def test_traceback_is_shown_on_request(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_TRACEBACK", "1")
    monkeypatch.setattr("sys.argv", ["ragindex", *INDEX, "finishing"])
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        main.run_cli()


def test_part_that_asks_a_model_is_not_applied_again_to_name_a_passage(module: Path) -> None:
    """It could pay for answers that the batch had not come to."""
    assert f"KeyError: 'before it asks' {BATCH}:Asks (" in run(*INDEX, "asking")
    assert sys.modules["another_failing"].APPLIED == [4]


def test_mended_part_goes_on_after_failed_batch(module: Path, installed: Installed) -> None:
    """What passages that were tried alone have left behind does no harm."""
    run(*INDEX, "applying")
    module.write_text(MODULE.replace('"Orla": 2', '"Orla": 2, "Sarn": 0'))
    installed.reload("another_failing", "another_names")
    done = ragindex(*INDEX, "applying")
    assert done.code == 0, done.err
    assert "another_failing:FailsToApply" in done.out


class Around(BM25):
    """A method that no entry point names, around another one."""

    inner: SerializeAsAny[Scheme] | None = None


def test_method_of_program_may_hold_another() -> None:
    """Its parameters cannot be read back by name, and need not be to be used in the same program."""
    assert require_working(Around(inner=Around())) == Around(inner=Around())
