"""Sealed holdouts: one use of each question, written down before it is asked, through compare and recommend."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import make_desk, ragindex

from ragindex.errors import StoreError, UsageError
from ragindex_eval.data import worlds
from ragindex_eval.run.holdout import LEDGER, HoldoutUse, read_uses, record_use

COMPARE = ("compare", "world:100", "--methods", "bm25,links", "--index", "w", "--json", "-")
USE = HoldoutUse("2026-01-01T00:00:00+00:00", "compare", "a.csv", "bm25", "dense", "R@5", "x1", ("q1", "q2"), False)


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = make_desk(tmp_path, monkeypatch)
    lines = [
        json.dumps({"question": one.text, "documents": sorted(one.gold.doc_ids)})
        for one in worlds.make_questions(100, per_kind=12)
        if one.gold is not None
    ]
    Path("main.jsonl").write_text("\n".join(lines[::2]))
    Path("sealed.jsonl").write_text("\n".join(lines[1::2]))
    Path("more.jsonl").write_text("\n".join([*lines[3::2], *lines[:0]]))
    return made


def test_a_use_is_written_once_and_another_is_refused(tmp_path: Path) -> None:
    ledger = tmp_path / LEDGER
    assert record_use(ledger, USE) == []
    assert record_use(ledger, replace(USE, when="later")) == []  # the same question again, as after a crash
    assert read_uses(ledger) == [USE]
    other = replace(USE, asked="x2", chosen="links", questions=("q2", "q3"))
    with pytest.raises(UsageError, match=r"1 of 2 questions of the holdout a.csv were used before, first 2026-01-01"):
        record_use(ledger, other)
    assert read_uses(ledger) == [USE]
    assert record_use(ledger, replace(other, reused=True)) == [USE]
    assert len(read_uses(ledger)) == 2
    assert record_use(ledger, replace(USE, when="later")) == [], "the first use is repeated after another reused them"
    assert record_use(ledger, replace(other, asked="x3", questions=("q9",))) == []


def test_a_line_cut_short_is_no_use_and_other_damage_is_an_error(tmp_path: Path) -> None:
    ledger = tmp_path / LEDGER
    record_use(ledger, USE)
    whole = ledger.read_bytes()
    ledger.write_bytes(whole + whole[:50])
    assert read_uses(ledger) == [USE]
    second = replace(USE, asked="x2", questions=("q7",))
    record_use(ledger, second)
    assert read_uses(ledger) == [USE, second]
    ledger.write_bytes(ledger.read_bytes().replace(b"bm25", b"bm26", 1))
    with pytest.raises(StoreError, match="line 1, is damaged"):
        read_uses(ledger)


def test_compare_confirms_the_best_method_once() -> None:
    first = ragindex(*COMPARE, "--questions", "main.jsonl", "--holdout", "sealed.jsonl")
    assert first.code == 0, first.err
    held = first.json["holdout"]
    best, rival = (one["label"] for one in first.json["methods"])
    assert (held["chosen"], held["rival"], held["metric"], held["earlier"]) == (best, rival, "R@5", [])
    alone = ragindex(*COMPARE[:-3], "other", "--json", "-", "--questions", "sealed.jsonl")
    scores = {one["label"]: one["metrics"]["R@5"] for one in alone.json["methods"]}
    assert held["score"] == pytest.approx(scores[best])
    assert held["rival_score"] == pytest.approx(scores[rival])
    low, high = held["difference"]
    assert low < scores[best] - scores[rival] < high
    assert low != pytest.approx(-high), "the difference has a direction"
    (use,) = read_uses(Path("w", LEDGER))
    assert (use.command, use.chosen, use.file) == ("compare", best, "sealed.jsonl")
    again = ragindex(*COMPARE, "--questions", "main.jsonl", "--holdout", "sealed.jsonl", "--fresh")
    assert again.code == 0  # asks the same, so nothing new is learnt
    assert len(read_uses(Path("w", LEDGER))) == 1


def test_a_second_use_is_refused_or_written_down_as_reused() -> None:
    ragindex(*COMPARE, "--questions", "main.jsonl", "--holdout", "sealed.jsonl")
    others = [one if one != "bm25,links" else "bm25,dense" for one in COMPARE]
    refused = ragindex(*others, "--questions", "main.jsonl", "--holdout", "more.jsonl")
    assert refused.code == 2
    assert "of the holdout more.jsonl were used before, first 20" in refused.err
    assert "--reuse-holdout" in refused.err
    reused = ragindex(*others, "--questions", "main.jsonl", "--holdout", "more.jsonl", "--reuse-holdout", "--out", "o")
    assert reused.code == 0, reused.err
    assert len(reused.json["holdout"]["earlier"]) == 1
    assert (
        "The holdout was REUSED, so it confirms nothing: it was used 1 time before" in Path("o/report.html").read_text()
    )
    assert [use.reused for use in read_uses(Path("w", LEDGER))] == [False, True]


def test_recommend_confirms_by_the_holdout() -> None:
    found = ragindex(
        *("recommend", "world:100", "--methods", "bm25,links", "--index", "w", "--json", "-"),
        *("--questions", "main.jsonl", "--holdout", "sealed.jsonl"),
    )
    assert found.code == 0, found.err
    assert found.json["holdout"]["chosen"] == found.json["chosen"]
    assert found.json["confirmation"] is None
    assert [use.command for use in read_uses(Path("w", LEDGER))] == ["recommend"]


def test_a_study_of_several_choices_has_no_holdout() -> None:
    Path("config.yaml").write_text("seeds: [0, 1]\n")
    done = ragindex(*COMPARE, "--questions", "main.jsonl", "--holdout", "sealed.jsonl", "--config", "config.yaml")
    assert done.code == 2
    assert "--holdout confirms one choice" in done.err


def test_a_choice_that_is_not_made_by_recall_is_not_confirmed() -> None:
    Path("plain.txt").write_text("Which mill stands by the river?\n")
    done = ragindex(*COMPARE, "--questions", "plain.txt", "--holdout", "sealed.jsonl")
    assert done.code == 2
    assert "--holdout confirms a choice by recall: the other questions need gold documents, too." in done.err
    assert not Path("w", LEDGER).exists()


def test_shared_questions_are_refused_before_any_work() -> None:
    done = ragindex(*COMPARE, "--questions", "main.jsonl", "--holdout", "main.jsonl")
    assert done.code == 2
    assert "--holdout main.jsonl and the other questions share" in done.err
    assert not Path("w", LEDGER).exists()
    assert not list(Path("w").glob("runs/*"))


@pytest.mark.parametrize("command", ["compare", "recommend"])
@pytest.mark.parametrize(
    ("sealed", "said"),
    [
        ("more.jsonl", "29 of 29 questions of the holdout more.jsonl were used before, first 20"),
        ("main.jsonl", "--holdout main.jsonl and the other questions share 30 questions"),
        ("plain.txt", "--holdout plain.txt needs questions with gold documents"),
    ],
)
def test_what_will_be_refused_is_refused_before_anything_is_built(command: str, sealed: str, said: str) -> None:
    Path("plain.txt").write_text("Which mill stands by the river?\n")
    ragindex(*COMPARE, "--questions", "main.jsonl", "--holdout", "sealed.jsonl")
    before = built_parts()
    others = [*("world:100", "--methods", "dense,hybrid", "--index", "w"), "--questions", "main.jsonl"]
    done = ragindex(command, *others, "--holdout", sealed)
    assert done.code == 2
    assert said in done.err
    assert built_parts() == before


def built_parts() -> set[str]:
    return set(json.loads(Path("w", "workspace.json").read_text())["parts"])
