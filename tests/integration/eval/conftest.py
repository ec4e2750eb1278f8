"""Fixtures of the comparisons' tests."""

from mlflow_database import empty_store, uri

__all__ = ["empty_store", "uri"]
