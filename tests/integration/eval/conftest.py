"""Fixtures of the comparisons' tests."""

from collections.abc import Iterator

import pytest
from mlflow_database import empty_store, uri

from ragindex_eval.run import latency

__all__ = ["empty_store", "few_rounds", "uri"]


@pytest.fixture(scope="module")
def few_rounds() -> Iterator[None]:
    """Time each question in 2 rounds in place of 10, where times are not the subject."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latency, "_MOST_ROUNDS", 2)
        yield
