"""Reading the corpora of benchmark files, and recognising formats."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.corpus import FORMATS, content_id, read
from ragindex.corpus.benchmarks import join_sentences
from ragindex.corpus.formats import list_source_files
from ragindex.errors import DataError, UsageError
from ragindex.types import Document


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in value), encoding="utf-8")
    else:
        path.write_text(json.dumps(value), encoding="utf-8")
    return path


def contents(path: Path, **options: Any) -> list[tuple[str, str]]:
    return [(document.title, document.text) for document in read(path, **options).documents]


def hashed(title: str, text: str, **metadata: Any) -> Document:
    return Document(content_id(title, text), title, text, metadata)


MUSIQUE = {
    "id": "2hop__1_2",
    "question": "Who?",
    "paragraphs": [
        {"idx": 0, "title": "Same", "paragraph_text": "One.", "is_supporting": True},
        {"idx": 1, "title": "Same", "paragraph_text": "Two.", "is_supporting": False},
    ],
}
HOTPOT = {
    "_id": "h1",
    "question": "What?",
    "supporting_facts": [["A", 0]],
    "context": [["A", ["First.", " Second."]], ["B", ["First.", "Second."]]],
}


def test_an_id_is_the_hash_of_title_and_text() -> None:
    canonical = '["Titre","Été"]'.encode()
    assert content_id("Titre", "Été") == hashlib.sha256(canonical).hexdigest()[:16]


@given(st.text(), st.text(), st.text(), st.text())
def test_different_contents_have_different_ids(title: str, text: str, other: str, another: str) -> None:
    assert (content_id(title, text) == content_id(other, another)) == ((title, text) == (other, another))


@pytest.mark.parametrize(
    ("sentences", "text"),
    [
        (["One.", " Two.", " Three."], "One. Two. Three."),
        (["One.", "Two."], "One. Two."),
        (["One.", "Two.", " Three."], "One.Two. Three."),
        ([" One."], " One."),
        ([], ""),
    ],
)
def test_sentences_bring_their_own_spaces_or_get_them(sentences: list[str], text: str) -> None:
    assert join_sentences(sentences) == text


def test_jsonl_keeps_ids_and_metadata(tmp_path: Path) -> None:
    path = write(
        tmp_path / "notes.jsonl",
        [
            {"_id": "a", "title": "T", "text": "x", "metadata": {"page": 3, "tags": ["u", "v"]}, "year": 1999.5},
            {"id": 7, "text": "y", "title": None, "metadata": None},
            {"_id": "b", "id": "other", "text": "x", "title": "T"},
            {"text": "z"},
        ],
    )
    corpus = read(path)
    assert (corpus.name, corpus.format, corpus.undivided) == ("notes", "jsonl", True)
    assert (corpus.repeats, corpus.skipped) == (0, ())
    assert corpus.documents == (
        Document("a", "T", "x", {"page": 3, "tags": ["u", "v"], "year": 1999.5}),
        Document("7", "", "y", {}),
        Document("b", "T", "x", {"id": "other"}),
        hashed("", "z"),
    )


def test_jsonl_passes_over_marks_and_blank_lines_and_knows_lines_from_separators(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes('\ufeff{"text": "a\u2028b\x85c"}\r\n\n   \n{"text": "nul \\u0000 \x7f"}'.encode())
    corpus = read(path)
    assert [document.text for document in corpus.documents] == ["a\u2028b\x85c", "nul \x00 \x7f"]
    assert corpus.name == tmp_path.name


def test_documents_without_ids_are_one_and_repeats_are_counted(tmp_path: Path) -> None:
    first, same, other = (
        {"title": "T", "text": "x"},
        {"title": "T", "text": "x", "year": 1},
        {"title": "T", "text": "y"},
    )
    corpus = read(write(tmp_path / "c.jsonl", [first, same, other, first]))
    assert corpus.documents == (hashed("T", "x"), hashed("T", "y"))
    assert corpus.repeats == 2


def test_beir_reads_the_corpus_alone(tmp_path: Path) -> None:
    write(tmp_path / "set" / "corpus.jsonl", [{"_id": "d1", "title": "T", "text": "x", "metadata": {}}])
    assert read(tmp_path / "set").format == "jsonl"
    write(tmp_path / "set" / "queries.jsonl", [{"_id": "q1", "text": "Where?"}])
    corpus = read(tmp_path / "set")
    assert (corpus.name, corpus.format, corpus.undivided) == ("set", "beir", True)
    assert corpus.documents == (Document("d1", "T", "x", {}),)


@pytest.mark.parametrize("given_file", ["", "questions.json"])
def test_hipporag_folder_with_a_list(tmp_path: Path, given_file: str) -> None:
    leaks = {"is_supporting": True, "idx": 0, "question_id": "q", "university": "only on gold"}
    write(
        tmp_path / "pair" / "corpus.json",
        [
            {"title": "T", "text": "x", "paragraph_text": "x", **leaks},
            {"title": "T", "paragraph_text": "y", **leaks},
            {"title": "S", "text": ["One.", " Two."], "metadata": {"year": 1999}},
            {"_id": "given", "title": "T", "text": "x"},
        ],
    )
    write(tmp_path / "pair" / "questions.json", [])
    corpus = read(tmp_path / "pair" / given_file)
    assert (corpus.name, corpus.format, corpus.undivided) == ("pair", "hipporag", True)
    assert corpus.documents == (
        hashed("T", "x"),
        hashed("T", "y"),
        hashed("S", "One. Two.", year=1999),
        Document("given", "T", "x", {}),
    )


def test_hipporag_pair_with_a_mapping(tmp_path: Path) -> None:
    write(tmp_path / "case_corpus.json", {"A": ["One.", " Two."], "B": "Text.", "C": ["One.", "Two."]})
    corpus = read(write(tmp_path / "case.json", [HOTPOT]))
    assert (corpus.name, corpus.format) == ("case", "hipporag")
    assert corpus.documents == (hashed("A", "One. Two."), hashed("B", "Text."), hashed("C", "One. Two."))


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_musique_is_the_union_of_paragraphs(tmp_path: Path, suffix: str) -> None:
    second = {**MUSIQUE, "paragraphs": [MUSIQUE["paragraphs"][0], {"title": "New", "paragraph_text": "Three."}]}
    corpus = read(write(tmp_path / f"dev{suffix}", [MUSIQUE, second]))
    assert (corpus.name, corpus.format, corpus.repeats) == ("dev", "musique", 1)
    assert corpus.documents == (hashed("Same", "One."), hashed("Same", "Two."), hashed("New", "Three."))


@pytest.mark.parametrize(("extra", "format"), [({}, "hotpotqa"), ({"evidences": []}, "2wikimultihopqa")])
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_contexts_of_hotpotqa_and_2wiki(tmp_path: Path, extra: dict[str, Any], format: str, suffix: str) -> None:
    corpus = read(write(tmp_path / f"dev{suffix}", [{**HOTPOT, **extra}, {**HOTPOT, **extra}]))
    assert (corpus.format, corpus.repeats, corpus.undivided) == (format, 2, True)
    assert corpus.documents == (hashed("A", "First. Second."), hashed("B", "First. Second."))


def test_a_format_given_overrides_the_one_recognised(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", [{"_id": "d", "text": "x"}])
    (tmp_path / "note.txt").write_text("A note.")
    assert contents(tmp_path) == [("", "x")]
    assert contents(tmp_path, format="folder") == [("corpus", "_id: d\ntext: x"), ("note", "A note.")]
    odd = tmp_path / "lines.data"
    odd.write_text('{"text": "y"}\n')
    assert contents(odd, format="jsonl") == [("", "y")]
    write(tmp_path / "pair_corpus.json", {"A": "alone"})
    pair = write(tmp_path / "pair.json", [MUSIQUE])
    assert contents(pair) == [("A", "alone")]
    assert contents(pair, format="musique") == [("Same", "One."), ("Same", "Two.")]


def test_the_formats() -> None:
    published = ("beir", "hipporag", "musique", "hotpotqa", "2wikimultihopqa")
    single_hop = ("musique-single-hop", "musique-single-hop-filled")
    assert ("folder", "jsonl", *published, *single_hop, "ircot", "multihop-rag", "quality", "asqa") == FORMATS


@pytest.mark.parametrize(
    ("format", "hint"),
    [
        ("hotpot", "'hotpot'. Did you mean hotpotqa?"),
        ("musiqe", "Did you mean musique?"),
        ("parquet?!", "Available: folder, jsonl, beir, hipporag, musique, hotpotqa, 2wikimultihopqa, musique-"),
    ],
)
def test_an_unknown_format_is_answered_with_near_names(tmp_path: Path, format: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, format=format)
    assert hint in str(caught.value)


def test_the_first_item_of_a_large_array_is_found(tmp_path: Path) -> None:
    text = "word " * 1_000_000  # longer than what is looked at first
    item = {**MUSIQUE, "paragraphs": [{"title": "Long", "paragraph_text": text}]}
    corpus = read(write(tmp_path / "large.json", [item, MUSIQUE]))
    assert corpus.format == "musique"
    assert corpus.documents[0] == hashed("Long", text)


def test_control_characters_and_every_script_are_kept(tmp_path: Path) -> None:
    text = "\x00\x01\x1b[31m\x7f\u200b\u202e العربية 漢字 \U0001f469 \U0010ffff e\u0301"
    assert contents(write(tmp_path / "c.jsonl", [{"title": "\x00", "text": text}])) == [("\x00", text)]


def test_names_do_not_hold_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "mine" / "corpus.jsonl", [{"text": "x"}])
    monkeypatch.chdir(tmp_path / "mine")
    assert read(".").name == "mine"
    assert read(Path("corpus.jsonl")).name == "mine"


def test_nothing_under_the_path(tmp_path: Path) -> None:
    for name in ("absent", "absent.json", "n" * 5000, "nul\x00"):
        for format in (None, *FORMATS):
            with pytest.raises(DataError, match="expected a file or a folder; found no such path"):
                read(tmp_path / name, format=format)


def test_source_files_are_all_that_may_be_read(tmp_path: Path) -> None:
    def make_files(*names: str) -> None:
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("")

    def listed(name: str) -> list[str]:
        return [path.relative_to(tmp_path).as_posix() for path in list_source_files(tmp_path / name)]

    make_files("notes/b.md", "notes/deep/a.png", "notes/.hidden/a.md", "notes/.b.md")
    assert listed("notes") == ["notes/b.md", "notes/deep/a.png"]
    make_files("some/two.json", "some/questions.json")
    assert listed("some/two.json") == ["some/two.json", "some/two_corpus.json", "some/corpus.json"]
    assert listed("some/questions.json") == ["some/questions.json", "some/corpus.json"]
    raw = [f"raw_data/2wiki/{split}.json" for split in ("train", "dev", "test")]
    make_files("processed_data/2wiki/dev_subsampled.jsonl", *raw)
    assert listed("processed_data/2wiki") == ["processed_data/2wiki/dev_subsampled.jsonl", *raw]
    assert list_source_files(Path("world:1k")) == []
