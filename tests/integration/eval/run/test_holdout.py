"""Sealed holdouts of `compare` and `recommend`: refused before any work, or used once and written down."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Done, failed, ragindex
from made_mills import write_mills, write_questions
from unrecorded import record_nothing

from ragindex_eval.run.holdout import LEDGER, Ledger

GIVEN = ("mills", "--encoder", "lsa:1", "--k", "1", "--index", "w", "--questions", "main.csv")
COMPARE = ("compare", *GIVEN, "--methods", "bm25,dense", "--json", "-")
SEALED = ("--holdout", "sealed.csv")


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Done]]:
    """A folder whose index has one use of sealed.csv written down, and the comparison that used it."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("used")
        patch.chdir(folder)
        record_nothing(patch)
        mills = write_mills(folder)
        write_questions(folder / "main.csv", mills[::2])
        sealed = mills[1::2]
        wrong = [(text, "anna.md") for text, _ in sealed[:3]]  # nothing finds these, so differences vary
        write_questions(folder / "sealed.csv", [*wrong, *sealed[3:]])
        write_questions(folder / "more.csv", mills[3::2])
        (folder / "plain.txt").write_text("Which mill stands by the river?\n")
        done = ragindex(*COMPARE, *SEALED)
        assert done.code == 0, done.err
        shutil.copytree(folder, folder.with_suffix(".saved"))
        yield folder, done


@pytest.fixture(autouse=True)
def desk(used: tuple[Path, Done]) -> None:
    """The folder as it was then, in the place that the index remembers."""
    shutil.rmtree(used[0])
    shutil.copytree(used[0].with_suffix(".saved"), used[0])
    os.chdir(used[0])


def test_compare_confirms_best_method_once(used: tuple[Path, Done]) -> None:
    done = used[1]
    holdout = done.json["holdout"]
    best, rival = (method["label"] for method in done.json["methods"])
    assert (holdout["chosen"], holdout["rival"], holdout["metric"], holdout["earlier"]) == (best, rival, "R@1", [])
    alone = ragindex(*COMPARE[:6], "--index", "other", "--questions", "sealed.csv", *COMPARE[-4:]).json
    scores = {method["label"]: method["metrics"]["R@1"] for method in alone["methods"]}
    assert holdout["score"] == pytest.approx(scores[best])
    assert holdout["rival_score"] == pytest.approx(scores[rival])
    low, high = holdout["difference"]
    assert low < scores[best] - scores[rival] < high
    assert low != pytest.approx(-high), "the difference has a direction"
    (use,) = Ledger(Path(LEDGER)).uses()
    assert (use.command, use.chosen, use.file) == ("compare", best, "sealed.csv")
    assert ragindex(*COMPARE, *SEALED, "--fresh").code == 0  # asks the same, so nothing new is learnt
    assert len(Ledger(Path(LEDGER)).uses()) == 1


def test_reuse_is_written_down() -> None:
    others = ("compare", *GIVEN, "--methods", "bm25,hybrid", "--holdout", "more.csv", "--json", "-")
    assert "--reuse-holdout" in failed(2, *others)
    reused = ragindex(*others, "--reuse-holdout", "--out", "o")
    assert reused.code == 0, reused.err
    assert len(reused.json["holdout"]["earlier"]) == 1
    message = "The holdout was REUSED, so it confirms nothing: it was used 1 time before"
    assert message in Path("o/report.html").read_text()
    assert [use.reused for use in Ledger(Path(LEDGER)).uses()] == [False, True]


def test_recommend_confirms_by_holdout() -> None:
    """Once something is decided, which 16 questions cannot at a risk of 1 in 10⁹."""
    Path(LEDGER).unlink()
    recommend = ("recommend", *GIVEN, "--methods", "bm25,dense", "--metric", "R@1", *SEALED)
    undecided = ragindex(*recommend, "--alpha", "1e-9")
    assert "sealed.csv stays sealed, to confirm a choice once one is made" in undecided.err
    assert list(Ledger(Path(LEDGER)).uses()) == []
    done = ragindex(*recommend, "--json", "found.json")
    assert done.code == 0, done.err
    report = json.loads(Path("found.json").read_text())
    assert report["holdout"]["chosen"] == report["chosen"]
    assert report["confirmation"] is None
    message = f"Confirmed on the holdout: {report['chosen']} is not more than 2.0 points worse than {report['rival']}."
    assert message in done.out
    assert [use.command for use in Ledger(Path(LEDGER)).uses()] == ["recommend"]


def test_unusable_holdouts_are_refused_before_work() -> None:
    before = json.loads(Path("w", "workspace.json").read_text())["parts"]
    Path("config.yaml").write_text("seeds: [0, 1]\n")
    compare, recommend = ((name, *GIVEN, "--methods", "dense,hybrid") for name in ("compare", "recommend"))
    used_before = "15 of 15 questions of the holdout more.csv were used before, first 20"
    refused = [
        (compare, "more.csv", used_before),
        ((*recommend, "--metric", "R@1"), "more.csv", used_before),
        (compare, "main.csv", "--holdout main.csv and the other questions share 16 questions"),
        (compare, "plain.txt", "--holdout plain.txt needs questions with gold documents"),
        ((*compare, "--config", "config.yaml"), "sealed.csv", "--holdout confirms one choice"),
        (
            ("compare", *GIVEN[:-1], "plain.txt", "--methods", "bm25"),
            "sealed.csv",
            "--holdout confirms a choice by recall: the other questions need gold documents, too.",
        ),
    ]
    for command, sealed, message in refused:
        assert message in failed(2, *command, "--holdout", sealed)
    assert json.loads(Path("w", "workspace.json").read_text())["parts"] == before
    assert len(Ledger(Path(LEDGER)).uses()) == 1
