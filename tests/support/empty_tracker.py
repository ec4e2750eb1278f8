"""MLflow's tables, made once a version of it and copied, because they take seconds to make."""

import os
import tempfile
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path


@cache
def _make_tables() -> bytes:
    template = Path(os.environ["RAGINDEX_CACHE"]) / f"mlflow-{version('mlflow')}.db"
    if not template.exists():
        template.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=template.parent) as folder:
            warnings.simplefilter("ignore")
            from mlflow import MlflowClient

            MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db").search_experiments()
            (Path(folder) / "mlflow.db").replace(template)  # at once, for other processes make it too
    return template.read_bytes()


def make_tracker(folder: Path) -> str:
    """The address of a new database in the folder, with MLflow's tables and no runs."""
    (folder / "mlflow.db").write_bytes(_make_tables())
    return f"sqlite:///{folder}/mlflow.db"
