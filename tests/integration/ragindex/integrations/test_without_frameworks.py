"""Without the frameworks: nothing imports them, and their adapters say what to install."""

import subprocess
import sys

import pytest

FRAMEWORKS = ("langchain_core", "llama_index", "haystack", "dspy")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_ragindex_imports_no_framework() -> None:
    imports = "import sys, ragindex, ragindex.index, ragindex.integrations, ragindex.cli.use; ragindex.open; "
    assert run(f"{imports}print([name for name in {FRAMEWORKS} if name in sys.modules])") == "[]"


@pytest.mark.parametrize(
    ("adapter", "module", "package"),
    [
        ("langchain", "langchain_core", "'langchain-core>=1.0'"),
        ("llama_index", "llama_index", "'llama-index-core>=0.14'"),
        ("haystack", "haystack", "'haystack-ai>=2.20'"),
        ("dspy", "dspy", "'dspy>=3.0'"),
    ],
)
def test_an_adapter_says_what_to_install(adapter: str, module: str, package: str) -> None:
    code = f"""
import sys
from ragindex.errors import MissingExtraError
sys.modules[{module!r}] = None
try:
    import ragindex.integrations.{adapter}
except MissingExtraError as error:
    print(error)
"""
    said = run(code)
    assert said.startswith(f"ragindex.integrations.{adapter} needs the package ")
    assert said.endswith(f"Run: pip install {package}")
