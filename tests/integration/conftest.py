"""What is expensive and rarely the subject, done less often: timings, and questions of generated worlds."""

from collections.abc import Iterator
from functools import cache

import pytest

from ragindex_eval.data import worlds
from ragindex_eval.data.questions import DatasetQuestion
from ragindex_eval.run import latency


@pytest.fixture(autouse=True, scope="session")
def _few_rounds() -> Iterator[None]:
    """Time each question in 2 rounds in place of 10, and once where there are many; tests of times set both again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latency, "_MOST_ROUNDS", 2)
        patch.setattr(latency, "_TIMINGS", 20)
        yield


@pytest.fixture
def all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time questions as often as commands do."""
    monkeypatch.setattr(latency, "_MOST_ROUNDS", 10)
    monkeypatch.setattr(latency, "_TIMINGS", 100)


_make_questions = worlds.make_questions
_draw = cache(_make_questions)


def _draw_once(size: int, seed: int = 0, per_kind: int = 200) -> list[DatasetQuestion]:
    return list(_draw(size, seed, per_kind))


def pytest_runtest_setup() -> None:
    """Draw the questions of a world once a process; tests/unit looks at how they are drawn."""
    worlds.make_questions = _draw_once


def pytest_runtest_teardown() -> None:
    """Draw them again in tests of other folders."""
    worlds.make_questions = _make_questions
