"""A packed retriever as an MLflow model among the artefacts of its method's run.

The model is saved from code (ragindex/export/mlflow_model.py), so nothing is pickled, and loaded with
`mlflow.pyfunc.load_model("runs:/RUN/retriever")`.
"""

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

from ragindex import export
from ragindex._util.distribution import find_distribution, require_module
from ragindex.errors import UsageError
from ragindex_eval.mlflow.runs import METHOD_TAG, RunFiles
from ragindex_eval.mlflow.tracking import environment_defaults, silence_mlflow, warn_of_files

MODEL_NAME = "retriever"
"""The path of the model below the artefacts of its run."""
_QUIET = {"MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}
_CODE = Path(export.__file__).with_name("mlflow_model.py")


def log_retriever(uri: str, parent: str, label: str, archive: Path) -> str | None:
    """Log a packed retriever in the run of the method `label` of a study with one comparison. Return the model's URI.

    `parent` is the study's run. Warn and return None if the model cannot be stored. Raises UsageError if the run has no
    such method, and MissingExtraError without MLflow.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    with (
        warnings.catch_warnings(),
        silence_mlflow(),
        environment_defaults(_QUIET),
        tempfile.TemporaryDirectory() as folder,
    ):
        warnings.simplefilter("ignore")  # mlflow's dependencies deprecate one another
        mlflow = require_module("mlflow", "mlflow", "--export-best")
        client = mlflow.MlflowClient(tracking_uri=uri)
        experiment = client.get_run(parent).info.experiment_id
        query = f"tags.`mlflow.parentRunId` = '{parent}'"
        below = client.search_runs([experiment], query, max_results=1_000)
        runs = [run.info.run_id for run in below if run.data.tags.get(METHOD_TAG, "").partition("/")[2] == label]
        if not runs:
            raise UsageError(f"The run {parent} has no run of the method {label}.")
        save_retriever_model(archive, Path(folder, MODEL_NAME))
        files = RunFiles(client, Path(folder, MODEL_NAME))
        files.store(runs[0], files.folder, MODEL_NAME)
    if files.error is not None:
        warn_of_files("best method", files)
        return None
    return f"runs:/{runs[0]}/{MODEL_NAME}"


def save_retriever_model(archive: Path, folder: Path) -> None:
    """Save a packed retriever as an MLflow model in the new folder `folder`. Raises MissingExtraError."""
    mlflow = require_module("mlflow", "mlflow", "An MLflow model")
    installed = find_distribution()
    mlflow.pyfunc.save_model(
        str(folder),
        python_model=str(_CODE),
        artifacts={"retriever": str(archive)},
        signature=_make_signature(),
        pip_requirements=[f"{installed.name}=={installed.version}"],
        model_config={"allow_hosts": [], "allow_folders": []},
    )


def _make_signature() -> Any:
    """Return the signature: a question per row, and the number of hits; a list of hits per question."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema
    from mlflow.types.schema import Array, DataType, Object, Property

    texts = [Property(name, DataType.string) for name in ("id", "title", "text")]
    hit = Object([*texts, Property("score", DataType.double), Property("doc_ids", Array(DataType.string))])
    return ModelSignature(
        inputs=Schema([ColSpec(DataType.string)]),
        outputs=Schema([ColSpec(Array(hit))]),
        params=ParamSchema([ParamSpec("k", DataType.long, 5)]),
    )
