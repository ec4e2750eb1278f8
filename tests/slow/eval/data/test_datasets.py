"""Large data sets: worlds of hundreds of passages, and 100,000 questions."""

from pathlib import Path

import pytest
from command_line import failed, make_desk, ragindex

from ragindex_eval.data import datasets, worlds


def test_load() -> None:
    dataset = datasets.read_dataset("world:60")
    questions = worlds.make_questions(60)
    assert [query.text for query in dataset.queries] == [question.text for question in questions]
    assert dataset.gold is not None
    assert list(dataset.gold.values()) == [question.gold for question in questions]
    assert (dataset.skipped, dataset.notes) == ((), (worlds.describe_shortfall(questions),))
    assert datasets.read_dataset("world:300").notes == ()
    assert dataset.source == dataset.name == "world-60-seed0"
    assert len(datasets.read_dataset("world:60", limit=7).queries) == 7


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = make_desk(tmp_path, monkeypatch)
    result = ragindex("index", "world:200", "--index", "w", "--methods", "bm25", "--json", "-")
    assert (result.code, result.json["documents"], result.json["passages"]) == (0, 200, 200)
    again = ragindex("compare", "world:0200:0", "--index", "w", "--methods", "bm25", "--k", "5", "--json", "-")
    assert (again.code, again.json["dataset"]["name"], again.json["dataset"]["questions"]) == (
        0,
        "world-200-seed0",
        1000,
    )
    small = ragindex("compare", "world:60", "--limit", "5", "--methods", "bm25", "--json", "-")
    assert small.json["notes"][1:] == [worlds.describe_shortfall(worlds.make_questions(60))]
    assert ragindex("add", "world:60", "--index", desk / "other").out == "60 documents added\n"
    assert failed(2, "index", "world:10", "--index", "v").startswith("A world has 50 to 1,000,000 passages.")
    assert failed(4, "index", "world:60", "--index", "w") == (
        "The index w has the documents of world:200:0. Those of world:60:0 need a name, which their ids begin "
        "with, or another --index. Nothing was written. "
        "Run: ragindex index world:60:0 --as world-60-seed0 --index w"
    )


def test_ids_grow_with_the_number_of_questions(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("red")
    questions = tmp_path / "questions.txt"
    questions.write_text("".join(f"{number}?\n" for number in range(100_000)))
    dataset = datasets.read_dataset(tmp_path / "docs", questions=questions)
    assert (dataset.queries[0].id, dataset.queries[-1].id) == ("q000001", "q100000")
