"""`ragindex new-plugin`: what it writes is installed and keeps the contract; names that cannot be used are refused."""

import tomllib
from pathlib import Path

import pytest
from command_line import failed, make_desk, ragindex


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


def test_its_files_agree_on_names() -> None:
    ragindex("new-plugin", "a1-b2", "--out", "there/it")
    project = tomllib.loads(Path("there/it/pyproject.toml").read_text())
    assert project["project"]["entry-points"] == {"ragindex.schemes": {"a1-b2": "a1_b2:A1B2"}}
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"] == ["a1_b2.py"]
    assert "class A1B2(Scheme):" in Path("there/it/a1_b2.py").read_text()
    assert "from a1_b2 import A1B2" in Path("there/it/test_a1_b2.py").read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Title", "NAME must be words of a to z and digits, joined by -, as title-words"),
        ("../up", "NAME must be words of a to z"),
        ("class", "NAME must be words of a to z"),
        ("", "NAME must be words of a to z"),
        ("x" * 61, "with 60 characters at most"),
        ("bm25", "There is a method 'bm25' already (ragindex methods bm25). Choose another name."),
        ("json", "There is a module 'json' already, which json.py would hide. Choose another name."),
        ("numpy", "There is a module 'numpy' already"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(name: str, message: str) -> None:
    before = sorted(Path().iterdir())
    assert message in failed(2, "new-plugin", name)
    assert sorted(Path().iterdir()) == before


def test_what_is_there_is_not_touched() -> None:
    Path("mine").mkdir()
    Path("mine/kept.txt").write_text("kept")
    assert failed(2, "new-plugin", "a-b", "--out", "mine").startswith("mine is not empty. Name another folder")
    assert [path.name for path in Path("mine").iterdir()] == ["kept.txt"]
    assert failed(2, "new-plugin", "a-b", "--out", "mine/kept.txt").startswith("mine/kept.txt is a file.")
    assert Path("mine/kept.txt").read_text() == "kept"
