"""The ledger of sealed holdouts: one use of each question, and what damage means."""

from dataclasses import replace
from pathlib import Path

import pytest

from ragindex.errors import StoreError, UsageError
from ragindex_eval.run.question_uses import LEDGER, HoldoutUse, Ledger, record_use

USE = HoldoutUse("2026-01-01T00:00:00+00:00", "compare", "a.csv", "bm25", "dense", "R@5", "x1", ("q1", "q2"), False)


def test_a_use_is_written_once_and_another_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / LEDGER)
    assert record_use(ledger, USE) == []
    assert record_use(ledger, replace(USE, when="later")) == []  # the same question again, as after a crash
    assert ledger.uses() == [USE]
    other = replace(USE, asked="x2", chosen="links", questions=("q2", "q3"))
    with pytest.raises(UsageError, match=r"1 of 2 questions of the holdout a.csv were used before, first 2026-01-01"):
        record_use(ledger, other)
    assert ledger.uses() == [USE]
    assert record_use(ledger, replace(other, reused=True)) == [USE]
    assert len(ledger.uses()) == 2
    assert record_use(ledger, replace(USE, when="later")) == [], "the first use is repeated after another reused them"
    assert record_use(ledger, replace(other, asked="x3", questions=("q9",))) == []


def test_a_line_cut_short_is_no_use_and_other_damage_is_an_error(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / LEDGER)
    record_use(ledger, USE)
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + whole[:50])
    assert ledger.uses() == [USE]
    second = replace(USE, asked="x2", questions=("q7",))
    record_use(ledger, second)
    assert ledger.uses() == [USE, second]
    ledger.path.write_bytes(ledger.path.read_bytes().replace(b"bm25", b"bm26", 1))
    with pytest.raises(StoreError, match="line 1, is damaged"):
        ledger.uses()
