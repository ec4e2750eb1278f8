"""A database for the runs that the commands of the pages record."""

from pathlib import Path

import pytest
from empty_tracker import make_tracker


@pytest.fixture(autouse=True)
def _tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", make_tracker(tmp_path))
