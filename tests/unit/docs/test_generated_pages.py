"""Pages that are generated from the code, the tables of studies and results: they are current and complete."""

import ast
import json
import re
import runpy
from collections.abc import Iterator
from typing import Any

import pytest
from project import ROOT

from ragindex import testing
from ragindex_eval import audit
from ragindex_eval.data.published import PublishedTable
from ragindex_eval.report.sections.published import tabulate_published
from ragindex_eval.results.records import PublishedComparison
from ragindex_eval.run.settings import read_settings

AUDITS, DESIGN, FIDELITY, HTTP_API, INTERFACES = (
    runpy.run_path(str(ROOT / "docs" / f"make_{name}.py"))
    for name in ("audits", "design", "fidelity", "http_api", "interfaces")
)
RESULTS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FIDELITY["RESULTS"].glob("*.json")}


def read_page(script: dict[str, Any]) -> str:
    return str(script["PAGE"].read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "script",
    [AUDITS, DESIGN, FIDELITY, HTTP_API, INTERFACES],
    ids=["audits", "design", "fidelity", "http_api", "interfaces"],
)
def test_page_is_current(script: dict[str, Any]) -> None:
    assert script["page"]() == read_page(script), f"Run: python {script['__file__']}"


# ---------------------------------------------------------------- audits of published tables


def test_verdicts_agree_with_a_published_paired_test() -> None:
    """HippoRAG 2 names the data sets on which its bootstrap test of the answers is significant (p < 0.05)."""
    table = ROOT / "studies" / "tables" / "hipporag2-table-2.csv"
    claims = audit(table, baseline="NV-Embed-v2 (7B)", methods=["HippoRAG 2"]).claims
    possible = [claim for claim in claims if claim.verdict not in ("unlikely", "impossible")]
    names = {claim.data.removesuffix(" HippoRAG") for claim in possible}
    assert names == {"NQ", "MuSiQue", "2Wiki", "LV-Eval"}
    assert {claim.level for claim in claims} == {0.05}


def test_every_table_is_audited() -> None:
    files = {entry.file for entry in AUDITS["ENTRIES"]}
    assert {f"tables/{path.name}" for path in (ROOT / "studies" / "tables").iterdir()} <= files
    assert len(files) == len(AUDITS["ENTRIES"]) >= 10


# ---------------------------------------------------------------- the design


def test_design_lists_every_module_and_is_short() -> None:
    by_hand, _, generated = read_page(DESIGN).partition("<!-- modules: begin -->")
    assert len(by_hand.split()) < 1200
    for package in DESIGN["PACKAGES"]:
        listed = sum(f"| `{file.name}` |" in generated for file in (ROOT / package).rglob("*.py"))
        assert listed >= sum(file.name != "__init__.py" for file in (ROOT / package).rglob("*.py")) > 5
    assert "1. `cli`" in generated
    assert "`ragindex/index/`" in generated


# ---------------------------------------------------------------- fidelity to papers


def read_published(study: str) -> PublishedTable:
    table = read_settings(ROOT / "eval/ragindex_eval/studies" / f"{study}.yaml").published
    assert table is not None
    return table


@pytest.mark.parametrize("name", RESULTS)
def test_results_have_the_published_figures_of_their_study_and_nothing_else(name: str) -> None:
    value = RESULTS[name]
    assert set(value) - {"outdated", "empty_memories"} == {"study", "command", "date", "version", "published"}
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2} \d+\.\d+\.\d+", f"{value['date']} {value['version']}")
    assert not re.search(r"/(home|work|tmp|Users)/|[A-Za-z]:\\\\", json.dumps(value))
    table, loaded = read_published(value["study"]), PublishedComparison.from_json(value["published"])
    assert name == f"{value['study']}-{loaded.data}"
    assert (loaded.source, loaded.unchecked) == (table.source, table.unchecked)
    figures = {(figure.method, figure.metric): figure.published for figure in loaded.figures}
    assert figures == pytest.approx(table.figures_on(loaded.data), abs=1e-5)
    conditions = {condition.name: condition.published.replace(",", "") for condition in loaded.conditions}
    assert conditions == {key: str(condition) for key, condition in table.conditions_on(loaded.data).items()}


@pytest.mark.parametrize("method", FIDELITY["METHODS"])
def test_rows_name_studies_and_hold_no_figure_of_theirs(method: str) -> None:
    rows = FIDELITY["claims"](method)
    assert len(rows) > 10
    figures = {text for value in RESULTS.values() for row in list_rows(value) for text in re.findall(r"\d+\.\d", row)}
    for _, _, *cells, written in rows:
        assert not figures & set(re.findall(r"\d+\.\d", " ".join(cells)))
        if written:
            study, _, label = written.partition(": ")
            assert any(label in published.figures for published in read_published(study).data.values()), written


def list_rows(value: dict[str, Any]) -> list[str]:
    rows = tabulate_published(PublishedComparison.from_json(value["published"])).rows
    return [f"{row.published} {row.here} {row.gain}" for row in rows]


def test_page_says_when_a_study_was_run_and_which_memories_were_empty() -> None:
    value = RESULTS["gear-table-10-hotpotqa-qwen"]
    empty, questions = value["empty_memories"]["GEAR, 2 rounds"]
    (_, section) = read_page(FIDELITY).split("### gear-table-10, hotpotqa-qwen\n")
    section = section.partition("\n### ")[0]
    assert f"\nRun {value['date']} with ragindex {value['version']}.\n" in section
    assert f"GEAR, 2 rounds, memory empty for {empty} of {questions} questions.\n" in section


def test_page_says_which_studies_were_not_run_again() -> None:
    newest = max(value["version"] for value in RESULTS.values())
    sections = read_page(FIDELITY).split("\n### ")[1:]
    marked = {section.partition("\n")[0] for section in sections if "**Not run again since.**" in section}
    assert marked == {
        f"{value['study']}, {value['published']['data']}"
        for value in RESULTS.values()
        if value["version"] != newest or "outdated" in value
    }


def test_each_paper_has_a_study_that_was_run() -> None:
    assert {name.partition("-")[0] for name in RESULTS} == {"gear", "griever", "sirerag"}
    assert {"griever-table-1-musique", "griever-table-3-musique"} <= set(RESULTS)


# ---------------------------------------------------------------- interfaces

_CODE_AT = {"RefusalError": 2, "error_body": 2, "busy": 1}
"""Which argument of these calls is the code of an error."""


def list_codes() -> Iterator[str]:
    for path in (ROOT / "ragindex" / "serve").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CODE_AT:
                code = node.args[_CODE_AT[node.func.id]] if len(node.args) > _CODE_AT[node.func.id] else None
                if isinstance(code, ast.Constant):
                    yield code.value


def test_http_api_has_every_code_and_endpoint() -> None:
    listed = {code for codes in HTTP_API["ERRORS"].values() for code in codes}
    assert listed == {*list_codes(), "overloaded"}  # the default of `busy`
    rows = [line for line in read_page(HTTP_API).splitlines() if line.startswith("| `")]
    for path in ("/search", "/ask", "/update", "/documents", "/documents/{id}", "/ready", "/metrics"):
        assert any(f" {path}`" in row for row in rows), path


def test_every_plugin_interface_and_contract_check_has_a_text() -> None:
    rows = re.findall(r"^\| `(.+?)` \| (.*) \|$", read_page(INTERFACES), re.MULTILINE)
    assert len(rows) > 80
    assert [name for name, text in rows if not text] == []
    checks = {name for name in vars(testing) if name.startswith("check_") and name != "check_scheme"}
    assert {name for name, _ in rows if re.fullmatch(r"check_(?!import|words)\w+", name)} == checks
