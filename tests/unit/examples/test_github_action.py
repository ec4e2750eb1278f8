"""The GitHub Action of a gate, which tests/slow/examples/test_github_action.py runs."""

import re
import shlex

import yaml
from doc_examples import parse_command
from project import ROOT

WORKFLOW = ROOT / "examples" / "github-action" / "retrieval-gate.yml"


def test_workflow_runs_gate_and_uploads_what_it_writes() -> None:
    job = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["gate"]
    upload = next(step for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
    line = next(step["run"] for step in job["steps"] if step.get("name") == "gate")
    assert upload["if"] == "always()"
    for file in upload["with"]["path"].split():
        assert file in line
    assert job["env"]["BASELINE"] == "bm25"
    given = re.sub(r"\$\{?(\w+)\}?", lambda match: str(job["env"][match[1]]), line.replace("\\\n", " "))
    program, *words = shlex.split(given, comments=True)
    assert (program, words[0]) == ("ragindex", "gate")
    parse_command(words)
