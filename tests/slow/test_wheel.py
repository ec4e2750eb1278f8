"""The wheel in environments of its own, outside the repository, and beside folders of a user's, named like ours."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from command_line import QUESTIONS, TEXTS, write
from hatchling.builders.wheel import WheelBuilder
from project import ROOT
from uv import find_uv_bin

PAGE = ROOT / "docs" / "tutorials" / "writing-a-retriever.md"


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
    output = place.run("ragindex", "compare", "notes", "--questions", "questions.csv", "--methods", "bm25")
    results = place.desk / "ragindex-results" / "notes"
    methods = json.loads((results / "comparison.json").read_text())["methods"]
    assert {method["label"] for method in methods} == {"bm25"}
    assert (results / "report.html").is_file()
    return output


# ---------------------------------------------------------------- folders of a user's


def test_folders_named_like_ours_disturb_nothing(tmp_path: Path) -> None:
    """They raise where they are imported: plain ones in the current folder, which comes first, packages on the path."""
    desk = tmp_path / "desk"
    write(desk / "notes", TEXTS)
    (desk / "questions.csv").write_text(QUESTIONS)
    raising = "raise RuntimeError(__name__)"
    modules = {f"{module}.py": raising for module in ("cli", "run", "data", "bm25", "gear")}
    for name in ("eval", "retrievers", "baselines", "tests", "benchmarks"):
        write(desk / name, modules)
        write(tmp_path / "elsewhere" / name, {**modules, "__init__.py": raising})
    use(Environment(Path(sys.executable), desk, str(tmp_path / "elsewhere")))


# ---------------------------------------------------------------- a clean environment


def test_wheel(tmp_path: Path) -> None:
    """In one environment: alone, with what it requires, and with evaluation and somebody's plugin."""
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path / "wheel"), versions=["standard"])
    place = environment(tmp_path)
    before = place.names()
    place.install("--no-deps", wheel)
    added = place.names() - before
    assert added >= {"ragindex", "ragindex_eval", "ragindex_baselines", "ragindex_retrievers"}
    assert [name for name in added if not name.startswith("ragindex")] == []

    place.install(wheel)
    assert "mlflow" not in place.names()
    assert "compare" in place.run("ragindex", "--help")
    output = " ".join(use(place).split())
    assert "The comparison is not recorded: MLflow is not installed. Run: pip install 'mlflow>=3.1'" in output
    assert "hill.md" in place.run("ragindex", "ask", "Which hill is highest?", "--index", "built", "--method", "bm25")
    doctor = " ".join(place.run("ragindex", "doctor").split())
    assert "pip install 'mlflow>=3.1'" in doctor
    assert "pip install 'sentence-transformers>=5'" in doctor
    assert "broken" not in doctor

    page = PAGE.read_text(encoding="utf-8")
    (project,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    module, contract = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1:3]
    plugin, test = tmp_path / "plugin", place.desk / "test_shared_names.py"
    write(plugin, {"pyproject.toml": project, "shared_names.py": module})
    test.write_text(contract, encoding="utf-8")
    place.install(f"{wheel}[eval]", str(plugin), "pytest")  # the plugin requires our distribution by its name
    output = place.run("ragindex", "compare", "world:50", "--limit", "10", "--methods", "bm25,links,shared-names")
    assert "mlflow ui --backend-store-uri" in output
    assert (place.desk / "ragindex-results" / "world-50-seed0" / "report.html").is_file()
    assert "1 passed" in place.run("pytest", "-q", str(test))
    assert "broken" not in place.run("ragindex", "doctor")
