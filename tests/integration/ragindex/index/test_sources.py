"""Sources: whatever is indexed, added and removed from several folders, a workspace holds exactly what was named."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from command_line import write
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from examples import examples
from ragindex import read
from ragindex.corpus.git_source import readers_version
from ragindex.errors import DataError, RagindexError, UsageError, WorkspaceError
from ragindex.index import sources
from ragindex.index.documents import DocumentChanges
from ragindex.index.index import Index
from ragindex.index.manifest import DocumentSource, SourceReading
from ragindex.types import Document


def read_texts(workspace: Index) -> dict[str, str]:
    return {document.id: document.text for document in workspace.documents}


@pytest.fixture
def workspace(tmp_path: Path) -> Index:
    return Index.open(tmp_path / "w", create=True)


# ---------------------------------------------------------------- any sequence of commands

FOLDERS = ("a", "a/s", "b", "b/s")
FILES = tuple(f"{folder}/{name}" for folder in FOLDERS for name in ("index.md", "x.md"))
NAMES = ("", "one", "two")


class Commands(RuleBasedStateMachine):
    """index, add and remove over folders that lie beside and inside one another, in any order, against a model.

    The model knows nothing of records: it is the documents by id, each with its text and its source.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.workspace = Index.open(self.folder / "w", create=True)
        self.files: dict[str, str] = {}
        self.roots: dict[str, tuple[str, str]] = {}  # by name: root, prefix
        self.stored: dict[str, tuple[str, str]] = {}  # by id: text, source
        for number, file in enumerate(FILES):
            self.write(file, number)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    # the disk

    @rule(file=st.sampled_from(FILES), number=st.integers(0, 99))
    def write(self, file: str, number: int) -> None:
        self.files[file] = f"{file} says {number}"
        write(self.folder, {file: self.files[file]})

    @rule(file=st.sampled_from(FILES))
    def delete(self, file: str) -> None:
        if self.files.pop(file, None) is not None:
            (self.folder / file).unlink()

    # the commands

    @rule(path=st.sampled_from((*FOLDERS, *FILES)), name=st.sampled_from(NAMES))
    def index(self, path: str, name: str) -> None:
        self.bring([path], name, exactly=True)

    @rule(paths=st.lists(st.sampled_from((*FOLDERS, *FILES)), min_size=1, max_size=2), name=st.sampled_from(NAMES))
    def add(self, paths: list[str], name: str) -> None:
        self.bring(paths, name, exactly=False)

    def bring(self, paths: list[str], name: str, *, exactly: bool) -> None:
        before = dict(self.stored), dict(self.roots)
        wanted = all([self.expect(path, name, exactly=exactly) for path in paths])
        if not wanted:
            self.stored, self.roots = before
        with nullcontext() if wanted else pytest.raises(RagindexError):
            corpora = [read(self.folder / path) for path in paths]
            if exactly:
                self.workspace.replace(corpora[0], source=name)
            else:
                self.workspace.add(corpora, source=name)

    def expect(self, path: str, name: str, *, exactly: bool) -> bool:
        """Change the model; False where the command has to be refused."""
        single = path.endswith(".md")
        there = {file: text for file, text in self.files.items() if file == path or file.startswith(f"{path}/")}
        folder = str(PurePosixPath(path).parent) if single else path
        around = [label for label, (root, _) in self.roots.items() if root and f"{folder}/".startswith(f"{root}/")]
        source = max(around, key=lambda label: len(self.roots[label][0]), default="")
        inside = [label for label, (root, _) in self.roots.items() if label != source and root.startswith(f"{folder}/")]
        if not there or (inside and not single) or (source and name not in ("", source)):
            return False
        if not source:
            first = any(root and not prefix for root, prefix in self.roots.values())
            source = name or Path(folder).name
            if name in self.roots or (not name and first):
                return False
            while not name and source in self.roots:
                source += "-2"
            self.roots[source] = (folder, f"{name}/" if name else "")
        root, prefix = self.roots[source]
        coming = {prefix + file.removeprefix(f"{root}/"): text for file, text in there.items()}
        if any(self.stored.get(id, ("", source))[1] != source for id in coming):
            return False
        scope = prefix + f"{folder}/".removeprefix(f"{root}/")
        if exactly and not single:
            self.stored = {
                id: owner for id, owner in self.stored.items() if owner[1] != source or not id.startswith(scope)
            }
        self.stored |= {id: (text, source) for id, text in coming.items()}
        return True

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.stored)))
        del self.stored[id]
        assert self.workspace.remove([id]).removed == 1

    @precondition(lambda self: self.roots)
    @rule(data=st.data())
    def remove_source(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.roots)))
        del self.roots[name]
        gone = [id for id, (_, source) in self.stored.items() if source == name]
        for id in gone:
            del self.stored[id]
        assert self.workspace.remove_source(name).removed == len(gone)

    @rule(id=st.sampled_from(("index.md", "one/x.md", "note")), number=st.integers(0, 9), exactly=st.booleans())
    def program(self, id: str, number: int, exactly: bool) -> None:
        document = Document(id, "", f"a program says {number}")
        if self.stored.get(id, ("", sources.PROGRAM))[1] != sources.PROGRAM:
            with pytest.raises(WorkspaceError, match=r"is already used by .* Nothing was written"):
                self.workspace.add([document])
            return
        if exactly:
            self.workspace.replace([document])
            self.stored = {id: owner for id, owner in self.stored.items() if owner[1] != sources.PROGRAM}
        else:
            self.workspace.add([document])
        self.roots[sources.PROGRAM] = ("", "")
        self.stored[id] = (document.text, sources.PROGRAM)

    @rule()
    def reopen(self) -> None:
        self.workspace = Index.open(self.folder / "w", create=True)

    @invariant()
    def exactly_what_was_named(self) -> None:
        owners = self.workspace.documents.sources()
        assert {id: (text, owners[id]) for id, text in read_texts(self.workspace).items()} == self.stored
        known = self.workspace.manifest.sources
        files = [sources.file_of(known[owner], id) for id, owner in owners.items()]
        named = [file for file in files if file is not None]
        assert len(named) == len(set(named))  # no file stands there twice


TestCommands = Commands.TestCase
TestCommands.settings = settings(
    max_examples=examples(5), stateful_step_count=10, suppress_health_check=list(HealthCheck)
)


# ---------------------------------------------------------------- one root, however it is written


@pytest.mark.parametrize("written", ["docs", "./docs/", "docs/company/..", "link", "{here}/docs"])
def test_root_written_otherwise(
    tmp_path: Path, workspace: Index, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "docs", {"company/coffee.md": "at nine", "top.md": "top"})
    (tmp_path / "link").symlink_to(tmp_path / "docs")
    workspace.add(read("docs"))
    for change in (workspace.add, workspace.replace):
        changed = change(read(written.format(here=tmp_path)))
        assert (changed.added, changed.changed, changed.removed, changed.unchanged) == (0, 0, 0, 2)
    assert [(source["root"], source["documents"]) for source in workspace.sources()] == [(str(tmp_path / "docs"), 2)]


@pytest.mark.parametrize("written", ["docs/company/coffee.md", "./docs/../docs/company/coffee.md", "docs/company"])
def test_what_lies_in_a_remembered_folder_has_its_id_there(
    tmp_path: Path, workspace: Index, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "docs", {"company/coffee.md": "at nine", "top.md": "top"})
    workspace.replace(read("docs"))
    write(tmp_path / "docs", {"company/coffee.md": "at ten"})
    assert workspace.add(read(written)).changed == 1
    assert read_texts(workspace) == {"company/coffee.md": "at ten", "top.md": "top"}
    (metadata,) = [document.metadata for document in workspace.documents if document.id == "company/coffee.md"]
    assert metadata["source"] == "company/coffee.md"
    assert workspace.replace(read("docs")).unchanged == 2  # nothing tells them from files read with the folder


def test_a_link_to_a_file_is_called_as_the_link_is(tmp_path: Path, workspace: Index) -> None:
    write(tmp_path, {"docs/a.md": "a", "docs/of/b.md": "b"})
    (tmp_path / "docs" / "link.md").symlink_to(tmp_path / "docs" / "of" / "b.md")
    workspace.replace(read(tmp_path / "docs"))
    assert workspace.add(read(tmp_path / "docs" / "link.md")).unchanged == 1
    assert read_texts(workspace) == {"a.md": "a", "of/b.md": "b", "link.md": "b"}


# ---------------------------------------------------------------- several


@pytest.mark.parametrize("remembered", [True, False])
def test_a_clash_of_ids_stops_with_both_paths(tmp_path: Path, workspace: Index, remembered: bool) -> None:
    write(tmp_path, {"a/x.md": "x", "b/index.md": "of b"})
    if remembered:  # it comes to a folder that is there
        workspace.replace(read(tmp_path / "a"))
        workspace.add(read(tmp_path / "b"), source="b")
        write(tmp_path, {"a/b/index.md": "of a", "a/new.md": "new"})
        coming, name, after = tmp_path / "a", "", f"ragindex remove --source b --index {tmp_path}/w"
    else:
        write(tmp_path, {"a/b/index.md": "of a"})
        workspace.replace(read(tmp_path / "a"))
        coming, name, after = tmp_path / "b", "b", f"ragindex index {tmp_path}/b --as b-2 --index {tmp_path}/w"
    before, known = read_texts(workspace), workspace.manifest.sources
    with pytest.raises(WorkspaceError, match=r"The id 'b/index\.md' of .*Nothing was written") as caught:
        workspace.replace(read(coming), source=name)
    message = str(caught.value)
    assert str(tmp_path / "a" / "b" / "index.md") in message
    assert str(tmp_path / "b" / "index.md") in message
    assert after in message
    assert (read_texts(workspace), Index.open(workspace.folder, create=True).manifest.sources) == (before, known)


def test_folders_around_and_inside_one_another(tmp_path: Path, workspace: Index) -> None:
    write(tmp_path / "docs", {"company/coffee.md": "coffee", "top.md": "top"})
    workspace.replace(read(tmp_path / "docs" / "company"))
    with pytest.raises(WorkspaceError, match=r"docs contains .*company.*twice.*Run: ragindex remove --source company"):
        workspace.add(read(tmp_path / "docs"), source="docs")
    workspace.remove_source("company")
    workspace.add(read(tmp_path / "docs"))
    with pytest.raises(UsageError, match=r"docs is already the source 'docs'. Leave out --as"):
        workspace.add(read(tmp_path / "docs" / "company"), source="company")
    assert read_texts(workspace) == {"company/coffee.md": "coffee", "top.md": "top"}


def test_a_folder_that_was_moved_keeps_its_ids(tmp_path: Path, workspace: Index) -> None:
    write(tmp_path / "docs", {"a.md": "a", "b.md": "b"})
    workspace.replace(read(tmp_path / "docs"))
    with pytest.raises(UsageError, match=f"The name 'docs' is that of {tmp_path}/docs"):
        write(tmp_path / "copy", {"a.md": "a"})
        workspace.replace(read(tmp_path / "copy"), source="docs")
    (tmp_path / "docs").rename(tmp_path / "moved")
    with pytest.raises(WorkspaceError, match=r"not there any more; if it was moved here, run: .*moved --as docs"):
        workspace.replace(read(tmp_path / "moved"))
    assert workspace.replace(read(tmp_path / "moved"), source="docs").unchanged == 2
    reading = SourceReading(parts={"": {}}, readers=readers_version())
    moved = DocumentSource(root=str(tmp_path / "moved"), format="folder", reading=reading)
    assert workspace.manifest.sources == {"docs": moved}


def test_a_fresh_copy_of_a_folder_changes_no_document(tmp_path: Path, workspace: Index) -> None:
    """Its files have the day of the copy. The day that is stored goes on until the content is another."""

    def index_of_day(seconds: int) -> tuple[DocumentChanges, dict[str, object]]:
        for file in (tmp_path / "docs").iterdir():
            os.utime(file, (seconds, seconds))
        changes = workspace.replace(read(tmp_path / "docs"))
        return changes, {document.id: document.metadata["modified"] for document in workspace.documents}

    write(tmp_path / "docs", {"a.md": "a", "b.md": "b"})
    _, days = index_of_day(1_000_000_000)
    assert days == {"a.md": "2001-09-09", "b.md": "2001-09-09"}
    revisions = workspace.documents.collection.get(["a.md", "b.md"], ("revision",)).to_pylist()
    changes, days = index_of_day(1_500_000_000)
    assert (changes.changed, changes.unchanged, days["a.md"]) == (0, 2, "2001-09-09")
    assert workspace.documents.collection.get(["a.md", "b.md"], ("revision",)).to_pylist() == revisions
    write(tmp_path / "docs", {"b.md": "b, written anew"})
    changes, days = index_of_day(1_600_000_000)
    assert (changes.replaced, days) == (("b.md",), {"a.md": "2001-09-09", "b.md": "2020-09-13"})


@pytest.mark.parametrize("name", ["a/b", "..", "", " x", "x\n", "ü/"])
def test_a_name_is_one(tmp_path: Path, workspace: Index, name: str) -> None:
    write(tmp_path, {"a/x.md": "x", "b/x.md": "y"})
    workspace.add(read(tmp_path / "a"))
    with pytest.raises((UsageError, WorkspaceError)):
        workspace.add(read(tmp_path / "b"), source=name)
    assert read_texts(workspace) == {"x.md": "x"}


def test_several_corpora_at_once_are_all_added_or_none(tmp_path: Path, workspace: Index) -> None:
    write(tmp_path, {"a/s/x.md": "x", "a/y.md": "y", "b/x.md": "other"})
    folder, part, file, other = (read(tmp_path / path) for path in ("a", "a/s", "a/s/x.md", "b"))
    with pytest.raises(WorkspaceError, match="--as b"):
        workspace.add([folder, other])
    assert (read_texts(workspace), workspace.manifest.sources) == ({}, {})
    assert workspace.add([folder, part, file]).added == 2
    (only,) = file.documents
    with pytest.raises(DataError, match="twice, with different texts"):
        workspace.add([folder, replace(file, documents=(replace(only, text="changed"),))])
    assert read_texts(workspace) == {"s/x.md": "x", "y.md": "y"}


# ---------------------------------------------------------------- data sets, made corpora, programs


def lines(*ids: str) -> str:
    return "".join(json.dumps({"_id": id, "text": f"text of {id}"}) + "\n" for id in ids)


def test_a_data_set_is_a_source_by_its_file(tmp_path: Path) -> None:
    write(tmp_path / "set", {"corpus.jsonl": lines("1", "2")})
    write(tmp_path, {"more.jsonl": lines("2", "3")})
    workspace = Index.open(tmp_path / "w", chunking=None, create=True)
    workspace.replace(read(tmp_path / "set"))
    assert workspace.replace(read(tmp_path / "set" / "corpus.jsonl")).unchanged == 2  # the same file
    with pytest.raises(WorkspaceError, match=r"corpus\.jsonl\. Those of .*more\.jsonl need a name"):
        workspace.add(read(tmp_path / "more.jsonl"))
    workspace.add(read(tmp_path / "more.jsonl"), source="more")
    write(tmp_path / "set", {"corpus.jsonl": lines("2")})
    assert workspace.replace(read(tmp_path / "set")).gone == ("1",)
    assert sorted(read_texts(workspace)) == ["2", "more/2", "more/3"]


def test_a_world_is_a_source_however_it_is_written(workspace: Index) -> None:
    workspace.replace(read("world:50"))
    assert workspace.add(read("world:50:0")).unchanged == 50
    with pytest.raises(WorkspaceError, match=r"of world:50:0. Those of world:60:0 need a name.*index world:60:0 --as"):
        workspace.replace(read("world:60"))
    assert [source["root"] for source in workspace.sources()] == ["world:50:0"]


def make_documents(ids: Iterable[str]) -> list[Document]:
    return [Document(id, "", f"made {id}") for id in ids]


# ---------------------------------------------------------------- the format


@pytest.mark.parametrize("verb", ["add", "replace"])
def test_a_source_whose_first_document_is_refused_is_not_remembered(verb: str, workspace: Index) -> None:
    workspace.add(make_documents(["kept"]))
    before = workspace.sources()
    with pytest.raises(DataError, match="metadata that JSON can hold"):
        getattr(workspace, verb)([Document("bad", "", "text", {"at": object()})], source="other")
    assert (workspace.sources(), read_texts(workspace).keys()) == (before, {"kept"})
    getattr(workspace, verb)(make_documents(["good"]), source="other")
    assert [source["name"] for source in workspace.sources()] == [before[0]["name"], "other"]
