"""Settings of a comparison, from files and flags."""

from pathlib import Path

import pytest

from ragindex.errors import DataError, UsageError
from ragindex_eval.run.settings import make_settings, read_settings


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("method: [bm25]", UsageError, "there is no setting 'method'. Did you mean methods"),
        ("colour: red", UsageError, "Available: budget, chunking, corpora, data, encoder, "),
        ("data: ${NO_SUCH_VARIABLE}", UsageError, "the environment variable NO_SUCH_VARIABLE is not set"),
        ("seed: many", UsageError, "'seed': .*integer.* Got 'many' instead"),
        ("methods: 3", UsageError, "'methods'"),
        ("seed: 1\nseeds: [2]", UsageError, "give 'seed' or 'seeds', not both"),
        ("corpora: [{questions: q.csv}]", UsageError, "'corpora'"),
        ("encoders: []", UsageError, "'encoders'"),
        ("- bm25", DataError, "expected keys and values"),
        ("data: [", DataError, "study.yaml, line 1: expected YAML"),
        ("data: \x00", DataError, "expected YAML"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, text: str, error: type[Exception], match: str) -> None:
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(error, match=match):
        read_settings(tmp_path / "study.yaml")


def test_a_file_of_settings_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none.yaml: expected a YAML file; found No such file"):
        read_settings(tmp_path / "none.yaml")


def test_only_whole_variables_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "a: b # ${NAME}")
    (tmp_path / "study.yaml").write_text("data: 'x ${NAME} $NAME ${1} $${NAME}'")
    assert read_settings(tmp_path / "study.yaml").data == "x a: b # ${NAME} $NAME ${1} $a: b # ${NAME}"


def test_cutoffs_as_they_are_written() -> None:
    written: list[tuple[object, tuple[int, ...]]] = [("5, 10", (5, 10)), ([3, 1, 3], (1, 3)), (4, (4,)), ((2,), (2,))]
    for given, expected in written:
        assert make_settings({"k": given}).k == expected
    assert make_settings({}).k == (5, 10, 20)
    for wrong in ("5;10", "0", (), (2.5,), [True]):
        with pytest.raises(UsageError, match=r"'k': Input should be .* Got"):
            make_settings({"k": wrong})
