"""MLflow's tables, made once a process and copied, because they take seconds to make."""

import tempfile
import warnings
from functools import cache
from pathlib import Path


@cache
def _make_tables() -> bytes:
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db").search_experiments()
        return (Path(folder) / "mlflow.db").read_bytes()


def make_tracker(folder: Path) -> str:
    """The address of a new database in the folder, with MLflow's tables and no runs."""
    (folder / "mlflow.db").write_bytes(_make_tables())
    return f"sqlite:///{folder}/mlflow.db"
