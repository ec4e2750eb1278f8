"""Attempts of a comparison that were charged and lost: equal sums in JSON, files, report and MLflow."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragindex
from mlflow_database import all_runs
from openai_server import drop
from till import PAID, SAID, Till, billing, open_desk

from ragindex_eval.cli import compare
from ragindex_eval.mlflow.live import record_live
from ragindex_eval.mlflow.tracking import track
from ragindex_eval.results.files import load_results

pytestmark = pytest.mark.filterwarnings("ignore")  # mlflow's dependencies deprecate one another


@pytest.fixture
def till(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Till]:
    with billing() as running:
        open_desk(running, tmp_path, monkeypatch)
        running.server.write = lambda body: json.dumps({**SAID, "thought": "So the answer is: Grey Anna."})
        monkeypatch.setattr(compare, "record_live", record_live)
        monkeypatch.setattr(compare, "track", track)
        yield running


def test_totals_have_what_was_possibly_charged(till: Till, uri: str) -> None:
    till.server.choose = lambda received, earlier: drop if not earlier and "chat" in received.path else None
    command = ("compare", "notes", "--questions", "questions.csv", "--methods", "ircot", *PAID)
    done = ragindex(*command, "--index", "i", "--out", "o", "--json", "-")
    assert done.code == 0, done.err
    spent = done.json["spent"]
    chats = sum("chat" in received.path for received in till.server.requests)
    assert spent["retries"] == chats / 2 > 0
    assert spent["possibly_charged"] > 0
    words = f"Possibly charged: up to ${spent['possibly_charged']:.6f}, "
    assert any(note.startswith(words) for note in done.json["notes"])
    assert words in next(Path("o").rglob("*.html")).read_text(encoding="utf-8")
    (study,) = [run for run in all_runs(uri) if "usage/spent/retries" in run.data.metrics]
    assert study.data.metrics["usage/spent/retries"] == spent["retries"]
    assert study.data.metrics["usage/spent/possibly_charged"] == pytest.approx(spent["possibly_charged"])
    (again,) = load_results(Path("o")).comparisons
    assert (again.possibly_charged, again.retries) == (spent["possibly_charged"], spent["retries"])
