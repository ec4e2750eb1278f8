"""What a loaded retriever refuses, follows and reads; what is left when the index is gone or cannot be written."""

import json
import os
import shlex
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import ragindex as run
from minilm import model_folder

import ragindex
from ragindex.errors import (
    DamagedError,
    DataError,
    NewerFormatError,
    OtherLibrariesWarning,
    StaleWarning,
    UsageError,
    WorkspaceError,
)
from ragindex.export import load
from ragindex.export.retriever_file import parse_retriever_file, write_retriever_file
from ragindex.testing import ADDED, DOCUMENTS
from ragindex_baselines.bm25 import BM25

QUESTION = "Which emperor finished the Pantheon in Rome?"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with bm25 and dense, and both exported from it; nothing may change it."""
    folder = tmp_path_factory.mktemp("exported")
    with ragindex.open(folder / "index", encoder="lsa", create=True) as index:
        index.add(DOCUMENTS)
        index.build("bm25", "dense")
        index.export("bm25", folder / "retriever")
        index.export("dense", folder / "dense")
        index.export("bm25", folder / "packed", pack=True)
    return folder


@pytest.fixture
def desk(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, to be changed; the folder is also the working folder and the cache."""
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path / "cache"))
    return tmp_path


def first(path: str | Path, **how: Any) -> str:
    with ragindex.load(path, **how) as retriever:
        return retriever.search(QUESTION, k=1)[0].id


def test_misspelled_option_is_refused(desk: Path) -> None:
    with pytest.raises(TypeError, match="ragindex.load has no option 'allow_host'. Did you mean allow_hosts?"):
        ragindex.load("retriever", allow_host=["127.0.0.1"])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="ragindex.open has no option 'encodr'. Did you mean encoder?"):
        ragindex.open(desk / "new", create=True, encodr="lsa")  # type: ignore[call-arg]
    assert not (desk / "new").exists()


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the values of a retriever.toml, with a right hash."""
    exported = parse_retriever_file(path.read_bytes(), path)
    values = exported.model_dump(mode="json", exclude_none=True)
    change(values)
    path.write_bytes(write_retriever_file(type(exported).model_validate(values)))


@pytest.mark.parametrize("name", ["retriever", "packed.ragindex"])
def test_closed_retriever_releases_its_index(name: str, desk: Path) -> None:
    with ragindex.load(name) as retriever:
        assert len(retriever.index.opened) > 0
    assert len(retriever.index.opened) == 0
    assert retriever.search(QUESTION, k=1)[0].id == "d22#0"  # what was opened keeps working


def test_both_forms_from_another_folder(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk / "elsewhere").mkdir()
    monkeypatch.chdir(desk / "elsewhere")
    assert first("../retriever") == first("../retriever/retriever.toml") == first("../packed.ragindex") == "d22#0"
    shutil.move(desk / "retriever", desk / "elsewhere" / "moved")
    with pytest.raises(WorkspaceError, match=r"refers to the index .*/elsewhere/index.*index=FOLDER"):
        first("moved")
    assert first("moved", index="../index") == "d22#0"


def test_changed_index_is_refused_or_followed(desk: Path) -> None:
    with ragindex.open("index") as index:
        index.add(ADDED)
        with pytest.warns(StaleWarning):
            assert first("dense") == "d22#0"  # nothing is built yet
        index.build()
    with pytest.raises(WorkspaceError) as raised:
        first("retriever")
    assert "its documents have changed since (24 documents then, 26 now)" in str(raised.value)
    assert "Export again (ragindex export --index" in str(raised.value)
    with ragindex.load("retriever", follow=True) as retriever:
        assert retriever.search("emperor penguins", k=1)[0].id == "x2#0"
    assert first("packed.ragindex") == "d22#0"
    with ragindex.open("index") as index:
        index.remove([document.id for document in ADDED])
        index.build()
    assert first("retriever") == "d22#0"  # the law: the same documents give the same answers


def test_index_made_again(desk: Path) -> None:
    shutil.rmtree("index")
    with pytest.raises(WorkspaceError, match=r"cannot be opened \(No index in .*/index"):
        first("retriever")
    with ragindex.open("index", encoder="lsa", create=True) as index:
        index.add(DOCUMENTS)
        index.build("bm25")
    with pytest.raises(WorkspaceError, match="is not the index that retriever was exported from"):
        first("retriever")


def test_another_version_of_the_method(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BM25, "version", BM25.version + 1)
    for path in ("retriever", "packed.ragindex"):
        with pytest.raises(WorkspaceError, match=r"bm25 has the version \d, and was exported with \d"):
            first(path)


def set_parameters(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    def edit(values: dict[str, Any]) -> None:
        parameters = json.loads(values["method"]["parameters"])
        change(parameters)
        values["method"]["parameters"] = json.dumps(parameters)

    rewrite(path, edit)


def test_descriptions_that_mean_something_else_here(desk: Path) -> None:
    """As after a change of the plugin's validation, and of the encoder; parameters that were added have defaults."""
    set_parameters(desk / "retriever" / "retriever.toml", lambda parameters: parameters.pop("over"))
    assert first("retriever") == "d22#0"
    set_parameters(desk / "retriever" / "retriever.toml", lambda parameters: parameters.update(over="passages"))
    with pytest.raises(WorkspaceError, match="the parameters of bm25 mean .* here, and were"):
        first("retriever")
    rewrite(desk / "dense" / "retriever.toml", lambda values: values["encoder"].update(id="lsa-other"))
    with pytest.raises(WorkspaceError, match=r"the encoder lsa is another one here \(lsa-\w+, was lsa-other\)"):
        first("dense")
    path = desk / "retriever" / "retriever.toml"
    path.write_text(path.read_text().replace("format = 1", "format = 99", 1))
    with pytest.raises(NewerFormatError, match="has the format 99, and this version reads 1"):
        first("retriever")


def test_other_libraries(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {**load.libraries(), "pystemmer": "0.1"}
    monkeypatch.setattr(load, "libraries", lambda: here)
    with pytest.warns(OtherLibrariesWarning, match=r"exported with pystemmer [\d.]+ \(here 0.1\)"):
        assert first("retriever") == "d22#0"


def test_wrong_uses(desk: Path) -> None:
    for how in ({"follow": True}, {"index": "index"}):
        with pytest.raises(UsageError, match="is packed: it has its index with it"):
            first("packed.ragindex", **how)
    with pytest.raises(UsageError, match="nothing to unpack"):
        first("retriever", into="x")
    with pytest.raises(DataError, match=r"retriever.toml.*no such folder"):
        first("nowhere")
    with pytest.raises(DataError, match=r"packed: .*no such path \(did you mean packed.ragindex\?\)"):
        first("packed")
    with pytest.raises(UsageError, match=r"write \['api.openai.com'\]"):
        first("retriever", allow_hosts="api.openai.com")
    with ragindex.open("index") as index:
        with pytest.raises(UsageError, match="holds other files"):
            index.export("bm25", "index")
        with pytest.raises(UsageError, match="is a file"):
            index.export("bm25", "packed.ragindex")


def files(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.rglob("*"))}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_disk(desk: Path) -> None:
    first("packed.ragindex", into="there")
    for root in (desk / "there", desk / "index", desk / "retriever"):
        for path in [root, *root.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
    assert first("there") == first("retriever") == "d22#0"


def test_content_of_a_packed_retriever(desk: Path) -> None:
    (desk / "notes").mkdir()
    (desk / "notes" / "a.md").write_text("# Quill\nThe quill is public.")
    (desk / "notes" / "b.md").write_text("# Zzsecretzz\nZzsecretzz was removed.")
    with ragindex.open("second", encoder="lsa", create=True) as index:
        index.add(ragindex.read("notes"))
        index.build("hybrid")
        index.remove(["b.md"])
        index.build()
        index.export("hybrid", "second-packed", pack=True)
    content = (desk / "second-packed.ragindex").read_bytes()
    assert b"quill is public" in content
    assert b"zzsecretzz" not in content.lower()
    assert str(desk).encode() not in content
    assert b"calls.sqlite" not in content
    assert b"vectors.sqlite" not in content


def test_equal_states_give_equal_bytes(desk: Path) -> None:
    with ragindex.open("index", read_only=True) as index:
        index.export("bm25", "again", pack=True)
    assert (desk / "again.ragindex").read_bytes() == (desk / "packed.ragindex").read_bytes()


def test_damaged_fit_is_not_packed(desk: Path) -> None:
    (file,) = (desk / "index" / "encoders").rglob("vocabulary.json")
    file.write_bytes(file.read_bytes()[:-1])
    with ragindex.open("index") as index, pytest.raises(DamagedError, match="ragindex repair"):
        index.export("dense", "d", pack=True)
    assert [path.name for path in desk.glob("*.ragindex")] == ["packed.ragindex"]


def test_export_beside_a_sync_is_one_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each state has the documents 0 to n; an export has those of one state, and counts as many."""
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path / "cache"))
    with ragindex.open(tmp_path / "index", create=True) as built:
        built.add([ragindex.Document("0", "", "everyone")], source="a")
        built.build("bm25")
    stop = threading.Event()

    def write() -> None:
        number = 0
        with ragindex.open(tmp_path / "index") as writer:
            while not stop.is_set():
                number += 1
                writer.add([ragindex.Document(str(number), "", f"everyone number{number}")], source="a")
                writer.build()

    writing = threading.Thread(target=write)
    writing.start()
    sizes = list[int]()
    try:
        while len(set(sizes)) < 3:  # the syncs go on meanwhile
            with ragindex.open(tmp_path / "index", read_only=True) as index:
                exported = index.export("bm25", tmp_path / f"r{len(sizes)}", pack=True)
            with ragindex.load(exported.path) as retriever:
                hits = {hit.id for hit in retriever.search("everyone", k=1000)}
            sizes.append(exported.retriever.index.documents)
            assert hits == {f"{number}#0" for number in range(sizes[-1])}
            assert len(sizes) < 500, "no sync has ended"
    finally:
        stop.set()
        writing.join()
    assert sizes == sorted(sizes)


def test_export_prints_how_to_load_what_must_be_allowed(tmp_path: Path) -> None:
    model = str(model_folder())
    with ragindex.open(tmp_path / "index", encoder=f"sentence-transformers:{model}", create=True) as index:
        index.add(DOCUMENTS[:3])
        index.build("dense", "bm25")
    done = run("export", tmp_path / "index", "--method", "dense", "--out", tmp_path / "kept")
    output = {line[:18].strip(): line[18:] for line in done.out.splitlines()}
    load = f"ragindex.load({str(tmp_path / 'kept')!r}, allow_folders=[{model!r}])"
    assert output["load it"] == f'import ragindex; retriever = {load}; retriever.search("…")'
    with pytest.raises(UsageError, match="allow_folders="):
        first(tmp_path / "kept")
    assert first(tmp_path / "kept", allow_folders=[model])
    _, *command = shlex.split(output["try it"])
    assert command[-2:] == ["--allow-folder", model]
    assert run(*command).code == 0
    plain = run("export", tmp_path / "index", "--method", "bm25", "--out", tmp_path / "words")
    assert f"retriever = ragindex.load({str(tmp_path / 'words')!r}); " in plain.out
