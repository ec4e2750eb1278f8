"""What a command imports before it does anything: packages that take long to import wait until they are needed."""

import json
import subprocess
import sys

import pytest
from command_line import ragindex

from ragindex.distribution import find_distribution

SCRIPT = """
import json, sys
from ragindex.cli import main
try:
    main.run_cli()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
SLOW = {"sklearn", "scipy", "pandas", "mlflow", "lancedb", "openai", "tiktoken", "torch", "sentence_transformers"}


@pytest.mark.parametrize("arguments", [["--help"], ["compare", "--help"], ["methods"]])
def test_no_slow_package_is_imported(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True)
    imported = json.loads(done.stderr.splitlines()[-1])
    assert SLOW & set(imported) == set()
    assert len(imported) < 1_200


def test_the_version_is_printed() -> None:
    found = find_distribution()
    assert ragindex("--version").out == f"{found.name} {found.version}\n"
