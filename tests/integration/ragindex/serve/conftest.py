"""Warnings of servers in the process of the tests, and their sync processes."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from forked_syncs import CAN_FORK, forked_syncs

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore StaleWarning, as `run_server` does: as an error it would end the thread that follows new states."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore::ragindex.errors.StaleWarning"))


@pytest.fixture(scope="session")
def start_forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """What starts sync processes quickly, where the system can; tests/slow/ragindex/serve starts them as servers do."""
    quick = forked_syncs(tmp_path_factory.mktemp("syncs"))
    with quick if CAN_FORK else nullcontext(asyncio.create_subprocess_exec) as start:
        yield start


@pytest.fixture(autouse=True)
def _quick_syncs(start_forked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_forked)
