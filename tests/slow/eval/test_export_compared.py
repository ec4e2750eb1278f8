"""The best of compared methods as an MLflow model."""

from pathlib import Path

import pytest
from command_line import make_desk
from command_line import ragindex as run
from empty_tracker import make_tracker

import ragindex
from ragindex_eval.cli import compare as command
from ragindex_eval.mlflow import live, tracking

QUESTION = "Which hill is highest?"


@pytest.mark.filterwarnings("ignore")  # mlflow's dependencies deprecate one another
def test_the_best_method_is_an_mlflow_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow
    import pandas as pd

    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path / "cache"))
    make_desk(tmp_path, monkeypatch)
    monkeypatch.setattr(command, "track", tracking.track)
    monkeypatch.setattr(command, "record_live", live.record_live)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", make_tracker(tmp_path))
    done = run(
        *("compare", "notes", "--questions", "questions.csv", "--methods", "bm25,hybrid"),
        *("--index", "w", "--out", "r", "--export-best", "best"),
    )
    (uri,) = [line.split('"')[1] for line in done.out.splitlines() if "mlflow.pyfunc.load_model" in line]
    model = mlflow.pyfunc.load_model(uri)
    with ragindex.load("best.ragindex") as retriever:
        expected = [hit.id for hit in retriever.search(QUESTION, k=2)]
    for given in ([QUESTION], pd.DataFrame({"question": [QUESTION]})):
        (hits,) = model.predict(given, params={"k": 2})
        assert [hit["id"] for hit in hits] == expected
    saved = Path(mlflow.artifacts.download_artifacts(uri))
    assert not [path for path in saved.rglob("*") if path.suffix in {".pkl", ".pickle"}]
