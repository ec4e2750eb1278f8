"""A study runs on a small world."""

from pathlib import Path

import pytest
from command_line import ragindex
from project import ROOT
from unrecorded import record_nothing

from ragindex_eval.results.files import load_results


def test_a_study_runs_on_a_small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_nothing(monkeypatch)
    monkeypatch.chdir(tmp_path)
    config = ROOT / "eval/ragindex_eval/studies" / "griever-table-1.yaml"
    done = ragindex("compare", "world:50:7", "--config", config, "--published-data", "musique", "--limit", 3)
    assert done.code == 0
    result = load_results(tmp_path / "ragindex-results" / "griever-table-1")
    published = result.comparisons[0].published
    assert published is not None
    assert [figure.published for figure in published.figures if figure.method == "GRIEVER"] == [0.456, 0.539, 0.573]
    assert all(figure.here is not None and figure.verdict == "not comparable" for figure in published.figures)
    assert published.reason == (
        "encoder is lsa, published all-mpnet-base-v2; llm is rules, published gpt-4o-mini; "
        "3 questions, published 500; 50 documents, published 139,416; 50 passages, published 148,793"
    )
