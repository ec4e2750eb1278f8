"""The page on the design: its list of modules is made from the code, the rest is short."""

import runpy

from project import ROOT


def test_the_list_of_modules_is_that_of_the_code() -> None:
    """After a change of modules: `python docs/make_design.py`."""
    script = runpy.run_path(str(ROOT / "docs" / "make_design.py"))
    page = script["PAGE"].read_text("utf-8")
    assert script["page"]() == page, "Run: python docs/make_design.py"
    by_hand, _, generated = page.partition("<!-- modules: begin -->")
    assert len(by_hand.split()) < 1200
    for package in script["PACKAGES"]:
        listed = sum(f"| `{file.name}` |" in generated for file in (ROOT / package).rglob("*.py"))
        assert listed >= sum(file.name != "__init__.py" for file in (ROOT / package).rglob("*.py")) > 5
    assert "1. `cli`" in generated
    assert "`ragindex/index/`" in generated
