"""Judged questions and gates that name a document by the id that it had before go on with its new one, and say so."""

from pathlib import Path

import pytest
from command_line import ragindex
from unrecorded import record_nothing

from ragindex.corpus.judgements import add_judgement
from ragindex_eval.data.datasets import read_dataset

SUBJECTS = ("granite", "lantern", "meadow", "violin", "orchard", "chapel", "ferry", "harbour")
NOTE = "questions name 1 renamed document: granite.md → stone.md"


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    record_nothing(monkeypatch)
    folder = tmp_path / "pages"
    folder.mkdir()
    for subject in SUBJECTS:
        (folder / f"{subject}.md").write_text(f"# The {subject}\n\nThe {subject} is near the old town.\n\nIt is known.")
    rows = "".join(f"Where is the {subject}?,,{subject}.md\n" for subject in SUBJECTS)
    (tmp_path / "questions.csv").write_text(f"question,answer,documents\n{rows}")
    return folder


COMPARED = ("pages", "--questions", "questions.csv", "--methods", "bm25", "--index", "w", "--json", "-", "--out", "out")


@pytest.mark.parametrize("indexed", [True, False])
def test_questions_follow_renamed_documents(indexed: bool, pages: Path) -> None:
    assert ragindex("compare", *COMPARED).code == 0
    (pages / "granite.md").rename(pages / "stone.md")
    if indexed:
        report = ragindex("index", "pages", "--index", "w").out
        assert "1 document renamed (granite.md → stone.md)" in report
    done = ragindex("compare", *COMPARED)
    assert done.code == 0
    assert NOTE in done.json["notes"]
    (method,) = done.json["methods"]
    assert method["metrics"]["R@5"] == 1.0
    own = ragindex("compare", *COMPARED[1:])
    assert (own.code, NOTE in own.json["notes"]) == (0, True)


def test_evidence_offsets_follow_renamed_documents(pages: Path) -> None:
    text = (pages / "granite.md").read_text()
    start = text.index("near the old town")
    rows = f"Where is the granite?,near the old town,granite.md,granite.md:{start}-{start + 17}\n"
    Path("questions.csv").write_text(f"question,answer,documents,evidence\n{rows}")
    before = ragindex("compare", *COMPARED)
    (pages / "granite.md").rename(pages / "stone.md")
    done = ragindex("compare", *COMPARED)
    assert (before.code, done.code) == (0, 0), done.err
    assert NOTE in done.json["notes"]
    (own,), (renamed,) = (each.json["methods"] for each in (before, done))
    measured = {name: value for name, value in own["metrics"].items() if name.startswith("evidence_R@")}
    assert measured
    assert measured.items() <= renamed["metrics"].items()


def test_new_file_under_the_old_name_takes_the_id(pages: Path) -> None:
    ragindex("compare", *COMPARED)
    (pages / "granite.md").rename(pages / "stone.md")
    ragindex("index", "pages", "--index", "w")
    (pages / "granite.md").write_text("# Another page\n\nIt has nothing of the one before.")
    done = ragindex("compare", *COMPARED)
    assert (done.code, NOTE in done.json["notes"]) == (0, False)


@pytest.mark.parametrize(("grades", "gold"), [((2, 0), 0), ((0, 2), 2), ((2, 1), 1)])
def test_judgement_under_the_new_name_is_the_later_one(grades: tuple[int, int], gold: int, pages: Path) -> None:
    """A document that is judged again under its new id is not gold by its earlier grade."""
    judged = Path("judged")
    for question in ("Where is the granite?", "Which rock is it?"):
        add_judgement(judged, question, "lantern.md", 1)
    for id, grade in zip(("granite.md", "stone.md"), grades, strict=True):
        add_judgement(judged, "Which rock is it?", id, grade)
    (pages / "granite.md").rename(pages / "stone.md")
    dataset = read_dataset(pages, questions=judged, list_renames=lambda corpus: {"granite.md": "stone.md"})
    assert dataset.gold is not None
    (of_rock,) = (dataset.gold[query.id] for query in dataset.queries if query.text == "Which rock is it?")
    assert of_rock.grades.get("stone.md", 0) == gold


def test_gate_follows_renamed_documents(pages: Path) -> None:
    assert ragindex("compare", *COMPARED).code == 0
    (pages / "granite.md").rename(pages / "stone.md")
    gate = ("gate", "bm25", "--against", "out", "--data", "pages", "--questions", "questions.csv", "--index", "w")
    done = ragindex(*gate)
    assert done.code == 0, done.err
    assert done.out.startswith("PASS: ")
    assert "Gold documents of the saved results were renamed: granite.md → stone.md" in done.err
