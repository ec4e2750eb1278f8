"""What the commands print, held in text files. UPDATE_SNAPSHOTS=1 writes the files anew: look at the difference."""

import json
from pathlib import Path

import pytest
from command_line import QUESTIONS, TEXTS, ragindex, write
from snapshots import SENTENCE, assert_matches, masked
from unrecorded import record_nothing

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///runs.db")
    record_nothing(monkeypatch)
    write(tmp_path / "notes", TEXTS)
    (tmp_path / "questions.csv").write_text(QUESTIONS)


def test_compare_and_report() -> None:
    given = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25,dense", "--k", "1,3")
    done = ragindex(*given, "--encoder", "lsa:1")  # one dimension: cosines of 1, equal on every processor
    assert done.code == 0
    assert_matches(masked(done.out, *SENTENCE), SNAPSHOTS / "compare.txt")
    assert_matches(masked(ragindex("report", "ragindex-results/notes").out), SNAPSHOTS / "report.txt")


def test_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragindex.llm.tokens._loaded", lambda name: None)  # the same with and without a network
    done = ragindex("estimate", "notes", "--methods", "bm25(over=triples)", "--llm", "openai:gpt-4o-mini")
    assert done.code == 0
    assert_matches(masked(done.out), SNAPSHOTS / "estimate.txt")


def test_questions() -> None:
    text = "The mill of Lindau was built in 1871. It ground rye for the town of Lindau until the flood of 1904."
    write(Path("more"), {"mill.txt": text, "flood.txt": "The flood of 1904 destroyed eleven bridges in Lindau."})
    done = ragindex("questions", "more", "--out", "drafted.csv", "--n", "4")
    assert_matches(masked(done.out + done.err), SNAPSHOTS / "questions.txt")


STUDY = """
methods: [{name: bm25, label: BM25}, {name: bm25, label: "[b]triples[/]", params: {over: triples}}]
k: 1,3
published:
  source: "<script>alert(1)</script> A paper, Table 1"
  unit: percent
  metrics: [R@1, R@3]
  baseline: BM25
  conditions: {questions: 2, llm: gpt-4o}
  unchecked: ["the <b>moon</b>"]
  data:
    notes:
      conditions: {documents: 4, llm: offline}
      figures: {BM25: [75, 12.5], "[b]triples[/]": [60.0, 12.5]}
    "<i>books</i>":
      figures: {BM25: [41.7, 50], "<u>dense</u>": [45.6, null]}
"""


def test_compare_with_published_figures() -> None:
    Path("study.yaml").write_text(STUDY)
    arguments = ("compare", "notes", "--questions", "questions.csv", "--config", "study.yaml", "--published-data")
    done = ragindex(*arguments, "<i>books</i>", "--out", "books")
    assert done.code == 0
    assert_matches(masked(done.out, *SENTENCE), SNAPSHOTS / "published.txt")
    html = Path("books/report.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt; A paper, Table 1, &lt;i&gt;books&lt;/i&gt;" in html
    assert "&lt;u&gt;dense&lt;/u&gt;" in html
    assert "the &lt;b&gt;moon&lt;/b&gt;" in html
    assert not any(tag in html for tag in ("<script", "<i>", "<u>", "<b>moon"))
    ragindex("report", "books")
    assert Path("books/report.html").read_text() == html
    figures = json.loads(Path("books/comparison.json").read_text())["published"]["figures"]
    assert [(figure["method"], figure["metric"], figure["verdict"]) for figure in figures] == [
        ("BM25", "R@1", "not comparable"),
        ("BM25", "R@3", "not comparable"),
        ("<u>dense</u>", "R@1", "not measured"),
    ]
    same = ragindex(*arguments, "notes", "--llm", "offline", "--json", "-").json["published"]
    assert [condition["equal"] for condition in same["conditions"]] == [True, True, True]
    verdicts = [(figure["published"], figure["here"], figure["verdict"]) for figure in same["figures"][:2]]
    assert verdicts == [(0.75, 0.75, "within the interval"), (0.125, 1.0, "differs")]
    assert "name this data set with --published-data (notes, <i>books</i>)" in ragindex(*arguments[:-1]).out
    wrong = ragindex(*arguments, "books")
    assert wrong.code == 2
    assert "has no figures on 'books'. Available: notes, <i>books</i>." in wrong.err
