"""Every example of the README and of the docs is run: Python blocks as they stand, `ragindex` lines as commands."""

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import ROOT
from typer.testing import CliRunner

from ragindex import mlflow_tracing
from ragindex.cli import main
from ragindex.plugins import registry

# mlflow's dependencies deprecate one another, and mlflow's tracing says so in the middle of a retrieval
pytestmark = pytest.mark.filterwarnings("ignore", "error::ragindex.mlflow_tracing.TracingWarning")

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
INSTALLS = ("make ", "pip install ")  # run by hand, and by the tests of the plugin page
ELSEWHERE = {"asking-a-model.md", "writing-a-retriever.md", "api.md", "serving.md"}  # tests of their own run them
LONG = {
    "README.md",
    "comparing.md",
    "data.md",
    "griever.md",
    "hipporag.md",
    "integrations.md",
    "sirerag.md",
    "worlds.md",
}  # slow


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    found = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [(language, code) for language, code in found if language in languages]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with the files that the docs speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    texts = {
        "my-documents/lindau.md": "# Lindau\nThe lighthouse of Lindau was built in 1856. It stands at the harbour.",
        "my-documents/bread.md": "# Bread\nRye bread keeps for a week. Wheat bread does not.",
        "my-documents/notes/old.md": "# Old notes\nAda Miller painted the harbour of Lindau.",
        "my-documents/garden.txt": "A kitchen garden wants compost, sun and patience.",
        "new-documents/ferry.md": "# Ferry\nThe ferry from Lindau to Bregenz takes twenty minutes.",
        "questions.csv": "question,answer,documents\nWhen was the lighthouse built?,1856,lindau.md\n"
        "Who painted the harbour with the lighthouse?,Ada Miller,notes/old.md;Lindau\n",
        "questions.txt": "What does a garden want?\nHow long does bread keep?\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    yield tmp_path
    mlflow_tracing.autolog(disable=True)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if page.name in LONG else page for page in PAGES],
    ids=lambda page: page.name,
)
def test_examples(page: Path, desk: Path) -> None:
    if page.name in ELSEWHERE:
        pytest.skip("run by another test")
    for language, code in blocks(page, "python", "bash", "yaml"):
        if language == "python":
            (desk / "example.py").write_text(code, encoding="utf-8")
            runpy.run_path(str(desk / "example.py"))
        elif language == "yaml":
            (desk / "config.yaml").write_text(code)
            named = "" if "corpora:" in code else "my-documents/ --questions questions.csv "
            run(f"ragindex compare {named}--config config.yaml --index w --out o")
        else:
            for line in filter(None, code.splitlines()):
                assert line.startswith((*INSTALLS, "ragindex "))
                if line.startswith("ragindex "):
                    run(line)


def run(line: str) -> None:
    done = CliRunner().invoke(main.app, shlex.split(line, comments=True)[1:])
    assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_method_has_a_page() -> None:
    described = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "methods").glob("*.md"))
    for name in registry.plugin_names("schemes"):
        assert f"**`{name}`**" in described
