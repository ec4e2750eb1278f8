"""The command `questions` and its file."""

from pathlib import Path

import pytest
from command_line import failed, make_desk, ragindex, write

from ragindex_eval.data import datasets

NOTES = {
    "mill.md": "# Old Mill\n\nThe Old Mill was founded in 1871 by Ada Miller. It has three wheels.\n",
    "brother.md": '# Brother\n\n"Brother" is a song by the rock band Pale Jam.\n',
    "jam.md": "# Pale Jam\n\nPale Jam is a rock band formed in 1990 in Lindau.\n",
    "=formula.md": "# Formula\n\nFormula was founded in 1902 by Bea Miller.\n",
    "a;b.md": "# Semicolon\n\nSemicolon was founded in 1903 by Cee Miller.\n",
}


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_desk(tmp_path, monkeypatch)
    (tmp_path / "papers").mkdir()
    for name, text in NOTES.items():
        (tmp_path / "papers" / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_command_writes_what_compare_reads(desk: Path) -> None:
    done = ragindex("questions", "papers", "--n", 4, "--out", "drafted.csv", "--json", "-")
    assert done.code == 0
    assert (done.json["single"], done.json["two"]) == (3, 1)
    assert done.json["next"] == "ragindex compare papers --questions drafted.csv"
    assert done.json["notes"][0].startswith("2 documents are left out: their ids hold a semicolon")
    assert done.json["notes"][1].startswith("Only 1 of 2 questions over two documents")
    read = datasets.read_dataset(desk / "papers", questions=desk / "drafted.csv")
    assert [query.text for query in read.queries] == [question["question"] for question in done.json["questions"]]
    assert read.gold is not None
    assert [sorted(gold.doc_ids) for gold in read.gold.values()] == [
        sorted(question["documents"]) for question in done.json["questions"]
    ]
    assert [gold.answers for gold in read.gold.values()] == [
        (question["answer"],) for question in done.json["questions"]
    ]
    assert sorted(gold.kind for gold in read.gold.values()) == ["single", "single", "single", "two"]
    texts = {document.id: document.text for document in read.corpus.documents}
    quoted = [
        [" ".join(texts[place.doc_id][slice(*word)] for word in place.words) for place in gold.evidence]
        for gold in read.gold.values()
    ]
    assert quoted == [question["source"] for question in done.json["questions"]]


def test_what_the_command_says() -> None:
    done = ragindex("questions", "papers", "--n", 2, "--out", "drafted.csv", "--language", "english")
    assert done.out.splitlines() == [
        "2 questions (1 over one document, 1 over two) in drafted.csv. "
        "They are drafts: accept, edit or delete each line.",
        "Then: ragindex compare papers --questions drafted.csv --language english",
    ]


def test_the_command_can_leave_titles_out(desk: Path) -> None:
    text = "The leaves are steamed for about a minute, and rolled by hand in three steps."
    write(desk / "drinks", {"tea.md": f"# Green tea\n\n{text}"})
    arguments = ("questions", "drinks", "--n", 1, "--out", "drafted.csv", "--json", "-", "--without-titles")
    (unnamed,) = ragindex(*arguments).json["questions"]
    assert unnamed["question"] == f"Which number is missing in “{text.removesuffix('.').replace('three', '…')}”?"


def test_an_edited_file_is_not_replaced(desk: Path) -> None:
    (desk / "drafted.csv").write_text("mine")
    message = failed(2, "questions", "papers", "--out", "drafted.csv")
    assert message == "drafted.csv already exists and may have been edited. Name another --out, or pass --overwrite."
    assert (desk / "drafted.csv").read_text() == "mine"
    assert ragindex("questions", "papers", "--out", "drafted.csv", "--overwrite").code == 0
    assert (desk / "drafted.csv").read_text(encoding="utf-8-sig").startswith('"question","answer","documents"')


def test_nothing_to_draft_from(desk: Path) -> None:
    (desk / "empty").mkdir()
    (desk / "empty" / "a.txt").write_text("nothing to see\n")
    message = failed(3, "questions", "empty", "--out", "drafted.csv")
    assert message.startswith(
        "empty: expected sentences that a question can be drafted from, with names, dates or numbers;"
    )
    assert message.endswith("run: ragindex compare empty --questions questions.txt.")
    assert not (desk / "drafted.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--out", "drafted.txt"], 2, "--out must be a file ending in .csv, which compare reads. Got 'drafted.txt'"),
        (["--out", "d.csv", "--language", "klingon"], 2, "Unknown text analysis 'klingon'"),
        (["--out", "papers/mill.md/d.csv"], 5, "is not a folder"),
    ],
)
def test_wrong_usage(arguments: list[str], code: int, message: str) -> None:
    assert message in failed(code, "questions", "papers", *arguments)


def test_another_language_is_noticed(desk: Path) -> None:
    text = (
        "Der Turm wurde im Jahr 1856 von Anna Weber gebaut, und er steht noch heute am Hafen von Lindau. Dort ist es "
    )
    (desk / "papers" / "turm.txt").write_text(
        text + "schön, und wer will, der kann auf den Turm und von ihm auf den See sehen."
    )
    done = ragindex("questions", "papers/turm.txt", "--out", "drafted.csv")
    assert "The corpus looks like german; pass --language german" in done.err
    done = ragindex("questions", "papers/turm.txt", "--out", "german.csv", "--language", "german", "--json", "-")
    assert [question["answer"] for question in done.json["questions"]] == ["Anna Weber"]
