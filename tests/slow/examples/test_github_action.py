"""The GitHub Action of a gate: its line is run by a shell on a made-up world."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from openai_server import OpenAIServer
from project import ROOT
from search_server import PLAIN, searching

from ragindex_eval.data import worlds

WORKFLOW = yaml.safe_load((ROOT / "examples" / "github-action" / "retrieval-gate.yml").read_text(encoding="utf-8"))


def write_world(folder: Path) -> None:
    for document in worlds.make_documents(100):
        path = folder / "my-documents" / f"{document.id}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {document.title}\n{document.text}\n", encoding="utf-8")
    lines = ["question,documents"]
    for question in worlds.make_questions(100, per_kind=8):
        if question.gold is not None:
            lines.append(f'"{question.text}",{";".join(f"{id}.md" for id in sorted(question.gold.doc_ids))}')
    (folder / "questions.csv").write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def empty_service() -> Iterator[str]:
    """A retriever behind HTTP that finds nothing."""
    with OpenAIServer(key=None) as server:
        yield f"http(url={searching(server, ()).url}{PLAIN})"


@pytest.mark.parametrize(
    ("method", "verdict", "code"), [("bm25", "PASS", 0), ("dense", "UNDECIDED", 13), ("a service", "FAIL", 12)]
)
def test_gate_runs_as_written(method: str, verdict: str, code: int, empty_service: str, tmp_path: Path) -> None:
    write_world(tmp_path)
    job = WORKFLOW["jobs"]["gate"]
    (step,) = [step for step in job["steps"] if step.get("name") == "gate"]
    assert job["env"]["BASELINE"] == "bm25"
    variables = {**job["env"], "METHOD": empty_service if method == "a service" else method}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=tmp_path,
        env={**os.environ, **variables, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert json.loads((tmp_path / "gate.json").read_text())["verdict"] == verdict
    assert ElementTree.parse(tmp_path / "gate.xml").getroot().get("failures") == str(int(code != 0))
