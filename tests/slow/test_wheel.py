"""The wheel in environments of its own, outside the repository, and beside folders of a user's, named like ours."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import QUESTIONS, TEXTS, write
from hatchling.builders.wheel import WheelBuilder
from project import ROOT
from uv import find_uv_bin

PAGE = ROOT / "docs" / "writing-a-retriever.md"


@dataclass(frozen=True)
class Environment:
    """A Python, and a folder in which its commands run."""

    python: Path
    desk: Path
    path: str = ""

    def run(self, *arguments: str) -> str:
        """The output of `python -m ...`. What the developer's own environment sets is not passed on."""
        own = ("PYTHON", "MLFLOW", "VIRTUAL")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        done = subprocess.run(
            [str(self.python), "-m", *arguments],
            capture_output=True,
            text=True,
            cwd=self.desk,
            env=inherited | ({"PYTHONPATH": self.path} if self.path else {}),
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def install(self, *packages: str) -> None:
        subprocess.run([find_uv_bin(), "pip", "install", "-q", "--python", str(self.python), *packages], check=True)

    def names(self) -> set[str]:
        """The top-level names of its site-packages."""
        (site,) = self.python.parents[1].glob("lib/python*/site-packages")
        return {path.name for path in site.iterdir()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return built


def environment(folder: Path) -> Environment:
    """A new one, without any package."""
    subprocess.run([find_uv_bin(), "venv", "-q", "--python", sys.executable, str(folder / "venv")], check=True)
    desk = folder / "desk"
    write(desk / "notes", TEXTS)
    (desk / "questions.csv").write_text(QUESTIONS)
    return Environment(folder / "venv" / "bin" / "python", desk)


def use(place: Environment) -> str:
    """Index, search and compare; what the comparison printed."""
    assert "bm25" in place.run("ragindex", "methods").split()
    assert "ragindex_baselines.bm25:BM25" in place.run("ragindex", "doctor")
    place.run("ragindex", "index", "notes", "--index", "built", "--methods", "bm25")
    assert "hill.md" in place.run("ragindex", "search", "highest hill", "--index", "built", "--method", "bm25")
    said = place.run("ragindex", "compare", "notes", "--questions", "questions.csv", "--methods", "bm25")
    results = place.desk / "ragindex-results" / "notes"
    methods = json.loads((results / "comparison.json").read_text())["methods"]
    assert {method["label"] for method in methods} == {"bm25"}
    assert (results / "report.html").is_file()
    return said


# ---------------------------------------------------------------- folders of a user's


@pytest.mark.parametrize("packages", [True, False], ids=["packages", "plain folders"])
def test_folders_named_like_ours_disturb_nothing(packages: bool, tmp_path: Path) -> None:
    """They raise where they are imported: on the path, and in the current folder, which `python -m` puts before it."""
    desk = tmp_path / "desk"
    write(desk / "notes", TEXTS)
    (desk / "questions.csv").write_text(QUESTIONS)
    modules = {f"{module}.py": "raise RuntimeError(__name__)" for module in ("cli", "run", "data", "bm25", "gear")}
    modules |= {"__init__.py": "raise RuntimeError(__name__)"} if packages else {}
    for place in (desk, tmp_path / "elsewhere"):
        for name in ("eval", "retrievers", "baselines", "tests", "benchmarks"):
            write(place / name, modules)
    use(Environment(Path(sys.executable), desk, str(tmp_path / "elsewhere")))


# ---------------------------------------------------------------- clean environments


def test_every_new_name_begins_with_ours(wheel: str, tmp_path: Path) -> None:
    place = environment(tmp_path)
    before = place.names()
    place.install("--no-deps", wheel)
    added = place.names() - before
    assert added >= {"ragindex", "ragindex_eval", "ragindex_baselines", "ragindex_retrievers"}
    assert [name for name in added if not name.startswith("ragindex")] == []


def test_without_extras(wheel: str, tmp_path: Path) -> None:
    place = environment(tmp_path)
    place.install(wheel)
    assert "mlflow" not in place.names()
    assert "compare" in place.run("ragindex", "--help")
    said = " ".join(use(place).split())
    assert "The comparison is not recorded: MLflow is not installed. Run: pip install 'mlflow>=3.1'" in said
    assert "hill.md" in place.run("ragindex", "ask", "Which hill is highest?", "--index", "built", "--method", "bm25")
    doctor = " ".join(place.run("ragindex", "doctor").split())
    assert "pip install 'mlflow>=3.1'" in doctor
    assert "pip install 'sentence-transformers>=5'" in doctor
    assert "broken" not in doctor


def test_with_evaluation_and_a_plugin_of_somebody(wheel: str, tmp_path: Path) -> None:
    place = environment(tmp_path)
    place.install(f"{wheel}[eval]", "pytest")
    said = place.run("ragindex", "demo", "--dir", "demo")
    assert "mlflow ui --backend-store-uri" in said
    assert (place.desk / "demo" / "results" / "report.html").is_file()

    page = PAGE.read_text(encoding="utf-8")
    (project,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    module, contract = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1:3]
    plugin, test = tmp_path / "plugin", place.desk / "test_shared_names.py"
    write(plugin, {"pyproject.toml": project, "shared_names.py": module})
    test.write_text(contract, encoding="utf-8")
    place.install(str(plugin))  # with its dependencies: the name of our distribution in it must be ours
    assert "ragindex-shared-names" in place.run("ragindex", "methods")
    assert "1 passed" in place.run("pytest", "-q", str(test))
    assert "broken" not in place.run("ragindex", "doctor")
