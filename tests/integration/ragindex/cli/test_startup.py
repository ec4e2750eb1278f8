"""What a command imports before it does anything: packages that take long to import wait until they are needed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import build, ragindex

from ragindex._util.distribution import find_distribution

SCRIPT = """
import json, sys
from ragindex.cli import main
try:
    main.run_cli()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
SLOW = {
    *("genai_prices", "lancedb", "mlflow", "openai", "pandas"),
    *("scipy", "sentence_transformers", "sklearn", "tiktoken", "torch"),
}
LIBRARIES = {"numpy", "pydantic", "pyarrow", "yaml", "jinja2", "rich.markdown"}


def find_imported(*arguments: object) -> set[str]:
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_help_imports_no_command() -> None:
    imported = find_imported("--help")
    assert (SLOW | LIBRARIES | {"sqlite3", "concurrent.futures"}) & imported == set()
    modules = {name for name in imported if name.startswith(("ragindex.cli.", "ragindex_eval.cli."))}
    assert modules == {"ragindex.cli.main", "ragindex.cli.console"}
    assert len(imported) < 350


COMMANDS = {
    *("add", "ask", "cache", "doctor", "export", "index"),
    *("methods", "parts", "read", "remove", "repair", "search", "use"),
}


def imported_commands(imported: set[str]) -> set[str]:
    return {name for name in COMMANDS if f"ragindex.cli.{name}" in imported}


@pytest.mark.parametrize("arguments", [["compare", "--help"], ["methods"]])
def test_command_imports_no_slow_package_and_no_other_command(arguments: list[str]) -> None:
    imported = find_imported(*arguments)
    assert SLOW & imported == set()
    assert len(imported) < 1_000
    assert imported_commands(imported) == COMMANDS & {arguments[0]}


def test_search_imports_what_it_needs(tmp_path: Path) -> None:
    folder = build(tmp_path)
    imported = find_imported("search", "slate", "--index", folder, "--method", "bm25")
    assert (SLOW | {"joblib"}) & imported == set()  # pyarrow imports pandas for values that it converts from Python
    assert len(imported) < 1_000
    assert imported_commands(imported) == {"search"}
    assert not any(name.startswith(("ragindex_eval", "ragindex_retrievers")) for name in imported)


def test_version() -> None:
    distribution = find_distribution()
    assert ragindex("--version").out == f"{distribution.name} {distribution.version}\n"


def test_audit_of_figures_imports_neither_index_nor_corpus() -> None:
    imported = find_imported("audit", "--value", "40.5", "--value", "36.4", "--n", "1000", "--metric", "EM")
    assert "ragindex_eval.auditing.audit" in imported
    assert {"ragindex.index.index", "ragindex.corpus.corpus", "ragindex.stores", "mlflow"} & imported == set()


def test_comparison_of_rankings_imports_neither_readers_nor_rules(tmp_path: Path) -> None:
    (tmp_path / "qrels.trec").write_text("q 0 a 1\n")
    (tmp_path / "a.trec").write_text("q Q0 a 1 2.0 a\n")
    run, qrels = tmp_path / "a.trec", tmp_path / "qrels.trec"
    imported = find_imported("compare", "--run", run, "--qrels", qrels, "--out", tmp_path / "out")
    assert "ragindex_eval.run.compare_runs" in imported
    unneeded = {
        "ragindex.english",
        "ragindex.index.index",
        "ragindex.index.leases",
        "ragindex.corpus.readers.by_suffix",
    }
    assert unneeded & imported == set()
