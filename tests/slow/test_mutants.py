"""The tool that finds mutants which no test notices (tests/support/mutants.py)."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

from mutant_operators import find_mutants
from project import ROOT

COMMAND = "eval/ragindex_eval/cli/estimate.py"
TESTS = "tests/integration/eval/cli/test_estimate.py::test_seed_draws_the_questions"


def test_mutants_of_a_module_that_tests_import_late(tmp_path: Path) -> None:
    """The module of a command is imported when the command runs, after the tests are collected."""
    mutants = find_mutants(ast.parse((ROOT / COMMAND).read_text(encoding="utf-8")))
    (number,) = (n for n, mutant in enumerate(mutants) if "+     questioned = None" in mutant.describe()["diff"])
    out = tmp_path / "mutants.jsonl"
    subprocess.run(
        [sys.executable, "-m", "mutants", COMMAND, "--out", str(out), "--numbers", str(number), "--", TESTS],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests" / "support")},
        check=True,
    )
    (record,) = map(json.loads, out.read_text().splitlines())
    assert (record["number"], record["tests"]) == (number, 2)
    assert record["killed_by"].startswith(TESTS)
