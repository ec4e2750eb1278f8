"""Fixtures of the comparisons' tests."""

from mlflow_database import uri

__all__ = ["uri"]
