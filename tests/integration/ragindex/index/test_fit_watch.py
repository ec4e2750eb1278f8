"""The fit of an encoder is watched: it is made again once it does not know enough of the passages' words."""

import shutil
from pathlib import Path
from unittest.mock import patch

import pytest
from command_line import ragindex

from ragindex._util import durable_files
from ragindex.encoders.lsa import LsaEncoder
from ragindex.index import fit_watch
from ragindex.index.index import Index
from ragindex.types import Document

SUBJECTS = ("harbour", "granite", "lantern", "meadow", "violin", "orchard", "chapel", "ferry")
OTHERS = ("enzyme", "ribosome", "plasmid", "codon", "histone", "kinase", "ligand", "peptide")


def write_documents(subjects: tuple[str, ...], count: int, first: int = 0) -> list[Document]:
    """Return documents with the same ids, up to 64, each about another pair of subjects."""
    pairs = [(f"d{number}", subjects[number % 8], subjects[number // 8]) for number in range(first, count)]
    return [Document(id, subject, f"A {subject} near a {other}.") for id, subject, other in pairs]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Indexes by what was built after `hybrid`; each test opens a copy."""
    folders = {"hybrid": tmp_path_factory.mktemp("hybrid") / "w", "raptor": tmp_path_factory.mktemp("raptor") / "w"}
    with Index.open(folders["hybrid"], chunking=None, create=True) as index:
        index.replace(write_documents(SUBJECTS, 60), source="notes")
        index.build("hybrid")
    shutil.copytree(folders["hybrid"], folders["raptor"])
    with Index.open(folders["raptor"]) as index:
        index.build("raptor")
    return folders


@pytest.fixture
def index(built: dict[str, Path], tmp_path: Path) -> Index:
    return Index.open(shutil.copytree(built["hybrid"], tmp_path / "w"))


@pytest.fixture
def tree_index(built: dict[str, Path], tmp_path: Path) -> Index:
    """An index with a part outside `hybrid` that has the encoder too."""
    return Index.open(shutil.copytree(built["raptor"], tmp_path / "w"))


def test_replaced_documents_of_other_words(index: Index) -> None:
    """Their number stays: nothing but the words tells that the fit is old."""
    before = index.encoder_id
    index.replace([*write_documents(SUBJECTS, 60)[:30], *write_documents(OTHERS, 60)[30:]], source="notes")
    refit = index.build().refit
    assert refit.encoder == "lsa"
    assert refit.reason.startswith("it did not know ")
    assert index.encoder_id != before
    state = index.fit_state()
    assert (state.passages, state.unknown, state.unknown_then) == (60, 0.0, 0.0)
    assert index.retriever("dense").search("ribosome", k=1)[0].title in ("enzyme", "ribosome")
    assert index.build().refit is None
    index.add(write_documents(OTHERS, 64, first=60))
    assert index.build().refit is None  # of known words


@pytest.mark.parametrize(("new", "refitted"), [(1, False), (4, True)])
def test_new_passages_are_watched_apart(new: int, refitted: bool, index: Index) -> None:
    """Their words are hardly of weight among all, and questions about them lose by the fit."""
    documents = [Document(f"new{number}", "harbour", f"A {OTHERS[number]} near a harbour.") for number in range(new)]
    index.add(documents)
    before = index.encoder_id
    with patch.object(fit_watch, "UNKNOWN_LIMIT", 0.1):  # of all words, 3 %; of those of the new ones, a third
        refit = index.build().refit
    assert (refit is not None) is refitted
    assert (index.encoder_id != before) is refitted
    if refit is not None:
        assert refit.reason.endswith("% of the words of the 6% of the passages that came after it")
    state = index.fit_state()
    assert state.unknown_new == 0.0  # of few, or of none after a new fit


def test_mass_edits_in_known_words_renew_the_fit(index: Index) -> None:
    """No word is unknown, and the directions are of other texts."""
    edited = [Document(document.id, document.title, f"{document.text} The same again.") for document in index.documents]
    with patch.object(fit_watch, "UNKNOWN_LIMIT", 1.0):
        index.add(edited[:10], source="notes")
        assert index.build().refit is None
        index.add(edited[10:30], source="notes")
        refit = index.build().refit
    assert refit.reason == "it did not know 50% of the passages, which came after it"


def test_moved_passages_are_not_new(index: Index) -> None:
    """Other ids, other metadata and another place in a document leave the texts that the encoder was fitted to."""
    before, documents = index.encoder_id, write_documents(SUBJECTS, 60)
    moved = [Document(f"moved-{each.id}", each.title, each.text, {"commit": "1f3a"}) for each in documents]
    index.replace(moved, source="notes")
    with patch.object(LsaEncoder, "encode_documents", side_effect=AssertionError("a text was encoded again")):
        assert index.build("hybrid").refit is None
    state = index.fit_state()
    assert (index.encoder_id, state.new, state.unknown_new) == (before, 0.0, 0.0)


def test_old_passages_that_enter_the_sample_are_not_new(index: Index) -> None:
    """The sample is full: where passages leave, others follow that are as old."""
    with patch.object(fit_watch, "SAMPLED_PASSAGES", 10):
        for count in (59, 40):
            index.replace(write_documents(SUBJECTS, count), source="notes")
            assert index.build("hybrid").refit is None
            fit = index.encoders.fit(index.encoder_id)
            assert fit is not None
            words = index.encoders.unknown_words(fit)
            assert (len(words.counts), words.new) == (10, {})


def test_words_of_few_new_passages_among_many_are_counted(tree_index: Index) -> None:
    """In a sample of all passages there would be none, or too few to tell."""
    others = [Document(f"new{number}", "harbour", f"A {OTHERS[number]} near a harbour.") for number in range(4)]
    tree_index.add(others)
    with patch.object(fit_watch, "SAMPLED_PASSAGES", 8), patch.object(fit_watch, "UNKNOWN_LIMIT", 0.1):
        before = tree_index.encoders.fit(tree_index.encoder_id)
        assert before is not None
        tree_index.build("hybrid")  # of some parts, so the fit stays
        words = tree_index.encoders.unknown_words(before)
        assert (len(words.counts), len(words.new), words.new_share) == (8, 4, 4 / 64)
        assert words.unknown_new == pytest.approx(1 / 3, abs=0.1)
        refit = tree_index.build().refit
    assert refit.reason.endswith("% of the words of the 6% of the passages that came after it")


@pytest.mark.parametrize("lost", ["*.words", "*/fitted_texts.u32"])
def test_fit_of_an_earlier_version_has_no_new_passages(lost: str, tree_index: Index) -> None:
    """It does not say which texts it was fitted to: it is renewed by unknown words of all passages alone."""
    for file in (tree_index.folder / "encoders").glob(lost):
        file.unlink()
    for file in (tree_index.folder / "encoders").glob("*/hashes.json"):
        durable_files.write_hashes(file.parent)
    tree_index.add([Document(f"new{number}", "ferry", f"A ferry by a lantern, {number}.") for number in range(3)])
    assert tree_index.build("hybrid").refit is None
    fit = tree_index.encoders.fit(tree_index.encoder_id)
    assert fit is not None
    assert len(tree_index.encoders.unknown_words(fit).new) == (3 if lost == "*.words" else 0)


def test_sync_of_few_documents_looks_up_their_words_alone(index: Index) -> None:
    """Passages that stay were counted before, unless the counts are lost."""
    index.add(write_documents(SUBJECTS, 63, first=60))
    with patch.object(LsaEncoder, "check_words", autospec=True, side_effect=LsaEncoder.check_words) as lookup:
        assert index.build().refit is None
    assert lookup.call_count == 3
    fit = index.encoders.fit(index.encoder_id)
    assert fit is not None
    words = index.encoders.unknown_words(fit).total.words
    assert words > 63
    (counts,) = (index.folder / "encoders").glob("*.words")
    counts.write_bytes(counts.read_bytes()[:-9])
    assert index.encoders.unknown_words(fit).total.words == 0
    index.add(write_documents(SUBJECTS, 64, first=63))
    with patch.object(LsaEncoder, "check_words", autospec=True, side_effect=LsaEncoder.check_words) as lookup:
        index.build()
    assert lookup.call_count == 64
    assert index.encoders.unknown_words(fit).total.words > words


def test_what_was_paid_for_keeps_its_fit(tree_index: Index) -> None:
    """Summaries of clusters depend on it: the command and what they cost are printed, and the command works."""
    tree = next(key for key, record in tree_index.manifest.parts.items() if record.name == "summary_tree")
    paid = tree_index.manifest.parts[tree].model_copy(update={"money": 0.31})
    tree_index.save(parts={**tree_index.manifest.parts, tree: paid})
    before = tree_index.encoder_id
    new = [Document(f"new {document.id}", document.title, document.text) for document in write_documents(OTHERS, 8)]
    tree_index.add(new)
    assert tree_index.build().refit is None
    assert tree_index.encoder_id == before
    tree_index.save(
        parts={
            **tree_index.manifest.parts,
            tree: tree_index.manifest.parts[tree].model_copy(update={"money": 0.31}),
        }
    )
    tree_index.close()
    message = "What was paid for depends on its fit (summary_tree: $0.31 when made), so it stays. To fit it to these: "
    command = f"ragindex index --index {tree_index.folder} --refit"
    for shown in (
        ragindex("parts", "--index", tree_index.folder),
        ragindex("doctor", "--index", tree_index.folder),
    ):
        assert message in " ".join(shown.out.split())
    listed = ragindex("parts", "--index", tree_index.folder, "--json", "-").json["fit"]
    assert listed["unknown"] > 0.05
    assert listed["age_days"] == pytest.approx(0, abs=0.1)
    done = ragindex(*command.split()[1:])
    assert done.code == 0
    assert "lsa was fitted again in " in done.out
    assert message not in ragindex("parts", "--index", tree_index.folder).out


def test_words_of_questions_are_counted(index: Index) -> None:
    retriever = index.retriever("dense")
    retriever.search("A harbour or a violin?")
    retriever.search_many(["ribosome of granite", "lantern"])
    index.retriever("bm25").search("plasmid")  # it asks no encoder
    state = index.fit_state()
    assert (state.words_asked, state.unknown_asked) == (5, 0.2)


def test_commands_report_each_refit(tree_index: Index, tmp_path: Path) -> None:
    tree_index.close()
    folder = tmp_path / "notes"
    folder.mkdir()
    for number, subject in enumerate(OTHERS):
        (folder / f"{subject}.md").write_text(f"A {subject} near a {OTHERS[number - 1]}.")
    added = ragindex("add", folder, "--index", tree_index.folder)
    assert "lsa was fitted again in " in added.err
    assert "because it did not know " in added.err
    (folder / "kinase.md").write_text("# Glacier\n\nMoraines of a glacier, firn and seracs of ice.")
    updated = ragindex("index", folder, "--index", tree_index.folder)
    words = " ".join(updated.out.split())
    assert "because it did not know " in words
    assert "and built again: " in words
    assert "The encoder lsa was fitted today to 68 passages in " in words
    assert ragindex("index", "--index", tree_index.folder, "--json", "-").json["fit"]["passages"] == 68
