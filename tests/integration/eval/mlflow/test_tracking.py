import json
import socket
import sqlite3
import subprocess
import sys
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from comparing import compare
from empty_tracker import make_tracker
from mlflow.exceptions import MlflowException
from mlflow.utils.validation import _validate_metric_name
from mlflow_database import all_runs, make_client, parent_of

from ragindex import mlflow_tracing
from ragindex.corpus import Corpus
from ragindex.errors import MissingExtraError
from ragindex.types import Document, Query, Usage
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.mlflow import retriever as mlflow_retriever
from ragindex_eval.mlflow import runs as mlflow_runs
from ragindex_eval.mlflow.tracking import TrackingWarning, has_run, open_tracker, store_id, trace_to_tracker, track
from ragindex_eval.mlflow.values import distinct_names, metric_name
from ragindex_eval.results.model import NOT_TIMED, Comparison, MethodAnswer, Study


def two() -> Dataset:
    documents = (Document("a", "Slate", "Slate is a stone."), Document("b", "Wool", "Wool is spun and dyed."))
    queries = (Query("q1", "What stone is slate?"), Query("q2", "What is spun?"))
    gold = {"q1": Gold(frozenset({"a"}), grades={"a": 1}), "q2": Gold(frozenset({"a", "b"}))}
    return Dataset("two", Corpus("two", "jsonl", documents, 0, (), True), queries, gold, "fingerprint-of-two")


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    methods = ["bm25", {"name": "bm25", "label": "words, again"}]
    return compare(two(), methods, k=(1, 2), index=tmp_path_factory.mktemp("w"))


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def test_a_parent_run_with_a_child_a_method(
    comparison: Comparison, working_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make_tracker(working_folder)
    study = Study(comparison.dataset.name, (comparison,))
    parent_id = track(study)
    assert capfd.readouterr() == ("", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = make_client("sqlite:///mlflow.db")
        runs = {run.info.run_name: run for run in all_runs("sqlite:///mlflow.db")}
        assert set(runs) == {"two", "bm25", "words, again"}
        parent, child = runs["two"], runs["words, again"]
        assert parent.info.run_id == parent_id
        assert {run.info.status for run in runs.values()} == {"FINISHED"}
        assert [name for name, run in runs.items() if run.data.tags.get("mlflow.parentRunId") == parent_id] == [
            run for run in runs if run != "two"
        ]
        assert parent.data.params["dataset/fingerprint"] == "fingerprint-of-two"
        assert parent.data.params["fingerprint"] == comparison.fingerprint
        assert parent.data.params["k"] == "1,2"
        method = comparison.method("words, again")
        assert child.data.params["method"] == "bm25"
        assert child.data.params["label"] == "words, again"
        assert child.data.params["fingerprint"] == method.fingerprint
        passages = {"name": "passages", "params": {"by": None, "size": None, "overlap": 0, "context": "title"}}
        assert json.loads(child.data.params["params/over"]) == passages
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
        assert "latency/p50_ms/ci95_high" not in child.data.metrics  # there are too few questions
        copied = client.download_artifacts(child.info.run_id, "run.trec", str(working_folder))
        assert Path(copied).read_text().splitlines()[0] == "q1 Q0 a 1 1 words,%20again"
        stored = client.download_artifacts(parent_id, "comparison.json", str(working_folder))
        assert json.loads(Path(stored).read_text()) == comparison.to_json()


def test_failed_method_is_a_failed_run_and_unknown_money_no_metric(comparison: Comparison, uri: str) -> None:
    method = comparison.method("bm25")
    errors = tuple(MethodAnswer(answer.query_id, (), "ValueError: no") for answer in method.final)
    nothing = {"metrics": {}, "per_query": {}, "latency": NOT_TIMED, "ci95": {}, "answers": {2: errors}}
    broken = replace(method, label="broken", spent=Usage(1.0, 10, 5, None), **nothing)
    assert track(Study("two", (replace(comparison, failed=(broken,)),))) is not None
    runs = {run.info.run_name.split()[0]: run for run in all_runs(uri)}
    assert {name: run.info.status for name, run in runs.items()} == {
        **{"two": "FINISHED", "bm25": "FINISHED", "words,": "FINISHED"},
        "broken": "FAILED",
    }
    logged = runs["broken"].data.metrics
    assert (logged["unanswered"], logged["usage/spent/input_tokens"]) == (2, 10)
    assert not [name for name in logged if name.startswith(("retrieval/", "latency/")) or name == "usage/spent/money"]
    assert runs["bm25"].data.metrics["usage/spent/money"] == 0


STARTED = "2026-11-23T20:00:00.000+00:00"  # 1,795,464,000 seconds after 1970


def timed(comparison: Comparison, seconds: float = 12.5, **changes: object) -> Study:
    """A study that took some seconds, whose second method took 2 of them."""
    first, second = comparison.methods
    slow = replace(second, spent=replace(second.spent, seconds=2.0))
    return Study("two", (replace(comparison, methods=(first, slow), **changes),), "", STARTED, seconds)


def test_durations_datasets_and_a_summary(comparison: Comparison, working_folder: Path, uri: str) -> None:
    facts = replace(comparison.dataset, corpus_digest="c0", questions_digest="a0", questions_file="asked.csv")
    assert track(timed(comparison, dataset=facts)) is not None
    runs = all_runs(uri)
    parent, (child,) = parent_of(uri), [run for run in runs if run.data.metrics.get("duration_seconds") == 2.0]
    assert parent.info.run_name == "two, asked.csv, 2026-11-23 20:00 UTC"
    assert (parent.info.start_time, parent.info.end_time) == (1_795_464_000_000, 1_795_464_012_500)
    assert (child.info.start_time, child.info.end_time) == (1_795_464_000_000, 1_795_464_002_000)
    assert parent.data.metrics["duration_seconds"] == 12.5
    assert parent.data.params["dataset/questions_file"] == "asked.csv"
    assert parent.data.tags["ragindex.best_method"] == comparison.methods[0].label
    assert parent.data.metrics["methods/bm25/retrieval/recall_at_1"] == 0.75
    assert parent.data.metrics["methods/words_ again/latency/p50_ms"] == comparison.methods[1].latency.total.p50
    counts = [parent.data.metrics[name] for name in ("methods", "failed_methods", "questions")]
    assert counts == [2, 0, 2]
    for run in (parent, child):
        inputs = {dataset_input.tags[0].value: dataset_input.dataset for dataset_input in run.inputs.dataset_inputs}
        assert {context: (dataset.name, dataset.digest) for context, dataset in inputs.items()} == {
            "corpus": ("two", "c0"),
            "questions": ("asked.csv", "a0"),
        }
        assert json.loads(inputs["corpus"].profile) == {"documents": 2, "passages": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow

        assert mlflow.data.get_source(parent.inputs.dataset_inputs[0]).uri == "two"


def test_an_equal_comparison_has_one_tree(comparison: Comparison, working_folder: Path, uri: str) -> None:
    first = track(timed(comparison))
    before = all_runs(uri)
    rows = count_rows(working_folder)
    assert track(timed(comparison)) == first
    assert count_rows(working_folder) == rows  # nothing is added where nothing differs
    assert track(timed(comparison, 3.0)) == first
    assert {run.info.run_id for run in all_runs(uri)} == {run.info.run_id for run in before}
    assert parent_of(uri).data.metrics["duration_seconds"] == 3.0
    assert parent_of(uri).info.end_time == 1_795_464_003_000
    assert track(replace(timed(comparison), name="other")) != first
    assert track(timed(comparison, fingerprint="other")) != first
    assert len(all_runs(uri)) == 9


def count_rows(folder: Path) -> dict[str, int]:
    tables = ("runs", "metrics", "params", "tags", "inputs", "datasets")
    with closing(sqlite3.connect(folder / "mlflow.db")) as database:
        return {table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


def test_a_tree_that_was_interrupted_is_completed(
    comparison: Comparison, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, save = [], mlflow_runs.save_method

    def stop_at_second(*given: Any) -> None:
        saved.append(given)
        if len(saved) == 2:
            raise OSError("no space left")
        save(*given)

    with monkeypatch.context() as patch:
        patch.setattr(mlflow_runs, "save_method", stop_at_second)
        with pytest.warns(TrackingWarning, match="no space left"):
            assert track(timed(comparison)) is None
    before = all_runs(uri)
    assert sorted(run.info.status for run in before) == ["FINISHED", "RUNNING", "RUNNING"]
    assert track(timed(comparison)) == parent_of(uri).info.run_id
    after = all_runs(uri)
    assert {run.info.run_id: run.info.status for run in after} == {run.info.run_id: "FINISHED" for run in before}


def test_the_commit_of_the_working_folder(comparison: Comparison, working_folder: Path, uri: str) -> None:
    track(timed(comparison))
    tags = parent_of(uri).data.tags
    assert "mlflow.source.git.commit" not in tags
    assert (tags["mlflow.source.name"], tags["mlflow.source.type"]) == ("ragindex", "LOCAL")
    command = ("git", "-c", "user.name=a", "-c", "user.email=a@b.example")
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*command, *arguments], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    track(timed(comparison))
    runs = all_runs(uri)
    assert [run.data.tags["mlflow.source.git.commit"] for run in runs] == [head] * 3


def test_study_is_one_parent_run(comparison: Comparison, uri: str) -> None:
    other = replace(comparison, seed=1)
    study = Study("seeds", (comparison, other))
    parent_id = track(study)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = {run.info.run_name: run for run in all_runs(uri)}
        assert set(runs) == {
            "seeds",
            *(f"{label}, seed {seed}" for label in ("bm25", "words, again") for seed in (0, 1)),
        }
        assert runs["bm25, seed 1"].data.params["seed"] == "1"
        assert json.loads(runs["seeds"].data.params["seed"]) == [0, 1]
        assert (
            runs["seeds"].data.metrics["methods/bm25/retrieval/recall_at_1"] == comparison.method("bm25").metrics["R@1"]
        )
        everything = {file.path for file in make_client(uri).list_artifacts(parent_id)}
        assert everything == {"study.json", "report.html", "01-two", "02-two"}


def test_a_run_is_found_again_in_its_database(comparison: Comparison, working_folder: Path, uri: str) -> None:
    run = track(timed(comparison))
    assert has_run(uri, run)
    assert not has_run(uri, None)
    assert not has_run("sqlite:///other.db", run)
    assert not (working_folder / "other.db").exists()
    assert has_run("https://tracker.example", run)  # a server is trusted
    with closing(sqlite3.connect(working_folder / "mlflow.db")) as database, database:
        database.execute("UPDATE runs SET lifecycle_stage = 'deleted'")
    assert not has_run(uri, run)


def test_new_database_in_a_new_folder(
    comparison: Comparison, working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = working_folder / "new folder" / "runs.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{elsewhere}")
    track(Study(comparison.dataset.name, (comparison,)))
    assert not (working_folder / "mlflow.db").exists()
    with sqlite3.connect(elsewhere) as database:
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (3,)
    database.close()


def test_no_secret_is_a_parameter(comparison: Comparison, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "not-for-the-eyes-of-others")
    llm = "openai(base_url=https://user:open-sesame@one.example/v1, note=not-for-the-eyes-of-others)"
    track(timed(comparison, llm=llm))
    params = [run.data.params["llm"] for run in all_runs(uri)]
    assert params == ["openai(base_url=https://…@one.example/v1, note=…)"] * 3


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


def test_a_server_that_is_not_there_or_never_answers(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow_tracing, "_ANSWER_SECONDS", 0.2)
    with socket.socket() as listener:  # bound but not listening: every connection is refused
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        for scheme in ("http", "postgresql"):
            monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{scheme}://{address}")
            fails(comparison, "was not recorded in MLflow at .*127.0.0.1")
        listener.listen()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://{address}")
        fails(comparison, r"was not recorded in MLflow at .*: it does not answer within 0\.2 seconds\.")


def test_locked_database_is_named_as_the_cause(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    place = "(raised as a result of Query-invoked autoflush; consider using a session.no_autoflush block)"

    def lock(*given: Any, **more: Any) -> None:
        raise MlflowException(f"{place}\n(sqlite3.OperationalError) database is locked\n[SQL: INSERT INTO runs …]")

    monkeypatch.setattr("mlflow.MlflowClient.create_run", lock)
    fails(comparison, r"was not recorded in MLflow at .*: \(sqlite3\.OperationalError\) database is locked\. ")


class NoCredentialsError(Exception):
    """As boto's, which is of no class that others know."""


@pytest.mark.parametrize(
    "error",
    [OSError("read-only"), ImportError("no boto3"), NoCredentialsError("no credentials")],
    ids=lambda error: type(error).__name__,
)
def test_figures_are_recorded_where_files_cannot_be_stored(
    comparison: Comparison, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    refused = list[str]()

    def refuse(client: Any, run: str, *given: Any) -> None:
        refused.append(run)
        raise error

    monkeypatch.setattr("mlflow.MlflowClient.log_artifacts", refuse)
    with pytest.warns(TrackingWarning, match=f"was recorded in MLflow at .* without its files: {error}\\. ") as caught:
        parent = track(Study("two", (comparison,)))
    assert parent == parent_of(uri).info.run_id
    assert (len(caught), len(refused)) == (1, 1)  # what failed for one run is not waited for again
    runs = all_runs(uri)
    assert [run.info.status for run in runs] == ["FINISHED"] * 3
    assert [run.data.metrics["retrieval/recall_at_1"] for run in runs if run.info.run_id != parent] == [0.75] * 2
    monkeypatch.setattr(mlflow_retriever, "save_retriever_model", lambda archive, folder: folder.mkdir())
    with pytest.warns(TrackingWarning, match=f"^The best method was recorded .* without its files: {error}\\. "):
        assert mlflow_retriever.log_retriever(uri, parent, "bm25", tmp_path / "best") is None


def test_deleted_experiment_is_restored_or_another_one_named(
    comparison: Comparison, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, stores = make_client(uri), [store_id(uri)]
    client.delete_experiment(client.create_experiment("ragindex"))
    remedy = (
        r"restore it \(mlflow experiments restore --experiment-id 1\), or name another one in MLFLOW_EXPERIMENT_NAME"
    )
    fails(comparison, rf"the experiment ragindex is deleted: {remedy}\. The results above are complete")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    run = track(Study("two", (comparison,)))
    assert client.get_run(run).info.experiment_id == client.get_experiment_by_name("mine").experiment_id
    assert store_id(uri) not in stores  # so that results which the other experiment has are recorded


@pytest.mark.parametrize(
    ("name", "tags", "expected"),
    [
        ("ragindex", None, "custom_model_development"),
        ("ragindex", {}, "custom_model_development"),
        ("ragindex", {"mlflow.experimentKind": "genai_development"}, "genai_development"),
        ("mine", None, "custom_model_development"),
        ("mine", {}, None),
    ],
)
def test_experiment_is_shown_as_runs(
    uri: str, monkeypatch: pytest.MonkeyPatch, name: str, tags: dict[str, str] | None, expected: str | None
) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", name)
    if tags is not None:
        make_client(uri).create_experiment(name, tags=tags)
    client, id = open_tracker(uri)
    assert client.get_experiment(id).tags.get("mlflow.experimentKind") == expected


def test_stores_that_cannot_be_used(
    comparison: Comparison, working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (working_folder / "mlflow.db").write_bytes(b"this is not a database" * 100)
    fails(comparison, "file is not a database")
    (working_folder / "folder.db").mkdir()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{working_folder}/folder.db")
    fails(comparison, "unable to open database file")
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
        ("EM", "qa/em"),
        ("F1", "qa/f1"),
        ("STR-EM", "qa/str_em"),
        ("ROUGE-L", "qa/rouge_l"),
        ("accuracy", "qa/accuracy"),
        ("ROUGE-Lsum", "qa/rouge_lsum"),
        ("Disambig-F1", "qa/disambig_f1"),
        ("DR", "qa/dr"),
    ],
)
def test_metric_names_have_no_at(name: str, expected: str) -> None:
    assert metric_name(name) == expected


@pytest.mark.parametrize("label", ["http(url=https://a/b)", "..", "a/./b", "/", "", "//", "é:%€" * 90, "a/" * 200])
def test_any_label_becomes_a_name_that_mlflow_takes(label: str) -> None:
    name = f"methods/{label}/R@5"
    (cleaned,) = distinct_names([name]).values()
    _validate_metric_name(cleaned)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["C+", "C#"], ["C_2B", "C_23"]),
        (["bm25(k1=1.2, b=0)"], ["bm25_k1_1.2_ b_0_"]),
        (["b(c", "b=c", "b_c"], ["b_c_2", "b_c_3", "b_c"]),
        (["BM25", "bm25"], ["BM25", "bm25_2"]),
        (["a_2", "A", "a"], ["a_2_2", "A", "a_2"]),
        (["x" * 250 + "a", "x" * 250 + "b"], ["x" * 250, "x" * 248 + "_2"]),
    ],
)
def test_names_that_mlflow_cannot_tell_apart_are_distinct(names: list[str], expected: list[str]) -> None:
    assert distinct_names(names) == dict(zip(names, expected, strict=True))
    assert distinct_names(reversed(names)) == distinct_names(names)
