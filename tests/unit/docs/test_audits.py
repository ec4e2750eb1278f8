"""docs/dev/audit-of-published-tables.md: made from the tables of studies/."""

import runpy

from project import ROOT

from ragindex_eval import audit

MADE = runpy.run_path(str(ROOT / "docs" / "make_audits.py"))


def test_the_page_is_that_of_the_tables() -> None:
    assert MADE["PAGE"].read_text(encoding="utf-8") == MADE["page"](), "Run: python docs/make_audits.py"


def test_verdicts_agree_with_a_published_paired_test() -> None:
    """HippoRAG 2 names the data sets on which its bootstrap test of the answers is significant (p < 0.05)."""
    table = ROOT / "studies" / "tables" / "hipporag2-table-2.csv"
    claims = audit(table, baseline="NV-Embed-v2 (7B)", methods=["HippoRAG 2"]).claims
    possible = [claim for claim in claims if claim.verdict not in ("unlikely", "impossible")]
    names = {claim.data.removesuffix(" HippoRAG") for claim in possible}
    assert names == {"NQ", "MuSiQue", "2Wiki", "LV-Eval"}
    assert {claim.level for claim in claims} == {0.05}


def test_every_table_is_audited() -> None:
    files = {entry.file for entry in MADE["ENTRIES"]}
    assert {f"tables/{path.name}" for path in (ROOT / "studies" / "tables").iterdir()} <= files
    assert len(files) == len(MADE["ENTRIES"]) >= 10
