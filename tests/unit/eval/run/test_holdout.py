"""The ledger of questions: one use of each, what was raced on, where it lies, and what damage means."""

from dataclasses import replace
from pathlib import Path

import pytest

from ragindex.corpus import Corpus
from ragindex.errors import StoreError, UsageError
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.run.holdout import LEDGER, HoldoutUse, Ledger, RacedQuestions, find_ledger, record_race, record_use

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
    content = ledger.path.read_bytes()
    ledger.path.write_bytes(content + content[:50])
    assert ledger.uses() == [USE]
    second = replace(USE, asked="x2", questions=("q7",))
    record_use(ledger, second)
    assert ledger.uses() == [USE, second]
    ledger.path.write_bytes(ledger.path.read_bytes().replace(b"bm25", b"bm26", 1))
    with pytest.raises(StoreError, match="line 1, is damaged"):
        ledger.uses()


def test_uses_are_counted_for_a_caller_that_allows_for_them(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / LEDGER)
    uses = [replace(USE, asked=f"x{number}", questions=("q1", f"q{number}")) for number in range(3)]
    assert [len(record_use(ledger, use, counts=True)) for use in uses] == [0, 1, 2]
    assert [len(record_use(ledger, use, counts=True)) for use in uses] == [0, 1, 2], "a repetition is no new one"
    assert ledger.uses() == uses


def test_raced_questions_keep_their_order_and_are_written_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / LEDGER)
    for raced in (("b", "a"), ("b", "a"), ("c", "a", "d")):
        record_race(ledger, RacedQuestions("2026-01-01T00:00:00+00:00", "a.csv", raced))
    assert ledger.raced() == ["b", "a", "c", "d"]
    assert len(ledger.path.read_bytes().splitlines()) == 2
    record_use(ledger, USE)
    assert ledger.uses() == [USE]
    assert Ledger(tmp_path / "other" / LEDGER, (ledger.path,)).raced() == ledger.raced()


def test_a_ledger_lies_beside_the_questions_and_never_among_documents(tmp_path: Path) -> None:
    (tmp_path / "asked").mkdir()
    notes, index = tmp_path / "notes", tmp_path / "indexes" / "w"
    (notes / "deep").mkdir(parents=True)
    files = {name: tmp_path / name for name in ("asked/q.csv", "notes/deep/q.csv", "set.json")}
    for file in files.values():
        file.write_text("")
    beside_index = tmp_path / "indexes" / LEDGER
    of_notes, of_file = (
        Dataset("d", Corpus("d", "folder", (), 0, (), True), (), None, "", source=str(source))
        for source in (notes, files["set.json"])
    )
    generated = replace(of_notes, source="world:100")
    places = [
        (files["asked/q.csv"], of_notes, tmp_path / "asked"),
        (files["notes/deep/q.csv"], of_notes, tmp_path),
        (None, of_notes, tmp_path),
        (None, of_file, tmp_path),
        (None, generated, tmp_path / "indexes"),
        (files["asked/q.csv"], generated, tmp_path / "asked"),
    ]
    for file, dataset, folder in places:
        ledger = find_ledger(file, dataset, index)
        assert ledger.path == folder / LEDGER
        assert beside_index in (ledger.path, *ledger.others)


def test_uses_of_questions_in_a_folder_that_cannot_be_written_lie_beside_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "q.csv").write_text("")
    record_use(Ledger(tmp_path / LEDGER), USE)
    monkeypatch.setattr("ragindex_eval.run.holdout.os.access", lambda path, mode: False)
    dataset = Dataset("d", Corpus("d", "folder", (), 0, (), True), (), None, "")
    ledger = find_ledger(tmp_path / "q.csv", dataset, tmp_path / "indexes" / "w")
    assert ledger.path == tmp_path / "indexes" / LEDGER
    assert ledger.uses() == [USE], "those that lie beside the questions count too"
