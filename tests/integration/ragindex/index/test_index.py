"""A workspace under good use, bad input and bad luck."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from built_retriever import built_retriever

from ragindex._util import durable_files
from ragindex.corpus import Chunking
from ragindex.errors import (
    DataError,
    MissingPartError,
    NewerFormatError,
    StaleWarning,
    StoreError,
    UsageError,
    WorkspaceError,
)
from ragindex.index import fit_watch, sync
from ragindex.index.index import Index
from ragindex.interfaces import BuildContext, Change, Part, ReadContext
from ragindex.parts.text.passages import Passages
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.testing import ADDED, DOCUMENTS, QUESTIONS, ask_questions, assert_same, build
from ragindex.types import Document, Query
from ragindex_baselines.bm25 import BM25
from ragindex_baselines.dense import Dense
from ragindex_baselines.hybrid import Hybrid


def ids(workspace: Index, question: str, k: int = 5, scheme: Any = None) -> list[str]:
    retriever = (scheme or BM25()).open(workspace)
    return [hit.id for hit in retriever.retrieve([Query("q", question)], k)[0].hits]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """An index of a method, built once; nothing may change it."""
    folders = dict[str, Path]()

    def build_once(method: str) -> Path:
        if method not in folders:
            folders[method] = tmp_path_factory.mktemp("built")
            build(registry.scheme(method), folders[method], "lsa").close()
        return folders[method]

    return build_once


@pytest.fixture
def index(built: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Index]:
    """An index of a method in `tmp_path`, to be changed."""

    def copy(method: str) -> Index:
        shutil.copytree(built(method), tmp_path, dirs_exist_ok=True)
        return Index.open(tmp_path, encoder="lsa", create=True)

    return copy


BuiltIndex = Callable[[str], Index]

# ---------------------------------------------------------------- everyday


def test_nothing_is_made_twice(tmp_path: Path, index: BuiltIndex) -> None:
    workspace = index("hybrid")
    assert workspace.build(Hybrid()).made == 0
    assert Index.open(tmp_path, create=True).build(Hybrid(), BM25()).made == 0
    workspace.add([DOCUMENTS[0]])
    assert workspace.build(Hybrid()).made == 0
    known = [replace(document, id=f"copy of {document.id}", metadata={}) for document in DOCUMENTS[:4]]
    workspace.add(known[:1])
    assert workspace.build(Hybrid()).made == 2  # one passage, its text and its vector
    workspace.add(known)
    assert workspace.build().made == 2 * len(known[1:])  # of all parts
    assert "x2" not in ids(workspace, "emperor penguins dive", scheme=Dense())
    workspace.add(ADDED)
    # of words that the encoder does not know: it is fitted again, and all vectors are made again
    assert workspace.build().made == len(DOCUMENTS) + len(known) + 2 * len(ADDED)
    assert "x2" in ids(workspace, "emperor penguins dive", scheme=Dense())


def test_another_method_does_not_finish_built_parts_again(index: BuiltIndex) -> None:
    workspace = index("bm25")
    before = dict(workspace.manifest.parts)
    workspace.build(BM25(), Dense())
    assert {key: workspace.manifest.parts[key] for key in before} == before


def test_parts_are_not_left_for_methods_that_are_not_built(index: BuiltIndex) -> None:
    workspace = index("bm25")
    before = set(workspace.manifest.parts)
    workspace.build(Dense(over=Triples()))
    workspace.remove_methods(Dense(over=Triples()))  # griever and others would need the triples
    assert set(workspace.manifest.parts) == before


def test_first_encoder_replaces_nothing(index: BuiltIndex) -> None:
    workspace = index("bm25")
    workspace.build(Dense(over=Triples()))  # made of triples alone: the passages are no input of it
    assert workspace.build(BM25()).made == 0
    assert ids(workspace, "the emperor Hadrian", scheme=BM25())[0] == "d22"


def test_seconds_of_part_are_those_of_its_work(index: BuiltIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, clock = index("bm25"), [0.0]
    monkeypatch.setattr(sync, "time", SimpleNamespace(perf_counter=lambda: clock[0], time=time.time))
    for name, seconds in (("apply", 100.0), ("finish", 7.0)):
        work = getattr(Vectors, name)

        def take_time(*arguments: Any, work: Any = work, seconds: float = seconds) -> Any:
            clock[0] += seconds
            return work(*arguments)

        monkeypatch.setattr(Vectors, name, take_time)
    workspace.build(Dense())
    (record,) = [record for record in workspace.manifest.parts.values() if record.name == "vectors"]
    assert record.seconds == pytest.approx(107.0)


def test_fit_after_growth_by_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_watch, "UNKNOWN_LIMIT", 1.0)  # so that words that it does not know decide nothing
    monkeypatch.setattr(fit_watch, "TURNOVER_LIMIT", 2.0)
    workspace = build(Dense(), tmp_path, "lsa", DOCUMENTS[:12])
    first = workspace.encoder.id
    workspace.add(DOCUMENTS[12:17])
    assert workspace.build().refit is None
    assert workspace.encoder.id == first
    reader = Dense().open(workspace)
    before = ask_questions(reader, 5)
    workspace.add(DOCUMENTS[17:])
    refit = workspace.build().refit
    assert refit.reason == f"there are {len(DOCUMENTS)} passages, and it was fitted to 12"
    assert workspace.encoder.id != first
    assert_same(ask_questions(reader, 5), before, "a reader opened before")
    vectors = [record for record in workspace.manifest.parts.values() if record.name == "vectors"]
    assert [record.encoder for record in vectors] == [workspace.encoder.id]
    assert len(workspace.manifest.outdated) == 1  # until `reader` is done with it
    fresh = build(Dense(), tmp_path / "fresh", "lsa")
    assert fresh.encoder.id == workspace.encoder.id  # the same corpus, the same fit
    assert_same(ask_questions(Dense().open(workspace), 5), ask_questions(Dense().open(fresh), 5), "a fresh build")


def test_manifest_and_fingerprints(tmp_path: Path, index: BuiltIndex) -> None:
    workspace = index("hybrid")
    manifest = json.loads((tmp_path / "workspace.json").read_text())
    assert manifest["settings"] == {
        "language": "english",
        "by": None,
        "size": None,
        "overlap": None,
        "store": {"name": "lancedb", "params": {"memory_gib": 1.0, "float16": False, "mmap": False}},
    }
    assert manifest["encoders"] == {"lsa": workspace.encoder.id}
    assert manifest["libraries"].keys() >= {"ragindex", "lancedb", "numpy", "scikit-learn"}
    parts = {record["name"]: record for record in manifest["parts"].values()}
    assert parts["vectors"]["encoder"] == workspace.encoder.id
    assert parts["vectors"]["part"]["params"]["of"]["name"] == "passages"
    assert {record["corpus"] for record in parts.values()} == {manifest["corpus"]}
    assert workspace.result_fingerprint(Hybrid()) != workspace.result_fingerprint(BM25())
    before = workspace.result_fingerprint(Hybrid())
    assert Index.open(tmp_path, create=True).result_fingerprint(Hybrid()) == before
    other = Index.open(tmp_path, store="lancedb(float16=true)", create=True)
    assert (workspace.store_name, other.store_name) == ("lancedb", "lancedb(float16=true)")
    assert other.result_fingerprint(Hybrid()) != before
    elsewhere = Index.open(tmp_path / "elsewhere", encoder="lsa", chunking=None, create=True)
    elsewhere.replace(DOCUMENTS, source="elsewhere")
    elsewhere.build(Hybrid())
    assert elsewhere.result_fingerprint(Hybrid()) == before  # the source of documents is not in it
    workspace.add([ADDED[0]])
    workspace.build()
    assert workspace.result_fingerprint(Hybrid()) != before


# ---------------------------------------------------------------- bad input


def test_a_workspace_without_documents(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path, create=True)
    with pytest.raises(WorkspaceError, match="has no documents. Run: ragindex add"):
        workspace.build(BM25())
    with pytest.raises(MissingPartError, match="passages is not built in .*Run: ragindex index"):
        BM25().open(workspace)


def test_the_same_id_twice_and_unknown_ids(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path, chunking=None, create=True)
    with pytest.raises(DataError, match="the id 'a' twice"):
        workspace.add([Document("a", "", "one"), Document("a", "", "two")])
    assert workspace.documents.sources() == {}
    workspace.add([Document("a", "", "one")])
    with pytest.raises(UsageError, match="has no document 'b'. Nothing was removed."):
        workspace.remove(["a", "b"])
    assert list(workspace.documents.sources()) == ["a"]
    with pytest.raises(DataError, match=r"without control characters; found the control character '\\n' in 'b\\nc'"):
        workspace.add([Document("b", "", "two"), Document("b\nc", "", "three")])
    assert list(workspace.documents.sources()) == ["a"]


def test_only_a_fitted_encoder_is_fitted_again(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path, encoder="openai:text-embedding-3-small", create=True)
    with pytest.raises(UsageError, match="openai:text-embedding-3-small learns nothing from the documents"):
        workspace.refit()
    with pytest.raises(UsageError, match="opened with read_only=True"):
        Index.open(tmp_path, read_only=True).refit()


def test_settings_that_cannot_change(tmp_path: Path) -> None:
    Index.open(tmp_path, language="german", chunking=None, create=True)
    assert Index.open(tmp_path, create=True).language == "german"
    with pytest.raises(UsageError, match="was created with german as its language, which cannot change"):
        Index.open(tmp_path, language="english", create=True)
    with pytest.raises(UsageError, match=r"splits its documents otherwise: whole documents\. That cannot change"):
        Index.open(tmp_path, chunking=Chunking(100, 10), create=True)
    with pytest.raises(UsageError, match=r"are passages as they are, which cannot change\. Give another chunking to"):
        Index.open(tmp_path, create=True).rechunk(Chunking(100, 10))
    with pytest.raises(UsageError, match="Unknown text analysis 'klingon'"):
        Index.open(tmp_path / "other", language="klingon", create=True)
    assert not (tmp_path / "other").exists()


# ---------------------------------------------------------------- bad luck


def test_a_workspace_of_a_newer_version(tmp_path: Path, index: BuiltIndex) -> None:
    index("bm25")
    path = tmp_path / "workspace.json"
    manifest = durable_files.load_hashed_json(path.read_bytes())
    assert manifest is not None
    path.write_bytes(durable_files.dump_hashed_json({**manifest, "format": 99, "colour": "red"}))
    for read_only in (True, False):
        with pytest.raises(
            NewerFormatError, match="has format 99; this ragindex reads up to 5. Run: pip install --upgrade"
        ) as caught:
            Index.open(tmp_path, read_only=read_only, create=not read_only)
        assert caught.value.exit_code == 4


def test_files_lost_under_a_reader(tmp_path: Path, index: BuiltIndex) -> None:
    index("bm25")
    for table in (tmp_path / "store").glob("passages-*.records.lance"):
        shutil.rmtree(table)
    with pytest.raises(StoreError, match="could not open the collection passages-"):
        ids(Index.open(tmp_path, create=True), "glass")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def letters(count: int, start: int = 0) -> Sequence[Document]:
    return [Document(f"{n:05d}", "", f"bread {n} " * 40) for n in range(start, start + count)]


def test_a_full_disk_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    workspace = Index.open(small_disk / "w", chunking=None, create=True)
    workspace.add(letters(20))
    workspace.build(BM25())
    filler = small_disk / "filler"
    filler.write_bytes(b"\0" * (shutil.disk_usage(small_disk).free - 8192))
    with pytest.raises(StoreError, match="could not .*[Nn]o space left"):
        workspace.add(letters(2000, 20))
        workspace.build()
    assert len(ids(Index.open(small_disk / "w", create=True), "bread", 5000)) == 20
    filler.unlink()
    workspace = Index.open(small_disk / "w", create=True)
    workspace.add(letters(500, 20))
    workspace.build()
    assert len(ids(workspace, "bread", 5000)) >= 520


def test_a_folder_that_cannot_be_written(small_disk: Path) -> None:
    build(BM25(), small_disk / "w", "lsa", DOCUMENTS)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(StoreError, match="new cannot be created: Read-only file system"):
        Index.open(small_disk / "new", create=True)
    workspace = Index.open(small_disk / "w", create=True)
    assert ids(workspace, QUESTIONS[0]) != []
    with pytest.raises(StoreError, match="could not take the writer's lease"):
        workspace.add(ADDED)


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((StoreError, WorkspaceError), match="file"):
        Index.open(tmp_path / "file", create=True)
    with pytest.raises((StoreError, WorkspaceError), match="file"):
        Index.open(tmp_path / "file" / "below", create=True)


# ---------------------------------------------------------------- what a second pair of eyes found


def test_open_index_sees_what_others_finish(tmp_path: Path, index: BuiltIndex) -> None:
    first = index("bm25")
    assert ids(first, "quicksilver") == []
    second = Index.open(tmp_path, create=True)
    second.add([Document("new", "New", "quicksilver")])
    second.build()
    assert [hit.id for hit in built_retriever(first, "bm25").retrieve([Query("q", "quicksilver")], 3)[0].hits] == [
        "new"
    ]
    second.build(Dense())
    first.add([Document("more", "More", "quicksilver")])
    assert {record.name for record in first.manifest.parts.values()} == {"passages", "vectors"}
    for _ in range(2):
        with pytest.warns(StaleWarning):
            ids(first, "quicksilver")


def test_two_that_make_the_same_workspace_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: BuiltIndex
) -> None:
    from ragindex.index import manifest as manifests
    from ragindex.stores.lancedb.store import LanceDB

    real = LanceDB.open

    def slow(plugin: LanceDB, folder: Path) -> Any:
        monkeypatch.setattr(LanceDB, "open", real)
        build(BM25(), tmp_path, "lsa")  # somebody else is quicker
        return real(plugin, folder)

    monkeypatch.setattr(LanceDB, "open", slow)
    late = Index.open(tmp_path, chunking=None, create=True)
    assert late.counts().documents == len(DOCUMENTS)
    assert manifests.read_manifest(tmp_path) == late.manifest


def test_a_sync_that_builds_nothing_makes_the_seed_the_default(index: BuiltIndex, tmp_path: Path) -> None:
    """Passages do not depend on it."""
    index("bm25").close()
    with Index.open(tmp_path, seed=5) as reseeded:
        parts = reseeded.manifest.parts
        reseeded.build(BM25())
        assert reseeded.manifest.parts == parts
    with Index.open(tmp_path) as reopened:
        assert reopened.seed == 5


@pytest.mark.parametrize("k", [1.5, "3", True])
def test_k_must_be_a_whole_number(k: Any, index: BuiltIndex) -> None:
    workspace = index("bm25")
    with pytest.raises(UsageError, match="The 'k' parameter of retrieve must be an int"):
        BM25().open(workspace).retrieve([Query("q", "glass")], k)


class Looking(Part[None]):
    """A part that looks at its input while it forgets."""

    version: ClassVar[int] = 1
    seen: ClassVar[list[str]] = []

    def inputs(self) -> tuple[Part[Any], ...]:
        return (Passages(),)

    def apply(self, change: Change, context: BuildContext) -> None:
        self.seen.extend(context.inputs[0].get(list(change.remove), ()).column("id").to_pylist())

    def open(self, context: ReadContext) -> None:
        pass


def test_derived_parts_forget_first(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path, chunking=None, create=True)
    workspace.add(DOCUMENTS)
    workspace.build(Looking())
    workspace.remove(["d03", "d07"])
    workspace.build(Looking())
    assert Looking.seen == ["d03", "d07"]
