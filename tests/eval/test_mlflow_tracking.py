import json
import socket
import sqlite3
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from comparing import compare

from ragindex.corpus import Corpus
from ragindex.errors import MissingExtraError
from ragindex.types import Document, Query, Usage
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.mlflow_tracking import TrackingWarning, trace_to_tracker, track
from ragindex_eval.mlflow_values import metric_name
from ragindex_eval.results.model import NOT_TIMED, Comparison, MethodAnswer, Study


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    documents = (Document("a", "Slate", "Slate is a stone."), Document("b", "Wool", "Wool is spun and dyed."))
    queries = (Query("q1", "What stone is slate?"), Query("q2", "What is spun?"))
    gold = {"q1": Gold(frozenset({"a"}), grades={"a": 1}), "q2": Gold(frozenset({"a", "b"}))}
    data = Dataset("two", Corpus("two", "jsonl", documents, 0, (), True), queries, gold, "fingerprint-of-two")
    methods = ["bm25", {"name": "bm25", "label": "words, again"}]
    return compare(data, methods, k=(1, 2), index=tmp_path_factory.mktemp("w"))


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def test_a_parent_run_with_a_child_a_method(
    comparison: Comparison, working_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    parent_id = track(Study(comparison.dataset.name, (comparison,)))
    assert capfd.readouterr() == ("", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri="sqlite:///mlflow.db")
        experiment = client.get_experiment_by_name("ragindex")
        assert experiment is not None
        runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
        assert set(runs) == {"two", "bm25", "words, again"}
        parent, child = runs["two"], runs["words, again"]
        assert parent.info.run_id == parent_id
        assert {run.info.status for run in runs.values()} == {"FINISHED"}
        assert [name for name, run in runs.items() if run.data.tags.get("mlflow.parentRunId") == parent_id] == [
            name for name in runs if name != "two"
        ]
        assert parent.data.params["dataset/fingerprint"] == "fingerprint-of-two"
        assert parent.data.params["fingerprint"] == comparison.fingerprint
        assert parent.data.params["k"] == "1,2"
        method = comparison.method("words, again")
        assert child.data.params["method"] == "bm25"
        assert child.data.params["label"] == "words, again"
        assert child.data.params["fingerprint"] == method.fingerprint
        assert json.loads(child.data.params["params/over"]) == {"name": "passages", "params": {}}
        assert child.data.metrics["retrieval/recall_at_1"] == method.metrics["R@1"] == 0.75
        assert child.data.metrics["retrieval/full_recall_at_2"] == method.metrics["full_R@2"]
        assert child.data.metrics["retrieval/ndcg_at_2"] == method.metrics["nDCG@2"]
        assert child.data.metrics["latency/p95_ms"] == method.latency.total.p95
        assert child.data.metrics["latency/store_p50_ms"] == method.latency.store.p50
        assert child.data.metrics["index/bytes"] == method.index_bytes > 0
        assert child.data.metrics["index/passages/seconds"] == method.parts["passages"].seconds
        assert child.data.metrics["unanswered"] == 0
        files = {file.path for file in client.list_artifacts(child.info.run_id)}
        assert files == {"run.trec", "qrels.trec", "per_query.jsonl"}
        everything = {file.path for file in client.list_artifacts(parent_id)}
        own = {"comparison.json", "questions.jsonl", "qrels.trec", "per_query.jsonl", "runs"}
        assert everything == {*own, "study.json", "report.html"}
        assert child.data.metrics["retrieval/recall_at_1/ci95_low"] == method.ci95["R@1"][0]
        assert child.data.metrics["latency/p50_ms/ci95_high"] == method.ci95["latency_ms_p50"][1]
        copied = client.download_artifacts(child.info.run_id, "run.trec", str(working_folder))
        assert Path(copied).read_text().splitlines()[0] == "q1 Q0 a 1 1 words,%20again"
        stored = client.download_artifacts(parent_id, "comparison.json", str(working_folder))
        assert json.loads(Path(stored).read_text()) == comparison.to_json()


def test_a_method_that_failed_is_a_failed_run_and_unknown_money_no_metric(
    comparison: Comparison, working_folder: Path
) -> None:
    method = comparison.method("bm25")
    errors = tuple(MethodAnswer(answer.query_id, (), "ValueError: no") for answer in method.final)
    nothing = {"metrics": {}, "per_query": {}, "latency": NOT_TIMED, "ci95": {}, "answers": {2: errors}}
    broken = replace(method, label="broken", spent=Usage(1.0, 10, 5, None), **nothing)
    assert track(Study("two", (replace(comparison, failed=(broken,)),))) is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri="sqlite:///mlflow.db")
        experiment = client.get_experiment_by_name("ragindex")
        assert experiment is not None
        runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert {name: run.info.status for name, run in runs.items()} == {
        **{"two": "FINISHED", "bm25": "FINISHED", "words, again": "FINISHED"},
        "broken": "FAILED",
    }
    logged = runs["broken"].data.metrics
    assert (logged["unanswered"], logged["usage/spent/input_tokens"]) == (2, 10)
    assert not [name for name in logged if name.startswith(("retrieval/", "latency/")) or name == "usage/spent/money"]
    assert runs["bm25"].data.metrics["usage/spent/money"] == 0


@pytest.mark.slow
def test_a_study_is_one_parent_run(
    comparison: Comparison, working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{working_folder / 'study.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    other = replace(comparison, seed=1)
    parent_id = track(Study("seeds", (comparison, other)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=uri)
        found = client.search_runs([client.get_experiment_by_name("ragindex").experiment_id])
        runs = {run.info.run_name: run for run in found}
        assert set(runs) == {
            "seeds",
            *(f"{label}, seed {seed}" for label in ("bm25", "words, again") for seed in (0, 1)),
        }
        assert runs["bm25, seed 1"].data.params["seed"] == "1"
        assert json.loads(runs["seeds"].data.params["seed"]) == [0, 1]
        everything = {file.path for file in client.list_artifacts(parent_id)}
        assert everything == {"study.json", "report.html", "01-two", "02-two"}


@pytest.mark.slow
def test_tracking_elsewhere(comparison: Comparison, working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = working_folder / "new folder" / "runs.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{elsewhere}")
    track(Study(comparison.dataset.name, (comparison,)))
    assert not (working_folder / "mlflow.db").exists()
    with sqlite3.connect(elsewhere) as database:
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (3,)
    database.close()


def fails(comparison: Comparison, match: str) -> None:
    with pytest.warns(TrackingWarning, match=match) as caught:
        assert track(Study(comparison.dataset.name, (comparison,))) is None
    assert len(caught) == 1


def test_without_mlflow(comparison: Comparison, working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)  # as if it were not installed
    fails(comparison, r"^The comparison is not recorded: MLflow is not installed\. Run: pip install 'mlflow>=3\.1'$")
    assert list(working_folder.iterdir()) == []
    with pytest.raises(MissingExtraError, match="^--trace needs the package mlflow"):
        trace_to_tracker()


def test_a_server_that_is_not_there(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:  # bound but not listening: every connection is refused
        held.bind(("127.0.0.1", 0))
        for scheme in ("http", "postgresql"):
            monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{scheme}://127.0.0.1:{held.getsockname()[1]}")
            fails(comparison, "was not recorded in MLflow at .*127.0.0.1")


def test_a_database_that_is_none(comparison: Comparison, working_folder: Path) -> None:
    (working_folder / "mlflow.db").write_bytes(b"this is not a database" * 100)
    fails(comparison, "file is not a database")


def test_a_database_that_cannot_be_made(comparison: Comparison, working_folder: Path) -> None:
    (working_folder / "mlflow.db").mkdir()
    fails(comparison, "unable to open database file")


def test_an_unknown_kind_of_store(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "carrier-pigeon://roof")
    fails(comparison, "carrier-pigeon")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("R@5", "retrieval/recall_at_5"),
        ("full_R@20", "retrieval/full_recall_at_20"),
        ("nDCG@10", "retrieval/ndcg_at_10"),
        ("RR@10", "retrieval/reciprocal_rank_at_10"),
        ("Success@1", "retrieval/success_at_1"),
        ("one_doc_R@5", "retrieval/one_document_recall_at_5"),
    ],
)
def test_metric_names_have_no_at(name: str, expected: str) -> None:
    assert metric_name(name) == expected
