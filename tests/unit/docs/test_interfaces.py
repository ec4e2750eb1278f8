"""docs/reference/plugin-interfaces.md: made from the docstrings, with a text for every name."""

import re
import runpy

from project import ROOT

from ragindex import testing

MADE = runpy.run_path(str(ROOT / "docs" / "make_interfaces.py"))
TEXT = MADE["PAGE"].read_text(encoding="utf-8")


def test_the_page_is_that_of_the_docstrings() -> None:
    assert MADE["page"]() == TEXT, "Run: python docs/make_interfaces.py"


def test_no_name_is_without_a_text() -> None:
    rows = re.findall(r"^\| `(.+?)` \| (.*) \|$", TEXT, re.MULTILINE)
    assert len(rows) > 80
    assert [name for name, text in rows if not text] == []


def test_every_check_of_the_contract_has_a_row() -> None:
    checks = {name for name in vars(testing) if name.startswith("check_") and name != "check_scheme"}
    assert set(re.findall(r"^\| `(check_(?!import|words)\w+)` \|", TEXT, re.MULTILINE)) == checks
