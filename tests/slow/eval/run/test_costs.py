"""The key of a service and the costs in all that a comparison writes, its record in MLflow included."""

import json
from pathlib import Path

import pytest
from asking import PLANTED, compared, priced_server
from mlflow_database import all_runs

from ragindex_eval.mlflow.tracking import track
from ragindex_eval.report import page as report
from ragindex_eval.results.files import load_results, save_results
from ragindex_eval.results.model import Study


@pytest.mark.filterwarnings("ignore")  # mlflow's dependencies deprecate one another
def test_the_key_is_in_no_file_and_costs_are_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    with priced_server(monkeypatch, tmp_path):
        comparison = compared(tmp_path)
    study = Study("tiny", (comparison,), "ragindex compare tiny")
    track(study)
    assert len(all_runs(uri)) == 1 + len(comparison.methods)
    save_results(study, tmp_path / "out")
    page = report.render_report(study)
    assert "tokens a question" in page
    assert "$ a question" in page
    assert "R@1 against money" in page
    back = load_results(tmp_path / "out").comparisons[0].methods[1]
    assert (back.index_usage, back.calls) == (comparison.methods[1].index_usage, 1.0)
    assert back.query_usage.money == comparison.methods[1].query_usage.money
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not [path for path in files if PLANTED.encode() in path.read_bytes()]
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["llm"] == "openai:small"
