"""The command `compare` over documents and questions of one's own."""

import json
import re
from pathlib import Path

import pytest
from command_line import QUESTIONS, failed, make_desk, ragindex

GIVEN = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25")
RESULTS = Path("ragindex-results/notes")


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_desk(tmp_path, monkeypatch)


def test_results_of_two_methods() -> None:
    done = ragindex(*GIVEN[:-1], "bm25,hybrid(depth=3)", "--k", "1,3")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()[2:4]] == ["bm25", "hybrid(depth=3)"]
    assert "notes (folder): 4 documents, 4 passages, 2 questions; k = 1, 3" in done.out
    value = json.loads((RESULTS / "comparison.json").read_text())
    assert [method["label"] for method in value["methods"]] == ["bm25", "hybrid(depth=3)"]
    assert value["methods"][0]["metrics"]["R@1"] == 0.75
    assert {path.name for path in (RESULTS / "runs").iterdir()} == {"bm25.trec", "hybrid(depth=3).trec"}
    assert len((RESULTS / "per_query.jsonl").read_text().splitlines()) == 4
    assert (RESULTS / "qrels.trec").read_text().splitlines()[0] == "q00001 0 hill.md 1"
    assert Path("ragindex-workspaces/notes/workspace.json").exists()
    assert "Did you mean bm25" in failed(2, *GIVEN[:-1], "bm52")


def test_json_alone_on_standard_output() -> None:
    value = ragindex(*GIVEN, "--json", "-").json
    assert value == json.loads((RESULTS / "comparison.json").read_text())
    beside = ragindex(*GIVEN, "--json", "figures.json")
    assert json.loads(Path("figures.json").read_text()) == value
    assert "bm25" in beside.out
    for record in RESULTS.glob("inputs-*.json"):
        record.unlink()
    again = ragindex(*GIVEN, "--json", "-").json
    (note,) = again.pop("notes")
    assert re.fullmatch(r"bm25: 2 answers read from \d\d:\d\d; --fresh asks again", note)
    assert again == {name: content for name, content in value.items() if name != "notes"}


def test_questions_without_gold() -> None:
    printed = ragindex(*GIVEN[:3], "questions.txt", *GIVEN[4:], "--out", "elsewhere").out
    assert "No quality was measured" in printed
    assert "use the best" not in printed
    assert "--out retriever --method METHOD" in printed
    assert json.loads(Path("elsewhere/comparison.json").read_text())["methods"][0]["metrics"] == {}


def test_a_study_of_a_file() -> None:
    Path("study.yaml").write_text(
        "name: seeds\ncorpora: [notes]\nquestions: questions.csv\nseeds: [0, 1]\nk: [1]\nmethods: [bm25, hybrid]\n"
        "grid: ['hybrid:rrf_k=1,60']\nfail-below: ['bm25:R@1=0.1']\n"
    )
    assert "notes, encoder lsa, seed 1" in ragindex("compare", "--config", "study.yaml").out
    folder = Path("ragindex-results/seeds")
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("inputs-"))
    assert names == ["01-notes", "02-notes", "report.html", "study.json"]
    value = json.loads((folder / "02-notes" / "comparison.json").read_text())
    assert [method["label"] for method in value["methods"]] == ["bm25", "hybrid(rrf_k=1)", "hybrid(rrf_k=60)"]


def test_files_that_cannot_be_read_are_left_out() -> None:
    """The results are written all the same; only --skip-bad makes it a success, and --strict stops at once."""
    Path("notes/empty.txt").write_text("")
    Path("notes/picture.png").write_bytes(b"\x89PNG")
    left_out = ragindex(*GIVEN, "--out", "results")
    assert (left_out.code, "1 file that cannot be read was left out" in left_out.err) == (11, True)
    comparison = json.loads(Path("results/comparison.json").read_text())
    assert [note.rpartition("/")[2] for note in comparison["notes"] if note.startswith("skipped: ")] == [
        "empty.txt: expected a file with text in it; found none."
    ]
    assert "empty.txt: expected a file with text in it; found none." in failed(3, *GIVEN, "--strict")
    Path("questions.csv").write_text(QUESTIONS + "Who?,,nobody.md\n")
    skipped = ragindex(*GIVEN, "--skip-bad")
    assert skipped.code == 0
    printed = skipped.out + skipped.err
    assert all(text in printed for text in ("skipped: ", "nobody.md", "ignored: 1 picture (picture.png)"))


def test_a_file_of_settings_and_flags_that_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUESTIONS_FILE", "questions.csv")
    Path("study.yaml").write_text(
        "data: notes\nquestions: ${QUESTIONS_FILE}\nk: [2, 3]\nseed: 5\njson: '-'\nskip-bad: true\n"
        "methods:\n- bm25\n- name: hybrid\n  label: deep\n  params: {depth: 50}\n- {name: hybrid, label: flat}\n"
    )
    value = ragindex("compare", "--config", "study.yaml", "--seed", "7").json
    labels = [(method["name"], method["label"]) for method in value["methods"]]
    assert labels == [("bm25", "bm25"), ("hybrid", "deep"), ("hybrid", "flat")]
    assert (value["methods"][1]["params"]["depth"], value["seed"]) == (50, 7)
    assert {name.partition("@")[2] for name in value["methods"][0]["metrics"]} == {"2", "3"}
    (method,) = ragindex("compare", "--config", "study.yaml", "--methods", "bm25", "--k", "1").json["methods"]
    names = ("R", "full_R", "Success", "RR", "nDCG", "one_doc_R")
    assert (method["label"], set(method["metrics"])) == ("bm25", {f"{name}@1" for name in names})
