"""Mistakes in a plugin, through every command: one line that names the class or the file to open, and no traceback."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import make_desk, ragindex
from installed_plugins import Installed, plugins_folder
from pydantic import SerializeAsAny

from ragindex.cli import main
from ragindex.interfaces import Scheme
from ragindex.workspace.part_keys import require_working
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
    def parts(self): return (Working(),)
    def open(self, index): return Silent()

class Silent:
    def retrieve(self, queries, k): raise KeyError("answer")

class PartWithoutVersion(Base):
    def parts(self): return (Bare(),)

class NoJson(Base):
    thing: Any = Field(default_factory=object, description="A thing.")

class OtherJson(Base):
    things: Any = Field(default_factory=lambda: {1}, description="Things.")

class Reexported(Base): pass

class Applying(Base):
    def parts(self): return (FailsToApply(),)

class ApplyingMany(Base):
    def parts(self): return (FailsOnMany(),)

class ApplyingOtherwise(Base):
    def parts(self): return (FailsOtherwise(),)

class Asking(Base):
    def parts(self): return (Asks(),)

class ApplyingOwn(Base):
    def parts(self): return (FailsInOwnWords(),)

class AnsweringOwn(Base):
    def open(self, index): return Own()

class Own:
    def retrieve(self, queries, k): raise OwnError("answer")

class Finishing(Base):
    def parts(self): return (FailsToFinish(),)

class PartOpening(Base):
    def parts(self): return (FailsToOpen(),)
    def open(self, index): return index.open_part(FailsToOpen())

class Opening(Base):
    def open(self, index): return index.no_such_name
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
    defined = {one: "another_names" if one == "Reexported" else "another_failing" for one in CLASSES}
    points = "".join(f"{one.lower()} = {place}:{one}\n" for one, place in defined.items())
    files = {"another_failing.py": MODULE, "another_names.py": "from another_failing import Reexported\n"}
    installed.distribution("another-failing", f"[ragindex.schemes]\n{points}", files)
    return installed.folder / "another_failing.py"


def run(*arguments: str) -> str:
    """The last line of a command that fails, without a traceback."""
    done = ragindex(*arguments)
    assert done.code != 0
    assert "Traceback" not in done.err
    return done.err.splitlines()[-1]


BEFORE = {  # found before anything is built: what is said behind the class and its file
    "partwithoutversion": ("Bare", "has no version. Add: version: ClassVar[int] = 1"),
    "nojson": ("NoJson", "the parameter 'thing' must be JSON, and <object object at "),
    "otherjson": ("OtherJson", "the parameter 'things' is {1}, and from its JSON [1] it becomes another"),
    "reexported": (
        "Reexported",
        "the entry point 'reexported' names another_names:Reexported, which imports the class from elsewhere. "
        "Name the module that defines it: another_failing:Reexported",
    ),
}


@pytest.mark.parametrize("name", BEFORE)
def test_what_a_class_lacks_is_said_by_every_command(name: str, module: Path) -> None:
    kind, said = BEFORE[name]
    ragindex("index", "notes", "--index", "w", "--methods", "bm25")
    commands = (
        ("methods", name),
        ("index", "notes", "--index", "w", "--methods", name),
        ("search", "slate", "--index", "w", "--method", name),
        ("compare", "notes", "--questions", "questions.csv", "--methods", f"bm25,{name}", "--index", "w"),
    )
    for command in commands:
        assert run(*command).startswith(f"error: {kind} ({module}): {said}"), command


BATCH = "in a batch of 4 passages of the part another_failing"
BUILDING = {  # what is raised while a part is built, and the function that it comes from
    "applying": (f"KeyError: 'Sarn' {BATCH}:FailsToApply, first at the passage 'rivers/sarn.md#0'", "read"),
    "applyingmany": (f"ZeroDivisionError: too many {BATCH}:FailsOnMany, at no passage alone", "apply"),
    "applyingotherwise": (f"KeyError: 'many' {BATCH}:FailsOtherwise, first at the passage 'hill.md#0'", "apply"),
    "applyingown": (f"OwnError: no quota {BATCH}:FailsInOwnWords, first at the passage 'hill.md#0'", "apply"),
    "finishing": ("ZeroDivisionError: division by zero", "finish"),
}


def line_of(module: Path, text: str) -> int:
    return 1 + next(number for number, line in enumerate(module.read_text().splitlines()) if text in line)


RAISING = {
    "applying": '{"Grey Anna": 1',
    "applyingmany": "too many",
    "applyingotherwise": 'KeyError("many")',
    "applyingown": "no quota",
    "finishing": "division by zero",
}


@pytest.mark.parametrize("name", BUILDING)
def test_what_is_raised_while_building_names_the_line_the_batch_and_the_passage(name: str, module: Path) -> None:
    said, function = BUILDING[name]
    place = f"({module}, line {line_of(module, RAISING[name])}, in {function})"
    told = run("index", "notes", "--index", "w", "--methods", name)
    assert told == f"error: A plugin failed: {said} {place}. Fix it, or see the traceback with RAGINDEX_TRACEBACK=1."
    told = run("compare", "notes", "--questions", "questions.csv", "--methods", f"bm25,{name}", "--index", "w")
    assert told == f"error: The method {name} is broken: {said} {place}. Fix or uninstall it, or leave it out."


@pytest.mark.parametrize(
    ("name", "said", "function"),
    [
        ("opening", "AttributeError: 'Workspace' object has no attribute 'no_such_name'", "open"),
        ("base", "KeyError: 'answer'", "retrieve"),
        ("answeringown", "OwnError: answer", "retrieve"),
    ],
)
def test_what_is_raised_while_answering_names_the_line(name: str, said: str, function: str, module: Path) -> None:
    texts = {"opening": "index.no_such_name", "base": 'KeyError("answer")', "answeringown": 'OwnError("answer")'}
    text = texts[name]
    place = f"({module}, line {line_of(module, text)}, in {function})"
    assert ragindex("index", "notes", "--index", "w", "--methods", name).code == 0
    for command in (("search", "slate"), ("ask", "What is made of slate?")):
        told = run(*command, "--index", "w", "--method", name)
        assert told.startswith(f"error: A plugin failed: {said} {place}. Fix it")
    told = run("compare", "notes", "--questions", "questions.csv", "--methods", f"bm25,{name}", "--index", "w")
    assert f"{name} failed on every question, and is not compared: {said} {place}." in told


def test_a_part_that_cannot_be_opened_names_the_line(module: Path) -> None:
    place = f"({module}, line {line_of(module, 'no such model')}, in open)"
    for command in (
        ("index", "notes", "--index", "w", "--methods", "partopening"),
        ("search", "slate", "--index", "w", "--method", "partopening"),
    ):
        assert f"OSError: no such model {place}" in run(*command)


def test_the_traceback_is_shown_on_request(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        monkeypatch.setattr("sys.argv", ["ragindex", "index", "notes", "--index", "w", "--methods", "finishing"])
        main.run_cli()


def test_a_part_that_asks_a_model_is_not_applied_again_to_name_a_passage(module: Path) -> None:
    """It could pay for answers that the batch had not come to."""
    told = run("index", "notes", "--index", "w", "--methods", "asking")
    assert f"KeyError: 'before it asks' {BATCH}:Asks (" in told
    assert sys.modules["another_failing"].APPLIED == [4]


def test_after_a_failed_batch_the_mended_part_goes_on(module: Path, installed: Installed) -> None:
    """What passages that were tried alone have left behind does no harm."""
    run("index", "notes", "--index", "w", "--methods", "applying")
    module.write_text(MODULE.replace('"Orla": 2', '"Orla": 2, "Sarn": 0'))
    installed.reload("another_failing", "another_names")
    done = ragindex("index", "notes", "--index", "w", "--methods", "applying")
    assert done.code == 0, done.err
    assert "another_failing:FailsToApply" in done.out


class Around(BM25):
    """A method that no entry point names, around another one."""

    inner: SerializeAsAny[Scheme] | None = None


def test_a_method_of_a_program_may_hold_another_one() -> None:
    """Its parameters cannot be read back by name, and need not be to be used in the same program."""
    assert require_working(Around(inner=Around())) == Around(inner=Around())
