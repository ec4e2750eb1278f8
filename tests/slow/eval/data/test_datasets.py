"""Data sets of 100,000 questions."""

from pathlib import Path

from ragindex_eval.data.datasets import read_dataset


def test_ids_grow_with_the_number_of_questions(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("red")
    questions = tmp_path / "questions.txt"
    questions.write_text("".join(f"{number}?\n" for number in range(100_000)))
    dataset = read_dataset(tmp_path / "docs", questions=questions)
    assert (dataset.queries[0].id, dataset.queries[-1].id) == ("q000001", "q100000")
