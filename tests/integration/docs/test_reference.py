"""The reference pages: made from the code, complete, and every example of the API runs."""

import json
import re
import runpy
import shlex
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from doc_examples import parse_command
from empty_tracker import make_tracker
from project import ROOT

import ragindex
from ragindex.plugins import registry
from ragindex.types import Usage
from ragindex_eval.results import model

SCRIPT = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))
PAGES: dict[Path, str] = SCRIPT["pages"]()
API = ROOT / "docs" / "reference" / "api.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", API.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
NO_VARIABLES = {  # constants in capitals that name no environment variable
    *("API_KEY", "CA_FILE", "DATA_OR_INDEX", "DATA_SUFFIXES", "DOCUMENT_SUFFIXES", "ENABLE_CPU_PINNING", "IF_STOPPED"),
    *("INFERENCE_NUM_THREADS", "INFERENCE_PRECISION_HINT", "MAX_TEXT_LENGTH", "NAME_OR_PATH", "NUM_STREAMS"),
    *(
        "OCR_READERS",
        "O_BINARY",
        "O_NOFOLLOW",
        "O_NONBLOCK",
        "QUESTION_KINDS",
        "RUST_BACKTRACE",
        "WRONG_VERSION_NUMBER",
        "LC_ALL",
    ),
    *("GIT_ALLOW_PROTOCOL", "GIT_ATTR_NOSYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_NO_LAZY_FETCH", "GIT_TERMINAL_PROMPT"),
}
BUILT = {  # names that the source puts together, by what they begin or end with
    "ELASTICSEARCH_": "ELASTICSEARCH_{",
    "_PROXY": "_PROXY",
    **dict.fromkeys(("RAGINDEX_READ_KEY", "RAGINDEX_WRITE_KEY", "RAGINDEX_JUDGE_KEY"), "RAGINDEX_{"),
}


def written_variables() -> set[str]:
    groups = tomllib.loads(SCRIPT["ENVIRONMENT"].read_text(encoding="utf-8"))["group"]
    return {variable["name"] for group in groups for variable in group["variable"]}


@cache
def source() -> str:
    packages = ("ragindex", "eval/ragindex_eval", "baselines/ragindex_baselines", "retrievers/ragindex_retrievers")
    paths = sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_page_is_that_of_the_code(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path], "Run: python docs/make_reference.py"


def test_every_plugin_and_its_parameters_are_listed() -> None:
    text = "".join(PAGES.values())
    for group in ("schemes", "parts", "encoders", "llms", "stores"):
        for name in registry.plugin_names(group):  # type: ignore[arg-type]  # mypy sees str
            assert f"`{name}`" in text
            rows = SCRIPT["parameter_rows"](registry.load_plugin(group, name))  # type: ignore[arg-type]
            for parameter, _, _, meaning in rows:
                assert meaning, f"{group} {name}: {parameter} has no description"
                assert f"| {parameter} |" in text


@pytest.mark.parametrize(
    ("method", "cells"),
    [
        ("bm25", "no | no | no"),
        ("gear", "`gear-read`, `gear-reason`, `gear-rewrite` | `extractions` | `vectors`"),
        ("hybrid", "no | no | `vectors`"),
    ],
)
def test_methods_that_ask_a_model(method: str, cells: str) -> None:
    page = PAGES[ROOT / "docs" / "reference" / "methods.md"]
    (row,) = (line for line in page.splitlines() if line.startswith(f"| [`{method}`]"))
    assert row.endswith(f" | {cells} |")


def test_table_of_parameters_names_the_methods_that_have_them() -> None:
    lines = PAGES[ROOT / "docs" / "explanation" / "methods" / "flat.md"].splitlines()
    assert "| `over` | all | `passages` | part | Part whose records are searched. |" in lines
    assert "| `rrf_k` | composed | `60` | float, ≥ 0 | Constant of reciprocal rank fusion. |" in lines


def test_examples_of_commands_can_be_parsed() -> None:
    blocks = re.findall(r"^Example:\n(.*?)\n```", PAGES[ROOT / "docs/reference/commands.md"], re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in re.sub(r"\\?\n +", " ", block).splitlines()]
    assert len(lines) > 25
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        assert program == "ragindex"
        parse_command(words)


def test_source_reads_no_other_variables() -> None:
    named = set(re.findall(r"""["']([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)["']""", source()))
    assert len(named) > 30
    assert sorted(named - written_variables() - NO_VARIABLES) == []


def test_source_puts_together_no_other_variables() -> None:
    named = set(re.findall(r"""\bf["']([A-Z]{2,}[A-Z0-9]*_\{)""", source()))
    assert named == {pattern for pattern in BUILT.values() if pattern.endswith("{")}


def test_each_variable_is_read_by_the_source() -> None:
    for name in written_variables():
        built = next((pattern for part, pattern in BUILT.items() if part in name), name)
        assert built in source(), name


@pytest.mark.parametrize(
    "kind", [model.Comparison, model.MethodResult, model.Latency, model.MethodPair, model.Breakdown]
)
def test_fields_of_results_are_described(kind: type[Any]) -> None:
    """Results of an earlier run have no field that the page lacks."""
    folder = ROOT / "tests" / "support" / "results_of_schema_7"
    comparison = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    methods = comparison["methods"]
    values = {
        model.Comparison: [comparison],
        model.MethodResult: methods,
        model.Latency: [method["latency_ms"] for method in methods],
        model.MethodPair: comparison["pairs"],
        model.Breakdown: [model.Breakdown("hops", "2", 3, {}, {}, model.Percentiles(1.0, 2.0), Usage(), 1.0).to_json()],
    }[kind]
    fields = {name.strip("`") for name, _, _ in SCRIPT["field_rows"](kind)}
    assert values
    for value in values:
        assert value.keys() <= fields


def test_lines_of_answers_are_described() -> None:
    folder = ROOT / "tests" / "support" / "results_of_schema_7"
    fields = {name.strip("`") for name, _, _ in SCRIPT["field_rows"](model.MethodAnswer)}
    lines = (folder / "per_query.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines
    assert {name for line in lines for name in json.loads(line)} <= fields


def test_no_field_is_without_a_meaning() -> None:
    page = PAGES[ROOT / "docs" / "reference" / "results-schema.md"]
    assert [line for line in page.splitlines() if line.endswith("| |")] == []


def test_every_public_name_has_an_example() -> None:
    sections = re.split(r"^## ", API.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(sections) == len(ragindex.__all__)
    without = [section.partition("\n")[0] for section in sections if "```python" not in section]
    assert without == []


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by itself, where an index, a retriever over it, hits and a comparison are there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", make_tracker(tmp_path))
    for name, text in {
        "notes/old.md": "# Old notes\nAda wrote the report.",
        "light.md": "# Light\nBuilt in 1931.",
    }.items():
        (tmp_path / "my-documents" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "my-documents" / name).write_text(text, encoding="utf-8")
    (tmp_path / "faq.csv").write_text("Nr,Question,Answer\n7,When is high tide?,At noon.\n")
    (tmp_path / "questions.csv").write_text("question,answer,documents\nWho wrote the report?,Ada,notes/old.md\n")
    assert len(EXAMPLES) > 20
    documents = ragindex.read("my-documents")
    for example in EXAMPLES:
        with ragindex.open(tmp_path / "my-index", encoder="lsa", create=True) as index:
            index.replace(documents)
            index.build("bm25", "hybrid")
            retriever = index.retriever("hybrid")
            hits = retriever.search("Who wrote the report?")
            given = {"ragindex": ragindex, "index": index, "retriever": retriever, "hits": hits}
            exec(compile(example, "example", "exec"), given)
