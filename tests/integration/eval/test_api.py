"""The comparison as a function, over files as a user has them, and its result."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import QUESTIONS, TEXTS, write

import ragindex
from ragindex.corpus import read
from ragindex.errors import MissingExtraError, UnknownNameError, UsageError
from ragindex_eval import compare
from ragindex_eval.result import Result


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


def test_it_is_printed_as_the_command_prints_it(result: Result, tmp_path: Path) -> None:
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
    result.report(tmp_path / "page.html")
    assert "hybrid(depth=3)" in (tmp_path / "page.html").read_text()


def test_a_frame_has_a_row_a_method(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = result.to_frame()
    assert frame.loc["bm25", "R@1"] == 0.75
    assert frame.shape == (2, len(result["bm25"]))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="Run: pip install 'pandas'"):
        result.to_frame()


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


def test_type_checker_rejects_a_misspelt_option(tmp_path: Path) -> None:
    package = Path(ragindex.__file__).parent
    call = 'import ragindex\nragindex.compare("notes", ["bm25"], questions="q.csv", {}=1)\n'
    (tmp_path / "right.py").write_text(call.format("seed"))
    (tmp_path / "misspelt.py").write_text(call.format("sead"))
    arguments = ["--follow-imports=skip", "--ignore-missing-imports", "--no-incremental"]
    sources = [package / "__init__.py", package / "compare_options.py", tmp_path / "right.py", tmp_path / "misspelt.py"]
    # in a process of its own: mypy raises the recursion limit
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments, *map(str, sources)], capture_output=True, text=True, check=False
    )
    (error,) = [line for line in done.stdout.splitlines() if "error:" in line]
    assert error.endswith('misspelt.py:2: error: Unexpected keyword argument "sead" for "compare"  [call-arg]')
