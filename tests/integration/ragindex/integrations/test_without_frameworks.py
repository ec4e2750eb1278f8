"""Without the frameworks: nothing imports them, and their adapters say what to install."""

import subprocess
import sys

PACKAGES = {
    "langchain": ("langchain_core", "'langchain-core>=1.0'"),
    "llama_index": ("llama_index", "'llama-index-core>=0.14.23'"),
    "haystack": ("haystack", "'haystack-ai>=2.20'"),
    "dspy": ("dspy", "'dspy>=3.0'"),
}
CODE = f"""
import importlib, sys
import ragindex, ragindex.index, ragindex.integrations, ragindex.cli.use
from ragindex.errors import MissingExtraError
ragindex.open
print([module for module, _ in {PACKAGES}.values() if module in sys.modules])
for adapter, (module, _) in {PACKAGES}.items():
    sys.modules[module] = None
    try:
        importlib.import_module("ragindex.integrations." + adapter)
    except MissingExtraError as error:
        print(error)
"""


def test_nothing_imports_frameworks_and_adapters_say_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    imported, *lines = done.stdout.strip().splitlines()
    assert imported == "[]"
    for (adapter, (_, package)), line in zip(PACKAGES.items(), lines, strict=True):
        assert line.startswith(f"ragindex.integrations.{adapter} needs the package ")
        assert line.endswith(f"Run: pip install {package}")
