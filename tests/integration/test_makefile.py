"""The scripts that the Makefile runs find what they import."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from project import ROOT

SCRIPT = re.compile(r"(?:PYTHONPATH=(\S+) )?\$\(BIN\)/python (\S+\.py)")
LOAD = "import runpy, sys; sys.path[0] = sys.argv[2]; runpy.run_path(sys.argv[1], run_name='loaded')"


@pytest.mark.parametrize(("path", "script"), sorted(SCRIPT.findall((ROOT / "Makefile").read_text(encoding="utf-8"))))
def test_script_is_loaded(path: str, script: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", LOAD, script, str(Path(script).parent)]
    subprocess.run(command, check=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": path})
