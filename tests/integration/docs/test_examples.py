"""The examples of the README and of the docs: all are read, and those that compare no methods are run.

tests/slow/docs/test_examples.py runs the others.
"""

import re
from pathlib import Path

import pytest
from doc_examples import ELSEWHERE, PAGES, blocks, commands, docs_desk, parse_command, run_page, runnable_pages
from project import ROOT

from ragindex.plugins import registry

# mlflow's dependencies deprecate one another, and mlflow's tracing says so in the middle of a retrieval
pytestmark = pytest.mark.filterwarnings("ignore", "error::ragindex.mlflow_tracing.TracingWarning")


@pytest.mark.parametrize("page", runnable_pages(slow=False), ids=lambda page: page.name)
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with docs_desk(tmp_path, monkeypatch) as desk:
        run_page(page, desk)


def test_commands_options_and_methods_of_examples_exist() -> None:
    read = 0
    for page in PAGES:
        for _, code in blocks(page, "python"):
            compile(code, str(page), "exec")
        for _, code in blocks(page, "bash") if page.name not in ELSEWHERE else ():
            for words in commands(code):
                parse_command(words)
                read += 1
    assert read > 50


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_method_has_a_page() -> None:
    described = "".join(
        page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "explanation" / "methods").glob("*.md")
    )
    for name in registry.plugin_names("schemes"):
        assert f"**`{name}`**" in described
