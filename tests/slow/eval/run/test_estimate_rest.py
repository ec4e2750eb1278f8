"""The line about more methods that `compare` ends with."""

import re
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
    assert re.fullmatch(rf"{rest} more methods: --methods all, about \d+ (s|min) to build, .* GB of memory here", line)
    named = ragindex("compare", "notes", "--questions", "questions.csv", "--methods", "bm25")
    assert "more methods" not in named.out
