"""Documents that are damaged, lost or restored from an older copy: noticed, and all that can be read is served.

Nothing here knows the files of a store: they are found by walking, and told apart by the state that they came with.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from command_line import ragindex
from damaged import HARMS

from ragindex import Document, open_index
from ragindex.errors import DamagedError, RagindexError, StoreError
from ragindex.index.index import Index
from ragindex.index.repair import RESCUED_FILES
from ragindex.serve.collections import open_state
from ragindex.serve.config import CollectionSpec

pytestmark = pytest.mark.filterwarnings("ignore::ragindex._util.durable_files.RepairWarning")


def document(number: int) -> Document:
    return Document(f"d{number:02}", "", f"word{number:02} of ten milligrams. " * 8)


BATCHES = [[document(4 * batch + number) for number in range(4)] for batch in range(4)]
IDS = [entry.id for batch in BATCHES for entry in batch]


def files_of(folder: Path, collection: str = "documents") -> dict[Path, bytes]:
    """The files of a collection, by their path in the index."""
    paths = (path for path in (folder / "store").rglob("*") if path.is_file())
    return {
        path.relative_to(folder): path.read_bytes() for path in paths if collection in str(path.relative_to(folder))
    }


class SavedIndex:
    """An index whose documents came in four batches, and its files after each."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.states = folder, list[dict[Path, bytes]]()
        with open_index(folder, encoder="lsa", create=True) as index:
            for batch in BATCHES:
                index.add(batch, source="served")
                index.build("bm25")
                self.states.append(files_of(folder, ""))

    def copy(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.folder, folder))

    def files(self, batch: int) -> list[Path]:
        """The files of documents that came with a batch and are still there."""
        before = {} if batch == 0 else self.states[batch - 1]
        now = files_of(self.folder)
        return sorted(path for path in self.states[batch] if path in now and path not in before)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> SavedIndex:
    return SavedIndex(tmp_path_factory.mktemp("rescue") / "index")


@pytest.fixture
def folder(saved: SavedIndex, tmp_path: Path) -> Path:
    return saved.copy(tmp_path / "index")


def restore(folder: Path, files: dict[Path, bytes], collection: str) -> None:
    """Put the files of a collection back as they were."""
    for path in files_of(folder, collection):
        (folder / path).unlink()
    for path, content in files.items():
        if collection in str(path):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)


def read(folder: Path) -> list[str]:
    """Return the documents that are there with their text."""
    with open_index(folder, read_only=True) as index:
        documents = index.read(IDS)
    assert documents == [document(int(entry.id[1:])) for entry in documents]
    return [entry.id for entry in documents]


def found_by_a_server(folder: Path) -> list[str]:
    """Return the documents that a server starts with and finds."""
    state = open_state(CollectionSpec("docs", folder, ("bm25",)), open_index(folder))
    with state.index:
        hits = [state.retrievers["bm25"].search(f"word{id[1:]}", k=1) for id in IDS]
    return [id for id, ranking in zip(IDS, hits, strict=True) if [hit.doc_ids for hit in ranking] == [(id,)]]


def require_rescued(folder: Path, case: object) -> list[str]:
    """Repair; what can be read is served, and what cannot is named. Returns the documents that were lost."""
    done = ragindex("repair", "--index", folder)
    there = read(folder)
    lost = [id for id in IDS if id not in there]
    assert (done.code == 5) == bool(lost), (case, done)
    assert not lost or f"{len(lost)} document" in done.err, (case, done)
    assert set(found_by_a_server(folder)) >= set(there), case
    with open_index(folder) as index:
        index.add([document(99)], source="served")
        index.build()
        assert [hit.doc_ids for hit in index.retriever("bm25").search("word99", k=1)] == [("d99",)], case
    assert read(folder) == there, case
    assert ragindex("repair", "--index", folder).out == "No damaged files.\n", case
    return lost


def harm(folder: Path, paths: Iterable[Path], way: str) -> list[bytes]:
    for path in paths:
        HARMS[way](folder / path)
    return [(folder / path).read_bytes() for path in paths if (folder / path).exists()]


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_any_file_harmed_is_noticed_and_the_rest_is_served(step: int, saved: SavedIndex, tmp_path: Path) -> None:
    """Every fifth file is harmed alone, each in the next way; in the slow tests every file."""
    ways, lost, errors = list(HARMS), dict[str, list[str]](), list[str]()
    files = files_of(saved.folder)
    cases = [([path], ways[number % 4]) for number, path in enumerate(sorted(files))][::step]
    cases += [([*saved.files(1), path], "cut short") for path in saved.files(3)]  # a second copy may be among these
    cases += [(sorted(files), "removed"), (sorted(files), "flipped")]
    for number, (paths, way) in enumerate(cases):
        folder = saved.copy(tmp_path / str(number))
        left = harm(folder, paths, way)
        try:
            assert read(folder) == IDS, (paths, way)
        except RagindexError as error:
            errors.append(str(error))
        lost[f"{number}"] = require_rescued(folder, (paths, way))
        contents = {path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        assert not lost[f"{number}"] or contents.issuperset(left), (paths, way)
        with open_index(folder) as index:  # as the command that a repair names
            index.add([entry for batch in BATCHES for entry in batch], source="served")
            index.build()
        assert read(folder) == IDS, (paths, way)
        shutil.rmtree(folder)
    assert all("Run: ragindex repair" in message for message in errors)
    assert IDS in lost.values()
    assert [entry.id for entry in BATCHES[1]] in lost.values()
    assert [] in lost.values()


def test_restored_documents_are_noticed_before_anything_is_lost(folder: Path, saved: SavedIndex) -> None:
    """The newest documents are missing, and nothing in the restored files is wrong."""
    restore(folder, saved.states[2], "documents")
    with Index.open(folder, create=True) as workspace:
        for change in (lambda: workspace.add([document(99)]), lambda: workspace.remove(["d00"]), workspace.sources):
            with pytest.raises(
                DamagedError, match=r"an earlier state of them, as after a partial restore\. Run: ragindex"
            ):
                change()
    assert require_rescued(folder, "restored") == [entry.id for entry in BATCHES[3]]


def test_documents_of_another_index_are_noticed(folder: Path, saved: SavedIndex, tmp_path: Path) -> None:
    other = SavedIndex(tmp_path / "other")
    restore(folder, other.states[3], "documents")
    with Index.open(folder, create=True) as workspace, pytest.raises(DamagedError, match="has other documents than"):
        workspace.add([document(99)])
    with pytest.raises(StoreError, match="was damaged or lost and has been rebuilt"):
        read(folder)
    assert require_rescued(folder, "other") == []


def test_damaged_part_is_kept_where_documents_are_lost(folder: Path) -> None:
    harm(folder, files_of(folder), "removed")
    parts = sorted(path for path, content in files_of(folder, ".records").items() if len(content) > 1000)
    left = harm(folder, parts, "cut short")
    assert ragindex("repair", "--index", folder).code == 5
    assert {path.read_bytes() for path in (folder / "damaged").rglob("*") if path.is_file()}.issuperset(left)
    assert len(left) > 0


def test_killed_repair_goes_on(folder: Path, saved: SavedIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after the old documents were moved away, before the manifest names the new ones."""
    restore(folder, saved.states[2], "documents")

    class KilledError(BaseException):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch, Index.open(folder, create=True) as workspace:
        patch.setattr(Index, "pin_documents", killed)
        with pytest.raises(KilledError):
            workspace.repair()
    assert len(list(folder.glob(RESCUED_FILES))) == 1
    assert require_rescued(folder, "killed") == [entry.id for entry in BATCHES[3]]
    assert list(folder.glob(RESCUED_FILES)) == []
