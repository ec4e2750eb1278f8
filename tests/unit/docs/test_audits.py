"""docs/audit-of-published-tables.md: made from the tables of studies/."""

import runpy

from project import ROOT

MADE = runpy.run_path(str(ROOT / "docs" / "make_audits.py"))


def test_the_page_is_that_of_the_tables() -> None:
    assert MADE["PAGE"].read_text(encoding="utf-8") == MADE["page"](), "Run: python docs/make_audits.py"


def test_every_table_is_audited() -> None:
    files = {entry.file for entry in MADE["ENTRIES"]}
    assert {f"tables/{path.name}" for path in (ROOT / "studies" / "tables").iterdir()} <= files
    assert len(files) == len(MADE["ENTRIES"]) >= 10
