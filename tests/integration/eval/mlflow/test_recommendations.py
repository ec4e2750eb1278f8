"""A recommendation in a real MLflow database: tags, steps of the race, costs, files; one run when it is run again."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from command_line import QUESTIONS, TEXTS, failed, ragindex, write
from mlflow_database import all_runs, make_client

from ragindex_eval.mlflow.tracking import TrackingWarning

pytestmark = pytest.mark.filterwarnings("ignore")  # mlflow's dependencies deprecate one another

WORLD = ("recommend", "world:50", "--methods", "bm25,dense", "--limit", "20", "--index", "w", "--json", "found.json")


def history(client: Any, run: Any, metric: str) -> list[tuple[int, float]]:
    return sorted(
        (metric_value.step, metric_value.value) for metric_value in client.get_metric_history(run.info.run_id, metric)
    )


def test_decision_is_one_run_when_it_is_made_again(uri: str) -> None:
    done = ragindex(*WORLD, "--export", "kept")
    assert done.code == 0, done.err
    assert f"the run         {uri}; to look at them: mlflow ui --backend-store-uri {uri}" in done.out
    report = json.loads(Path("found.json").read_text())
    client, (run,) = make_client(uri), all_runs(uri)
    assert run.info.run_name.startswith("recommend world-50-seed0, 2")
    assert run.info.status == "FINISHED"
    decided = {"recommended": report["chosen"], "decided": str(report["decided"]).lower(), "runner_up": report["rival"]}
    assert {name: run.data.tags[f"ragindex.{name}"] for name in decided} == decided
    for label in ("bm25", "dense"):
        steps = [(step["questions"], step["scores"][label]) for step in report["race"] if label in step["scores"]]
        assert history(client, run, f"race/{label}/retrieval/recall_at_5") == steps
        (candidate,) = (entry for entry in report["candidates"] if entry["label"] == label)
        assert run.data.metrics[f"methods/{label}/score"] == candidate["score"]
        assert run.data.metrics[f"methods/{label}/index_seconds"] == candidate["costs"]["index_seconds"]
    remaining = [(step["questions"], step["remaining"]) for step in report["race"]]
    assert history(client, run, "race/remaining") == remaining
    assert [questions for questions, _ in remaining] == [10, 20]
    assert run.data.metrics["questions_asked"] == report["spent"]
    assert (run.data.params["rules/delta"], run.data.params["methods"]) == ("0.02", "bm25,dense")
    contexts = [each.value for dataset_input in run.inputs.dataset_inputs for each in dataset_input.tags]
    assert sorted(contexts) == ["corpus", "questions"]
    files = Path(client.download_artifacts(run.info.run_id, "", "."))
    saved = json.loads((files / "recommendation.json").read_text())
    assert saved == {name: value for name, value in report.items() if name not in ("paid", "index", "export")}
    assert (files / "retriever" / "retriever.toml").read_text() == Path("kept/retriever.toml").read_text()
    ragindex(*WORLD)
    (again,) = all_runs(uri)
    assert again.info.run_id == run.info.run_id
    assert history(client, again, "race/remaining") == remaining  # nothing twice
    ragindex(*WORLD, "--delta", "0.1")
    assert len(all_runs(uri)) == 2


def test_failing_tracker_does_not_fail_the_recommendation(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    write(Path("notes"), TEXTS)
    write(Path(), {"questions.csv": QUESTIONS})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TrackingWarning)
        done = ragindex("recommend", "notes", "--questions", "questions.csv", "--methods", "bm25,dense", "--json", "-")
    assert (done.code, done.json["chosen"] in ("bm25", "dense")) == (0, True)
    output = [str(warning.message) for warning in caught if warning.category is TrackingWarning] or [done.err]
    assert any("The recommendation was not recorded in MLflow at http://127.0.0.1:9" in text for text in output)


def test_refused_recommendation_leaves_no_run(uri: str) -> None:
    assert "--metric must be one of" in failed(2, *WORLD, "--metric", "R@7")
    assert all_runs(uri) == []
