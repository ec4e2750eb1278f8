"""Plugins that are not ours: known by their code, broken without breaking others, held to the contract."""

import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from command_line import make_desk, ragindex
from comparing import compare
from installed_plugins import Installed, plugins_folder
from letters import LettersEncoder
from made_language import PROMPT, Echo, by_rule

from ragindex import testing
from ragindex.cli import doctor
from ragindex.corpus import Corpus
from ragindex.errors import BrokenPluginError, MissingExtraError
from ragindex.index.fit_watch import PassageSample
from ragindex.index.models import Encoders
from ragindex.index.parts import KeyInputs, part_key
from ragindex.index.revisions import revision_table
from ragindex.interfaces import EncoderPlugin, FittedEncoderPlugin, Part, ReadContext, Uses
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.tasks import Task
from ragindex.plugins import code_fingerprint, registry
from ragindex.plugins.base import Plugin
from ragindex.types import Query
from ragindex_baselines.bm25 import BM25
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.results.model import Comparison
from ragindex_eval.run.plan import choose_methods

QUERIES = tuple(Query(f"q{n}", text) for n, text in enumerate(testing.QUESTIONS))
GOLD = {query.id: Gold(frozenset({"d06"})) for query in QUERIES}
DATA = Dataset("tiny", Corpus("tiny", "jsonl", testing.DOCUMENTS, 0, (), True), QUERIES, GOLD, "0123456789abcdef")


def compared(folder: Path, wanted: Sequence[Any] | None, **options: Any) -> Comparison:
    return compare(DATA, wanted, index=folder, k=(1, 20), **options)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    with plugins_folder(tmp_path, monkeypatch) as folder:
        yield folder


TURNED = """
from typing import Any, ClassVar
from dataclasses import dataclass, replace
from ragindex_baselines.bm25 import BM25
from ragindex.interfaces import Scheme
from ragindex.types import Retrieval

class Turned(Scheme):
    version: ClassVar[int] = 1
    def _parts(self): return BM25().parts()
    def _open(self, index): return TurnedRetriever(BM25().open(index))

@dataclass
class TurnedRetriever:
    base: Any
    def retrieve(self, queries, k):
        from another_turned import order
        return [Retrieval(order.ordered(one.hits)[:k]) for one in self.base.retrieve(queries, 24)]
"""
ORDERED = "def ordered(hits): return hits\n"
REVERSED = (
    "from dataclasses import replace\n"
    "def ordered(hits): return tuple(replace(hit, score=-hit.score) for hit in reversed(hits))\n"
)


# ---------------------------------------------------------------- what was edited is other code


def test_edited_code_is_asked_again(installed: Installed, tmp_path: Path) -> None:
    points = "[ragindex.schemes]\nturned = another_turned.scheme:Turned\n"
    files = {"__init__.py": "", "scheme.py": TURNED, "order.py": ORDERED}
    installed.distribution("another-turned", points, {f"another_turned/{name}": code for name, code in files.items()})
    first = compared(tmp_path / "w", ["turned", "bm25"])
    installed.reload("another_turned")
    second = compared(tmp_path / "w", ["turned", "bm25"])
    measured = [{method.label: method.metrics for method in comparison.methods} for comparison in (first, second)]
    assert measured[1] == measured[0]
    assert first.notes == ()
    assert "turned, bm25: 5 answers each read from" in second.notes[0]
    installed.write("another_turned/order.py", REVERSED)  # a module that is imported when a question comes
    installed.reload("another_turned")
    third = compared(tmp_path / "w", ["turned", "bm25"])
    turned = {method.label: method.metrics for method in third.methods}
    assert turned["turned"]["R@1"] != measured[0]["turned"]["R@1"]
    assert turned["bm25"] == measured[0]["bm25"]
    assert third.notes[0].startswith("bm25: 5 answers read from")


def thing(module: str) -> type:
    """A class of a module, as a new process would have it."""
    return type("Thing", (), {"__module__": importlib.import_module(module).__name__})


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("another_a/__init__.py", True),
        ("another_a/left/__init__.py", True),
        ("another_a/left/b.py", True),
        ("another_a/right.py", True),  # imported inside a function
        ("another_c.py", True),  # another package of the same distribution
        ("another_beside.py", True),  # a file that no distribution claims
        ("another_a/unused.py", False),
        ("another_other.py", False),  # of another distribution
    ],
)
def test_code_hash_covers_imported_modules(installed: Installed, file: str, counts: bool) -> None:
    files = {
        "another_a/__init__.py": "from .left import b",
        "another_a/left/__init__.py": "",
        "another_a/left/b.py": "import another_c\nimport another_beside as x\ndef f():\n    from ..right import d",
        "another_a/right.py": "import numpy, os, another_other",
        "another_a/unused.py": "",
        "another_c.py": "",
    }
    installed.distribution("another-a", "", files)
    installed.distribution("another-other", "", {"another_other.py": ""})
    installed.write("another_beside.py", "")
    before = code_fingerprint.of(thing("another_a"))
    installed.reload("another_a", "another_c", "another_beside")
    assert code_fingerprint.of(thing("another_a")) == before
    edited = "# edited\n" + (installed.folder / file).read_text()
    installed.write(file, edited)
    loaded = file.startswith(("another_a/__init__", "another_a/left", "another_c", "another_beside"))
    if loaded:  # what runs is what was there when it was loaded
        assert code_fingerprint.of(thing("another_a")) == before
    installed.reload("another_a", "another_c", "another_beside")
    assert (code_fingerprint.of(thing("another_a")) != before) == counts


def test_own_plugins_have_no_code_hash() -> None:
    for group in ("schemes", "parts", "encoders", "stores", "llms"):
        for name in registry.plugin_names(group):  # type: ignore[arg-type]
            assert code_fingerprint.of(registry.load_plugin(group, name)) is None  # type: ignore[arg-type]
    assert "source" not in str(registry._with_versions(BM25(), None))


def test_code_of_session_differs_between_sessions() -> None:
    typed: dict[str, Any] = {"__name__": "another_session", "Plugin": Plugin}
    sys.modules["another_session"] = ModuleType("another_session")
    exec("class Typed(Plugin): pass", typed)  # as a notebook does
    here = code_fingerprint.of(typed["Typed"])
    assert here is not None
    mark = code_fingerprint._SESSION
    try:
        code_fingerprint._SESSION = "another session"
        assert code_fingerprint.of(typed["Typed"]) != here
    finally:
        code_fingerprint._SESSION = mark


class Encoder(EncoderPlugin):
    """A foreign encoder: this file is not ours."""

    argument: ClassVar[str] = "name"
    name: str = "x"

    def open(self, setting: LLMSettings | None = None) -> LettersEncoder:
        return LettersEncoder()


class FittedEncoder(FittedEncoderPlugin):
    """One that learns nothing, but could."""

    argument: ClassVar[str] = "name"
    name: str = "x"

    def fit(self, texts: Sequence[str], language: str, seed: int, folder: Path) -> None:
        (folder / "fit").write_text("fitted")

    def load(self, folder: Path) -> LettersEncoder:
        return LettersEncoder()


class Asking(Part[None]):
    """A foreign part that asks a foreign task."""

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"model", "prompts"})

    def tasks(self) -> tuple[Task[Any], ...]:
        return (Task("echo", 1, PROMPT, Echo, rule=by_rule),)

    def open(self, context: ReadContext) -> None:
        return None


def test_keys_of_parts_encoders_and_tasks_hold_code_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def named() -> list[str]:
        (tmp_path / "caches").mkdir(exist_ok=True)
        fitted = Encoders(tmp_path, FittedEncoder(), "english", 0)
        fitted.prepare(lambda: ["a"], 1, PassageSample(revision_table([], []), lambda ids: []))
        assert fitted.building().id == fitted.open(fitted.building().id).id
        return [
            part_key(Asking(), KeyInputs(None, "rules", 0)),
            str(Asking().tasks()[0].identity),
            Encoders(tmp_path, Encoder(), "english", 0).building().id,
            fitted.building().id,
        ]

    before, same = named(), named()
    assert before == same
    monkeypatch.setattr(code_fingerprint, "_code", lambda name, file: edited)
    edited = code_fingerprint._Code("another", Path(__file__))
    edited.hash = "edited"
    assert all(key != other for key, other in zip(named(), before, strict=True))


# ---------------------------------------------------------------- broken ones


SCHEME = "from typing import ClassVar\nfrom ragindex.interfaces import Scheme\nclass Broken(Scheme):\n"
BROKEN = {  # how a plugin is broken: its code, and the message
    "raises": ("raise ValueError('no such luck')", "ValueError: no such luck"),
    "syntax": ("def (", "SyntaxError: "),
    "leaves": ("import sys\nsys.exit('bye')", "SystemExit: bye"),
    "lacks": ("", "AttributeError: .*Broken"),
    "imports": ("from ragindex.types import Nothing", "ImportError: cannot import name 'Nothing'"),
    "function": (
        "def Broken(): pass",
        "a method must be a subclass of ragindex.interfaces.methods.Scheme, and it is <function",
    ),
    "plain": (
        "class Broken: pass",
        "a method must be a subclass of ragindex.interfaces.methods.Scheme, and it is <class",
    ),
    "other": (
        "from ragindex.plugins.base import Plugin\nclass Broken(Plugin): pass",
        "a method must be a subclass of ragindex.interfaces.methods.Scheme, and it is <class",
    ),
    "closed": (f"{SCHEME}    version: ClassVar[int] = 1\n", "a method must define '_open', and it does not"),
    "old": (
        f"{SCHEME}    version: ClassVar[int] = 1\n    def open(self, index): ...\n    def _open(self, index): ...\n",
        "a method must define '_open' and '_parts' in place of 'open' and 'parts', which call them",
    ),
    "undated": (f"{SCHEME}    def _open(self, index): ...\n", "a method must define 'version', and it does not"),
    "parts": (
        f"{SCHEME}    version: ClassVar[int] = 1\n    def _open(self, index): ...\n"
        "    def _parts(self): return self.nothing\n",
        "AttributeError: .*nothing",
    ),
    "default": (
        f"from typing import Any\nfrom pydantic import Field\n{SCHEME}    version: ClassVar[int] = 1\n"
        "    a: Any = Field(default_factory=lambda: 1 / 0)\n    def _open(self, index): ...\n",
        "ZeroDivisionError: division by zero",
    ),
}


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """No other methods than these."""
    real = registry.entry_points
    monkeypatch.setattr(
        registry,
        "entry_points",
        lambda group: [point for point in real(group=group) if group != "ragindex.schemes" or point.name in names],
    )
    registry._table.cache_clear()


def test_broken_methods_are_named_and_others_compared(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "".join(f"{how} = another_{how}:Broken\n" for how in BROKEN)
    files = {f"another_{how}.py": code for how, (code, _) in BROKEN.items()}
    installed.distribution("another-broken", f"[ragindex.schemes]\n{points}", files)
    only(monkeypatch, "bm25", *BROKEN)
    comparison = compared(tmp_path / "w", ["all"])
    assert [method.label for method in comparison.methods] == ["bm25"]
    left_out = {line.partition(": The method ")[0]: line for line in comparison.left_out}
    assert set(left_out) == set(BROKEN)
    states = {what: state for what, state, _ in doctor.check_installation()}
    for how, (_, message) in BROKEN.items():
        assert re.search(message, left_out[how])
        with pytest.raises(BrokenPluginError, match=message):
            choose_methods(["bm25", how])
        assert states[f"method {how}"] == "broken"
    assert states["method bm25"] == "ok"


def test_commands_skip_broken_plugins(installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_desk(tmp_path, monkeypatch)
    groups = ("schemes", "parts", "encoders", "stores", "llms", "corpora", "commands")
    points = "".join(f"[ragindex.{group}]\nunhappy = another_unhappy:Broken\n" for group in groups)
    installed.distribution("another-unhappy", points, {"another_unhappy.py": "raise ValueError('no such luck')"})
    message = "'unhappy' (another_unhappy:Broken of another-unhappy) is broken: ValueError: no such luck."
    listed = ragindex("methods")
    assert (listed.code, "bm25" in listed.out, "unhappy" in listed.out) == (0, True, False)
    assert f"skipped: The method {message} Fix or uninstall it." in " ".join(listed.err.split())
    assert "command" not in listed.err  # no other command is imported
    helped, tried = ragindex("--help"), ragindex("unhappy")
    assert (helped.code, "\n  unhappy" in helped.out) == (0, False)
    assert f"skipped the command unhappy: The command {message}" in " ".join(helped.err.split())
    assert (tried.code, tried.err) == (2, f"error: The command {message} Fix or uninstall it.\n")
    looked = ragindex("doctor", "--json", "-")
    states = {row["what"]: row["state"] for row in looked.json}
    assert {what: state for what, state in states.items() if what.endswith(" unhappy")} == {
        f"{kind} unhappy": "broken" for kind in ("method", "part", "encoder", "store", "llm", "corpora", "command")
    }
    assert ragindex("index", "notes", "--index", "w", "--methods", "bm25").code == 0
    for arguments in (("methods", "unhappy"), ("search", "x", "--index", "w", "--method", "unhappy")):
        done = ragindex(*arguments)
        assert (done.code, message in done.err) == (2, True)


def test_name_claimed_twice_is_listed(installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_desk(tmp_path, monkeypatch)
    installed.distribution("another-bm25", "[ragindex.schemes]\nbm25 = another_bm25:Other\n", {"another_bm25.py": ""})
    listed = ragindex("methods")
    assert (listed.code, "hybrid" in listed.out) == (0, True)
    assert "The method name 'bm25' is claimed by" in listed.err


def test_plugin_without_its_package_is_missing(installed: Installed) -> None:
    installed.distribution(
        "another-needy",
        "[ragindex.schemes]\nneedy = another_needy:Needy\n",
        {"another_needy.py": "import no_such_package"},
    )
    with pytest.raises(MissingExtraError, match="needs the package 'no_such_package'"):
        registry.scheme("needy")
    left_out = choose_methods(["all"])[1]
    assert any(str(line).startswith("needy: The method 'needy' needs the package") for line in left_out)
