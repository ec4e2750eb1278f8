"""The keys of docs/how-to/give-out-keys.md."""

import re
import tomllib
from pathlib import Path

import pytest
from project import ROOT

from ragindex.serve.keys import load_keyring


def test_keys_of_page_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "how-to" / "give-out-keys.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert tomllib.loads(code)
    (tmp_path / "keys.toml").write_text(code)
    monkeypatch.setenv("RED_TEAM_KEY", "red-0123456789abcdef")
    (key,) = load_keyring(tmp_path / "keys.toml", ["my-index"]).keys
    assert (key.name, key.rights, key.budget and key.budget.limit) == ("red-team", {"read"}, 2.5)
