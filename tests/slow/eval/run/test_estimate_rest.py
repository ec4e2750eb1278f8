"""The line about more methods that `compare` ends with."""

from pathlib import Path

import pytest
from command_line import make_desk, ragindex

from ragindex.plugins import registry


def test_compare_without_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_desk(tmp_path, monkeypatch)
    done = ragindex("compare", "notes", "--questions", "questions.csv")
    assert done.code == 0
    rest = len(registry.plugin_names("schemes")) - 6
    line = done.out.splitlines()[-1]
    assert line.startswith(f"{rest} more methods: --methods all, about 3")
    assert line.endswith(" GB of memory here")
    named = ragindex("compare", "notes", "--questions", "questions.csv", "--methods", "bm25")
    assert "more methods" not in named.out
