"""What version 0.1 has made opens with this version, and nothing is paid again: docs/how-to/upgrading.md.

`tests/support/made_by_0_1` has a folder as the last commit of 0.1 left it: documents, an index of five methods whose
answers were paid at an endpoint that is no longer there, an exported retriever and settings of a comparison.
`hits.json` has the hits that it returned.

`unfinished.tar.xz.base64` is what it left in the middle of work: an index with changes that its server had accepted,
its keys, an index whose comparison was stopped after one of two methods, a judging session of which one of two
questions is judged, and an index of format 4 by an earlier commit, with answers and vectors that were paid for.
"""

import base64
import io
import json
import shlex
import socket
import tarfile
from pathlib import Path
from typing import NoReturn

import pytest
from command_line import ragindex
from doc_examples import blocks, commands
from project import ROOT
from unrecorded import record_nothing

import ragindex as package
from ragindex._util import durable_files
from ragindex.filters import fields
from ragindex.serve.keys import load_keyring
from ragindex.serve.spool import open_spool
from ragindex.serve.sync_process import sync_accepted

FIXTURES = ROOT / "tests" / "support" / "made_by_0_1"
BUILT_IN = "/tmp/upgrade"  # the folder that the files name
HITS = json.loads((FIXTURES / "hits.json").read_text("utf-8"))


METHODS = ",".join(HITS)


def unpack(name: str, folder: Path) -> None:
    """Unpack a folder of 0.1, whose indexes then name the documents there."""
    packed = base64.b64decode((FIXTURES / name).read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:xz") as archive:
        archive.extractall(folder, filter="data")
    for manifest in (*folder.glob("*/workspace.json"), *folder.glob("*/workspace.copy.json")):
        content = manifest.read_text("utf-8")
        assert durable_files.load_hashed_json(content.encode()) is not None
        value = json.loads(content.replace(BUILT_IN, str(folder)))
        del value["sha256"]
        manifest.write_bytes(durable_files.dump_hashed_json(value))


def work_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder. A connection to any host fails the test."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing-is-called")
    monkeypatch.setattr(socket.socket, "connect", _refuse)
    record_nothing(monkeypatch)
    return folder


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that 0.1 left, moved here."""
    unpack("desk.tar.xz.base64", tmp_path)
    return work_in(tmp_path, monkeypatch)


@pytest.fixture
def unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with unfinished work of 0.1, moved here."""
    unpack("unfinished.tar.xz.base64", tmp_path)
    return work_in(tmp_path, monkeypatch)


def _refuse(_: socket.socket, address: object) -> NoReturn:
    raise AssertionError(f"a call to {address}")


def search(method: str, *options: str) -> list[tuple[str, float]]:
    """Ids and scores of the hits of a search."""
    question = "Grey Anna" if "triples" in method else "Which river carries slate?"
    done = ragindex("search", question, *options, "--json", "-")
    assert done.code == 0, done.err
    return [(hit["id"], hit["score"]) for hit in done.json["hits"]]


@pytest.mark.parametrize("method", [method for method in HITS if method != "raptor"])
def test_indexes_are_searched_with_equal_hits(method: str, desk: Path) -> None:
    hits = search(method, "--index", "index", "--method", method)
    assert [id for id, _ in hits] == [id for id, _ in HITS[method]]
    assert [score for _, score in hits] == pytest.approx([score for _, score in HITS[method]], abs=1e-5)


def test_trees_are_built_anew_and_summaries_of_equal_clusters_are_not_paid_again(desk: Path) -> None:
    """Clusters are found otherwise, so older trees are not searched. The ids of summaries name the new tree."""
    refused = ragindex("search", "slate", "--index", "index", "--method", "raptor")
    assert refused.code == 4
    _, _, command = refused.err.strip().partition("Run: ")
    built = ragindex(*shlex.split(command)[1:])
    assert built.code == 0, built.err
    assert_hits_of_raptor()


def test_clusters_of_earlier_trees_are_not_paid_again(desk: Path) -> None:
    method = "raptor(tree=summary_tree(components=few))"
    built = ragindex("index", "notes", "--index", "index", "--methods", method)
    assert built.code == 0, built.err
    assert_hits_of_raptor(method)


def assert_hits_of_raptor(method: str = "raptor") -> None:
    """The hits are those of 0.1, but for the id of the one summary."""
    hits, expected = search("raptor", "--index", "index", "--method", method), HITS["raptor"]
    assert [score for _, score in hits] == pytest.approx([score for _, score in expected], abs=1e-5)
    ids = [(id, before) for (id, _), (before, _) in zip(hits, expected, strict=True)]
    assert [id == before for id, before in ids] == [True, False, True, True, True]


def test_indexes_are_built_again_without_a_paid_call(desk: Path) -> None:
    """Also a part that was removed: answers and vectors are in the folder."""
    built = ragindex("index", "notes", "--index", "index", "--methods", METHODS)
    assert built.code == 0, built.err
    assert "nothing changed in 20 documents" in built.out
    assert ragindex("remove", "--index", "index", "--method", "raptor", "--yes").code == 0
    again = ragindex("index", "notes", "--index", "index", "--methods", METHODS)
    assert again.code == 0, again.err
    assert_hits_of_raptor()


def test_update_names_the_command_that_notes_how_sources_are_read(desk: Path) -> None:
    refused = ragindex("update", "--index", "index")
    assert refused.code != 0
    _, _, command = refused.err.strip().partition("Run: ")
    assert shlex.split(command)[:2] == ["ragindex", "index"]
    noted = ragindex(*shlex.split(command)[1:])
    assert noted.code == 0, noted.err
    assert "nothing changed in 20 documents" in noted.out
    (desk / "notes" / "weir.md").write_text("# Weir\n\nThe weir is old.\n")
    assert ragindex("update", "--index", "index", "--dry-run", "--json", "-").json["sources"][0]["added"] == ["weir.md"]


def test_lines_of_the_page_run_on_what_0_1_left(desk: Path) -> None:
    names = {"my-index": "index", "my-documents/": "notes"}
    page = ROOT / "docs" / "how-to" / "upgrading.md"
    lines = [words for _, code in blocks(page, "bash") for words in commands(code)]
    assert [words[0] for words in lines] == ["doctor", "parts", "index", "update"]
    for words in lines:
        done = ragindex(*(names.get(word, word) for word in words))
        assert done.code == 0, done.err


def test_settings_compare_again_without_a_paid_call(desk: Path) -> None:
    """The answers that the reading model gave are found too."""
    done = ragindex("compare", "--config", "settings.yaml", "--out", "again", "--json", "-")
    assert done.code == 0, done.err
    comparison = done.json["comparisons"][0] if "comparisons" in done.json else done.json
    assert [method["label"] for method in comparison["methods"]] == ["bm25", "raptor"]


def test_exported_retrievers_are_loaded(desk: Path) -> None:
    """The index stands beside them, as it did."""
    assert [id for id, _ in search("links", "--retriever", "exported")] == [id for id, _ in HITS["links"]]
    with package.load("exported") as retriever:
        assert [hit.id for hit in retriever.search("Which river carries slate?")] == [id for id, _ in HITS["links"]]


def test_changes_that_a_server_had_accepted_are_made(unfinished: Path) -> None:
    spool = open_spool(Path("index"))
    with package.Index.open("index") as index:
        assert (spool.count_pending(), {document.id for document in index.documents}) == (
            2,
            {"anna.md", "mill.md", "orla.md"},
        )
        assert sync_accepted(index, spool) == 2
        assert spool.count_pending() == 0
        assert {document.id for document in index.documents} == {"anna.md", "orla.md", "weir.md"}
    done = ragindex("search", "the weir of Sarn", "--index", "index", "--method", "bm25", "--json", "-")
    assert [hit["id"] for hit in done.json["hits"]][:1] == ["weir.md#0"]


def test_keys_of_a_server_are_read(unfinished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READER_KEY", "reader-key-0123456789")
    monkeypatch.setenv("WRITER_KEY", "writer-key-0123456789")
    reader, writer = load_keyring(Path("keys.toml"), ["index"]).keys
    assert (reader.rights, list(fields(reader.where))) == ({"read"}, ["meta.team"])
    assert writer.rights == {"read", "write", "judge"}
    assert (writer.budget.limit, writer.id_prefix, writer.metadata_keys) == (5.0, "", None)


def test_judging_goes_on_with_what_is_judged(unfinished: Path) -> None:
    done = ragindex(
        "judge", "notes", "questions.txt", "--out", "judged", "--index", "compared", "--methods", "bm25,hybrid"
    )
    assert done.code == 0, done.err
    assert "1 documents are left to judge" in done.err
    assert "bm25" in done.out
    compared = ragindex(
        "compare", "notes", "--questions", "judged", "--index", "compared", "--methods", "bm25", "--json", "-"
    )
    assert compared.code == 0, compared.err
    assert compared.json["dataset"]["questions"] == 1


def test_comparison_that_was_stopped_goes_on(unfinished: Path) -> None:
    """The answers that were there are not asked for again."""
    (answers,) = Path("compared/runs").rglob("answers-20.jsonl")
    before = answers.read_bytes(), answers.stat()
    arguments = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25,hybrid", "--index", "compared")
    done = ragindex(*arguments, "--json", "-")
    assert done.code == 0, done.err
    assert [method["label"] for method in done.json["methods"]] in (["bm25", "hybrid"], ["hybrid", "bm25"])
    assert (answers.read_bytes(), answers.stat().st_mtime_ns, answers.stat().st_ino) == (
        before[0],
        before[1].st_mtime_ns,
        before[1].st_ino,
    )
