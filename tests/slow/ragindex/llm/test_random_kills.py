"""Random runs that are killed: nothing is paid twice but what was in flight, and no run passes its budget."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_commands import ForkedCommands
from random_kills import play

SEEDS = range(12)


@pytest.fixture(scope="module")
def commands() -> Iterator[ForkedCommands]:
    with ForkedCommands() as running:
        yield running


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_runs_pay_once_and_within_their_budget(
    seed: int, commands: ForkedCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = play(seed, tmp_path, commands, monkeypatch)
    assert record.find_faults() == [], record
    assert sum(record.charges) > 0
