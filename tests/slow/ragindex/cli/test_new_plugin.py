"""What `ragindex new-plugin` writes, installed by pip."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import make_desk, ragindex
from empty_tracker import make_tracker


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


def test_what_it_writes_is_installed_passes_its_test_and_is_a_method(tmp_path: Path) -> None:
    done = ragindex("new-plugin", "title-words", "--json", "-")
    files = ["README.md", "pyproject.toml", "test_title_words.py", "title_words.py"]
    assert done.json == {"name": "title-words", "folder": "ragindex-title-words", "files": files}
    assert sorted(path.name for path in Path("ragindex-title-words").iterdir()) == files
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--disable-pip-version-check", "--target", "site", "./ragindex-title-words"], check=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path("site").absolute()),
        "MLFLOW_TRACKING_URI": make_tracker(tmp_path),
    }

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", *arguments]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    assert "1 passed" in run("pytest", "-q", "-p", "no:cacheprovider", "ragindex-title-words")
    assert "Hits of the base that are looked at." in run("ragindex", "methods", "title-words")
    output = run("ragindex", "compare", "world:100", "--methods", "bm25,title-words(depth=5)", "--limit", "20")
    assert "title-words(depth=5)" in output
