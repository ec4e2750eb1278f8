"""`~` is the user's home folder where a path begins with it, and no part of an index lands in another place."""

from pathlib import Path

import pytest
from command_line import ragindex

import ragindex as api
from ragindex._util.durable_files import expand_home
from ragindex.index.index import Index
from ragindex.plugins import registry

TEXT = "The lighthouse of Lindau was built in 1853."


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with documents; the current folder is another one."""
    home, desk = tmp_path / "home", tmp_path / "desk"
    (home / "docs").mkdir(parents=True)
    (home / "docs" / "lindau.md").write_text(TEXT, encoding="utf-8")
    desk.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(desk)
    return home


def test_only_a_whole_tilde_at_the_start_is_the_home_folder(home: Path) -> None:
    assert expand_home("~") == home
    assert expand_home("~/a/~") == home / "a" / "~"
    assert [str(expand_home(path)) for path in ("~a/b", "a/~", "/~")] == ["~a/b", "a/~", "/~"]
    assert expand_home(expand_home("./~/b")) == Path.cwd() / "~" / "b"


def test_an_index_of_the_home_folder_is_whole_there(home: Path) -> None:
    with api.open("~/x", create=True) as index:
        index.add(api.read("~/docs"))
        index.build("bm25")
        index.export("bm25", "~/exported")
    assert sorted(path.name for path in home.iterdir()) == ["docs", "exported", "x"]
    assert list(Path.cwd().iterdir()) == []
    with api.load("~/exported") as retriever:
        assert [hit.text for hit in retriever.search("lighthouse")] == [TEXT]


def test_commands_expand_it_where_the_shell_does_not(home: Path) -> None:
    done = ragindex("index", home / "docs", "--index=~/x", "--methods", "bm25")
    assert done.code == 0, done.err
    assert (home / "x" / "workspace.json").is_file()
    assert list(Path.cwd().iterdir()) == []
    result = ragindex("search", "~/lighthouse", "--index=~/x", "--method=bm25", "--json=-")
    assert (result.json["question"], len(result.json["hits"])) == ("~/lighthouse", 1)


def test_a_folder_that_is_called_so_holds_all_of_its_index(home: Path) -> None:
    """The store's engine would expand a relative path by itself."""
    with Index.open("./~/x", create=True) as workspace:
        workspace.add(api.read(home / "docs"))
        workspace.build(registry.scheme("bm25"))
    assert sorted(path.name for path in home.iterdir()) == ["docs"]
    with Index.open("./~/x") as workspace:
        assert workspace.counts().documents == 1
