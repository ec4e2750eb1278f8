"""Warnings of servers in the process of the tests."""

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore StaleWarning, as `run_server` does: as an error it would end the thread that follows new states."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore::ragindex.errors.StaleWarning"))
