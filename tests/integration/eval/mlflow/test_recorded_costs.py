"""What comparisons, races and judging sessions paid, in MLflow: the sums are those of the service."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragindex
from mlflow_database import all_runs
from openai_server import drop
from till import PAID, SAID, Till, billing, checked, open_desk

from ragindex_eval.cli import compare, judge, recommend
from ragindex_eval.mlflow.decisions import track_judging, track_recommendation
from ragindex_eval.mlflow.live import record_live
from ragindex_eval.mlflow.tracking import track
from ragindex_eval.results.files import load_results

pytestmark = pytest.mark.filterwarnings("ignore")  # mlflow's dependencies deprecate one another

JUDGE = ("judge", "notes", "questions.txt", "--methods", "bm25,dense", "--llm", "openai:small", "--json", "j.json")
RECOMMEND = ("recommend", "notes", "--questions", "questions.csv", "--methods", "bm25,dense", "--json", "r.json")


@pytest.fixture
def till(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Till]:
    with billing() as running:
        open_desk(running, tmp_path, monkeypatch)
        thought = "So the answer is: Grey Anna."
        running.server.write = lambda body: json.dumps({**SAID, "relevant": "yes", "thought": thought})
        monkeypatch.setattr(compare, "record_live", record_live)
        monkeypatch.setattr(compare, "track", track)
        monkeypatch.setattr(judge, "track_judging", track_judging)
        monkeypatch.setattr(recommend, "track_recommendation", track_recommendation)
        yield running


def test_a_judging_session_has_a_run_with_its_cost_if_it_pays(till: Till, uri: str) -> None:
    free = ("judge", "notes", "questions.txt", "--methods", "bm25", "--llm", "offline", "--out", "free")
    assert ragindex(*free).code == 0
    assert all_runs(uri) == []
    assert ragindex(*JUDGE, "--out", "judged").code == 0
    money = till.money
    (run,) = all_runs(uri)
    assert run.info.run_name.startswith("judge notes, 2")
    assert run.data.metrics["usage/spent/money"] == pytest.approx(money)
    report = json.loads(Path("j.json").read_text())
    assert run.data.metrics["documents"] == report["documents"] == len(till.server.requests)
    assert (run.data.params["methods"], run.data.params["llm"]) == ("bm25,dense", "openai:small")
    checked(till, report["spent"])
    assert ragindex(*JUDGE, "--out", "judged").code == 0  # pays nothing
    assert [each.data.metrics["usage/spent/money"] for each in all_runs(uri)] == [pytest.approx(money)]


def test_a_recommendation_has_its_cost(till: Till, uri: str) -> None:
    assert ragindex(*RECOMMEND, *PAID).code == 0
    money, report = till.money, json.loads(Path("r.json").read_text())
    (run,) = all_runs(uri)
    assert run.data.metrics["usage/spent/money"] == pytest.approx(money)
    checked(till, report["paid"])
    assert ragindex(*RECOMMEND, *PAID).code == 0
    (again,) = all_runs(uri)
    assert again.data.metrics["usage/spent/money"] == pytest.approx(money + till.money)  # of both runs


def test_attempts_that_were_charged_and_lost_are_in_all_outputs(till: Till, uri: str) -> None:
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
