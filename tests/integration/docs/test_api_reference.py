"""docs/reference/api.md: made from the docstrings, and every example in it runs."""

import re
import runpy
from pathlib import Path

import pytest
from empty_tracker import make_tracker
from project import ROOT

import ragindex

PAGE = ROOT / "docs" / "reference" / "api.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_page_is_that_of_the_docstrings() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_api.py"))["page"]()
    assert PAGE.read_text(encoding="utf-8") == made, "Run: python docs/make_api.py"


def test_every_public_name_has_an_example() -> None:
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(sections) == len(ragindex.__all__)
    without = [section.partition("\n")[0] for section in sections if "```python" not in section]
    assert without == []


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by itself, where an index, a retriever over it, hits and a comparison are there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", make_tracker(tmp_path))
    for name, text in {
        "notes/old.md": "# Old notes\nAda wrote the report.",
        "light.md": "# Light\nBuilt in 1931.",
    }.items():
        (tmp_path / "my-documents" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "my-documents" / name).write_text(text, encoding="utf-8")
    (tmp_path / "faq.csv").write_text("Nr,Question,Answer\n7,When is high tide?,At noon.\n")
    (tmp_path / "questions.csv").write_text("question,answer,documents\nWho wrote the report?,Ada,notes/old.md\n")
    assert len(EXAMPLES) > 20
    documents = ragindex.read("my-documents")
    for example in EXAMPLES:
        with ragindex.open(tmp_path / "my-index", encoder="lsa", create=True) as index:
            index.replace(documents)
            index.build("bm25", "hybrid")
            retriever = index.retriever("hybrid")
            hits = retriever.search("Who wrote the report?")
            given = {"ragindex": ragindex, "index": index, "retriever": retriever, "hits": hits}
            exec(compile(example, "example", "exec"), given)
