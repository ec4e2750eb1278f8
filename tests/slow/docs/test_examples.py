"""The examples of the pages that take long; tests/integration/docs/test_examples.py runs the others."""

from pathlib import Path

import pytest
from doc_examples import docs_desk, run_page, runnable_pages

# mlflow's dependencies deprecate one another, and mlflow's tracing says so in the middle of a retrieval
pytestmark = pytest.mark.filterwarnings("ignore", "error::ragindex.mlflow_tracing.TracingWarning")


@pytest.mark.parametrize("page", runnable_pages(slow=True), ids=lambda page: page.name)
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with docs_desk(tmp_path, monkeypatch) as desk:
        run_page(page, desk)
