"""The comparison as a function, over files as a user has them, and its result."""

import json
from pathlib import Path

import pytest
from command_line import QUESTIONS, TEXTS, write

from ragindex.corpus import read
from ragindex.errors import MissingExtraError, UnknownNameError, UsageError
from ragindex_eval import compare
from ragindex_eval.data import datasets
from ragindex_eval.result import Result
from ragindex_eval.results.files import load_results


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    desk = tmp_path_factory.mktemp("api")
    write(desk / "notes", TEXTS)
    (desk / "questions.csv").write_text(QUESTIONS)
    return desk


@pytest.fixture(scope="module")
def result(folder: Path) -> Result:
    methods = ["bm25", "hybrid(depth=3)"]
    return compare(folder / "notes", methods, questions=folder / "questions.csv", index=folder / "index", k="1,3")


def test_figures_by_method_and_name(result: Result) -> None:
    assert result["bm25"]["R@1"] == 0.75
    assert result["bm25"]["unanswered"] == 0
    assert set(result["bm25"]) >= {"R@1", "R@3", "nDCG@3", "latency_ms_p50", "index_bytes", "query_money"}
    assert {figures.label for figures in result} == {"bm25", "hybrid(depth=3)"}
    assert ("bm25" in result, "dense" in result, len(result)) == (True, False, 2)
    with pytest.raises(UnknownNameError, match=r"There is no method 'dense'. Available: .*bm25"):
        result["dense"]
    with pytest.raises(UnknownNameError, match=r"bm25 has no figure 'R@5'. Available: R@1, R@3, "):
        result["bm25"]["R@5"]


def test_it_is_printed_as_the_command_prints_it(result: Result) -> None:
    lines = str(result).splitlines()
    assert lines[0].split()[:3] == ["R", "R", "full"]
    assert {line.split()[0] for line in lines[2:4]} == {"bm25", "hybrid(depth=3)"}
    assert "No method can be excluded as the best at R@1 (n = 2)" in str(result)
    assert repr(result) in (
        "<comparison of bm25, hybrid(depth=3) on notes: 2 questions>",
        "<comparison of hybrid(depth=3), bm25 on notes: 2 questions>",
    )
    assert result._repr_html_().startswith("<pre>")
    assert "hybrid(depth=3)" in result._repr_html_()


def test_a_frame_has_a_row_a_method(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = result.to_frame()
    assert frame.loc["bm25", "R@1"] == 0.75
    assert frame.shape == (2, len(result["bm25"]))
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="Run: pip install 'pandas'"):
        result.to_frame()


def test_files_and_report(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "out")
    assert load_results(tmp_path / "out").comparisons[0].fingerprint == result.comparison.fingerprint
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["schema"] == 7
    result.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == (tmp_path / "out" / "report.html").read_bytes()


def test_documents_and_datasets_that_are_read_already(result: Result, folder: Path, tmp_path: Path) -> None:
    questions = folder / "questions.csv"
    corpus = compare(read(folder / "notes"), ["bm25"], questions=questions, index=tmp_path / "a", k=(1, 3))
    dataset = compare(
        datasets.read_dataset(folder / "notes", questions=questions), "bm25", index=tmp_path / "b", k=[1, 3]
    )
    assert corpus["bm25"]["R@1"] == dataset["bm25"]["R@1"] == 0.75
    assert corpus.comparison.fingerprint == dataset.comparison.fingerprint


def test_wrong_options_are_refused_before_any_work(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"compare: there is no setting 'sed'. Did you mean seed"):
        compare(folder / "notes", ["bm25"], index=tmp_path / "w", sed=3)
    with pytest.raises(UsageError, match=r"there is no setting 'zzzz'\. .*seed") as error:
        compare(folder / "notes", ["bm25"], index=tmp_path / "w", zzzz=1)
    assert " out" not in str(error.value)  # an option of the command alone
    with pytest.raises(UsageError, match="compare: 'out' is an option of the command alone"):
        compare(folder / "notes", ["bm25"], index=tmp_path / "w", out="results")
    with pytest.raises(UsageError, match="a Corpus comes without questions. Give questions=FILE"):
        compare(read(folder / "notes"), ["bm25"], index=tmp_path / "w")
    assert not (tmp_path / "w").exists()
