"""The command `audit` and the function of the same name."""

import json
import re
from pathlib import Path

import pytest
from command_line import QUESTIONS, TEXTS, ragindex, write
from project import ROOT
from snapshots import assert_matches, masked

from ragindex.errors import DataError, StoreError, UsageError
from ragindex_eval import audit

SNAPSHOTS = Path(__file__).parent / "snapshots"
EM = ("--n", "1000", "--metric", "EM")


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "notes", TEXTS)
    (tmp_path / "questions.csv").write_text(QUESTIONS)
    (tmp_path / "a.trec").write_text("q1 Q0 x 1 2.0 t\nq1 Q0 y 2 2.0 t\nq2 Q0 y 1 1.0 t\n")
    (tmp_path / "b.trec").write_text("q1 Q0 y 1 2.0 t\nq2 Q0 x 2 2.0 t\n")
    (tmp_path / "qrels.txt").write_text("q1 0 x 1\nq2 0 y 1\nq3 0 z 1\n")


def test_pages() -> None:
    commands = {
        "audit_values": ("--value", "40.5", "--value", "36.4", *EM),
        "audit_table": (str(ROOT / "eval/ragindex_eval/studies" / "sirerag-table-8.yaml"),),
        "audit_rankings": ("--run", "a.trec", "--run", "b.trec", "--qrels", "qrels.txt", "--metric", "R@1"),
        "audit_questions": ("--questions", "questions.csv", "--documents", "notes"),
    }
    for name, arguments in commands.items():
        done = ragindex("audit", *arguments)
        assert done.code == 0
        page = "\n".join(line.rstrip() for line in masked(done.out).splitlines()) + "\n"
        assert_matches(page, SNAPSHOTS / f"{name}.txt")


def test_json_is_what_the_function_returns() -> None:
    done = ragindex("audit", "--value", "40.5", "--value", "40.2", *EM, "--json", "-")
    value = json.loads(done.out)
    assert value == json.loads(json.dumps(audit([40.5, "40.2"], n=1000, metric="EM").to_json()))
    assert (value["claims"][0]["verdict"], value["schema"]) == ("impossible", 1)
    assert value["claims"][0]["says"] == "not significant, however the questions fell"


def test_baseline_of_a_value_and_of_a_table() -> None:
    assert audit(["40.5"], baseline="36.4", n=1000, metric="EM") == audit(["40.5", "36.4"], n=1000, metric="EM")
    assert audit(["40.5"], n=1000, metric="EM").claims == ()
    Path("table.csv").write_text("method,EM\nbm25,30.1\ndense,32.0\nhybrid,36.5\n")
    result = audit("table.csv", n=1000, baseline="bm25")
    assert [claim.method for claim in result.claims] == ["dense", "hybrid"]
    done = ragindex("audit", "table.csv", "--n", "1000", "--baseline", "bm25")
    assert "significant (1): significant, however the questions fell" in done.out
    assert "p < 0.05 / 2" in done.out
    rows = [{"method": f"m{number}", "EM": 30 + number / 10} for number in range(60)]
    Path("rows.json").write_text(json.dumps(rows))
    done = ragindex("audit", "rows.json", "--n", "1000", "--baseline", "m0", "--json", "all.json")
    assert "… and 19 more: --json FILE has all" in done.out
    assert len(json.loads(Path("all.json").read_text())["claims"]) == 59


def test_page_as_html_shows_markup_as_text() -> None:
    Path("table.csv").write_text("method,EM\n<script>alert(1)</script> [red],30.1\nb,32.0\n")
    done = ragindex("audit", "table.csv", "--n", "100", "--html", "page.html")
    page = Path("page.html").read_text()
    assert done.code == 0
    assert "<script" not in page
    assert "[red]" in page
    assert re.search(r"https?://", page) is None


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), UsageError.exit_code, "there is nothing to audit"),
        (("--value", "40"), UsageError.exit_code, "How many questions are the figures of?"),
        (("--value", "1", "--value", "2", "--value", "3", *EM), UsageError.exit_code, "Give one value, or a value and"),
        (("--run", "a.trec"), UsageError.exit_code, "Rankings and their judgements go together"),
        (("none.csv", *EM), DataError.exit_code, "none.csv: expected a table in UTF-8"),
        (("none.csv", "--value", "1", *EM), UsageError.exit_code, "Give a table or values, not both"),
        (("--value", "40", *EM, "--html", "questions.csv/x.html"), StoreError.exit_code, "is not a folder"),
    ],
)
def test_errors(arguments: tuple[str, ...], code: int, message: str) -> None:
    done = ragindex("audit", *arguments)
    assert (done.code, message in done.err) == (code, True), done.err
