"""A recommendation in a real MLflow database: tags, steps of the race, costs, files; one run when it is run again."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from command_line import failed, ragindex

from ragindex_eval.mlflow_tracking import TrackingWarning

pytestmark = pytest.mark.filterwarnings("ignore")  # mlflow's dependencies deprecate one another

WORLD = ("recommend", "world:100", "--methods", "bm25,dense,links", "--limit", "80", "--index", "w", "--json", "-")


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    return tmp_path


def read_runs(folder: Path) -> tuple[Any, list[Any]]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    experiment = client.get_experiment_by_name("ragindex")
    assert experiment is not None
    return client, list(client.search_runs([experiment.experiment_id]))


def history(client: Any, run: Any, metric: str) -> list[tuple[int, float]]:
    return sorted((one.step, one.value) for one in client.get_metric_history(run.info.run_id, metric))


def test_the_decision_the_race_and_its_files(desk: Path) -> None:
    done = ragindex(*WORLD, "--export", "kept")
    assert done.code == 0, done.err
    found = done.json
    client, (run,) = read_runs(desk)
    assert run.info.run_name.startswith("recommend world-100-seed0 ")
    assert run.info.status == "FINISHED"
    decided = {"recommended": found["chosen"], "decided": str(found["decided"]).lower(), "runner_up": found["rival"]}
    assert {name: run.data.tags[f"ragindex.{name}"] for name in decided} == decided
    for label in ("bm25", "dense", "links"):
        steps = [(step["questions"], step["scores"][label]) for step in found["race"] if label in step["scores"]]
        assert history(client, run, f"race/{label}/retrieval/recall_at_5") == steps
        (candidate,) = (one for one in found["candidates"] if one["label"] == label)
        assert run.data.metrics[f"methods/{label}/score"] == candidate["score"]
        assert run.data.metrics[f"methods/{label}/index_seconds"] == candidate["costs"]["index_seconds"]
    assert history(client, run, "race/remaining") == [(one["questions"], one["remaining"]) for one in found["race"]]
    assert [one["questions"] for one in found["race"]] == list(range(10, 10 * len(found["race"]) + 1, 10))
    assert run.data.metrics["questions_asked"] == found["spent"]
    assert (run.data.params["rules/delta"], run.data.params["methods"]) == ("0.02", "bm25,dense,links")
    contexts = [each.value for one in run.inputs.dataset_inputs for each in one.tags]
    assert sorted(contexts) == ["corpus", "questions"]
    files = Path(client.download_artifacts(run.info.run_id, "", str(desk)))
    kept = json.loads((files / "recommendation.json").read_text())
    assert kept == {name: value for name, value in found.items() if name not in ("index", "export")}
    assert (files / "retriever" / "retriever.toml").read_text() == Path("kept/retriever.toml").read_text()


def test_the_same_command_has_one_run_and_other_rules_another(desk: Path) -> None:
    ragindex(*WORLD)
    client, (first,) = read_runs(desk)
    steps = history(client, first, "race/remaining")
    ragindex(*WORLD)
    client, (again,) = read_runs(desk)
    assert again.info.run_id == first.info.run_id
    assert history(client, again, "race/remaining") == steps  # nothing twice
    ragindex(*WORLD, "--delta", "0.1")
    _, runs = read_runs(desk)
    assert len(runs) == 2


def test_the_lines_behind_a_recommendation_say_where_its_run_is(desk: Path) -> None:
    done = ragindex(*WORLD[:-2])
    place = f"sqlite:///{desk}/mlflow.db"
    assert f"the run         {place}; to look at them: mlflow ui --backend-store-uri {place}" in done.out


def test_a_tracker_that_fails_does_not_fail_the_recommendation(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", TrackingWarning)
        done = ragindex(*WORLD)
    assert (done.code, done.json["chosen"]) == (0, "links")
    said = [str(one.message) for one in told if one.category is TrackingWarning] or [done.err]
    assert any("The recommendation was not recorded in MLflow at http://127.0.0.1:9" in one for one in said)


def test_a_refused_recommendation_leaves_no_run(desk: Path) -> None:
    assert "--metric must be one of" in failed(2, *WORLD, "--metric", "R@7")
    assert not (desk / "mlflow.db").exists()
