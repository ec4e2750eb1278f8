"""docs/dev/fidelity.md: made from the pages of methods and studies/results, which agree with the studies."""

import json
import re
import runpy
from typing import Any

import pytest
from project import ROOT

from ragindex_eval.report.sections.published import tabulate_published
from ragindex_eval.results.records import PublishedComparison
from ragindex_eval.run.settings import read_settings

MADE = runpy.run_path(str(ROOT / "docs" / "make_fidelity.py"))
RESULTS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in MADE["RESULTS"].glob("*.json")}


def test_the_page_is_that_of_the_pages_and_results() -> None:
    assert MADE["PAGE"].read_text(encoding="utf-8") == MADE["page"](), "Run: python docs/make_fidelity.py"


@pytest.mark.parametrize("name", RESULTS)
def test_results_have_the_published_figures_of_their_study(name: str) -> None:
    value = RESULTS[name]
    table = read_settings(ROOT / "eval/ragindex_eval/studies" / f"{value['study']}.yaml").published
    assert table is not None
    loaded = PublishedComparison.from_json(value["published"])
    assert name == f"{value['study']}-{loaded.data}"
    assert (loaded.source, loaded.unchecked) == (table.source, table.unchecked)
    published = table.figures_on(loaded.data)
    assert {(figure.method, figure.metric): figure.published for figure in loaded.figures} == pytest.approx(
        published, abs=1e-5
    )
    conditions = {condition.name: condition.published.replace(",", "") for condition in loaded.conditions}
    assert conditions == {key: str(condition) for key, condition in table.conditions_on(loaded.data).items()}


@pytest.mark.parametrize("name", RESULTS)
def test_results_hold_figures_alone(name: str) -> None:
    text = json.dumps(RESULTS[name])
    assert set(RESULTS[name]) - {"outdated"} == {"study", "command", "published"}
    assert not re.search(r"/(home|work|tmp|Users)/|[A-Za-z]:\\\\", text)


@pytest.mark.parametrize("method", MADE["METHODS"])
def test_rows_name_studies_and_hold_no_figure_of_theirs(method: str) -> None:
    rows = MADE["claims"](method)
    assert len(rows) > 10
    figures = {text for value in RESULTS.values() for row in _rows(value) for text in re.findall(r"\d+\.\d", row)}
    for _, _, *cells, written in rows:
        assert not figures & set(re.findall(r"\d+\.\d", " ".join(cells)))
        if written:
            study, _, label = written.partition(": ")
            table = read_settings(ROOT / "eval/ragindex_eval/studies" / f"{study}.yaml").published
            assert table is not None
            assert any(label in published.figures for published in table.data.values()), written


def _rows(value: dict[str, Any]) -> list[str]:
    rows = tabulate_published(PublishedComparison.from_json(value["published"])).rows
    return [f"{row.published} {row.here} {row.gain}" for row in rows]


def test_each_paper_has_a_study_that_was_run() -> None:
    assert {name.partition("-")[0] for name in RESULTS} == {"gear", "griever", "sirerag"}
    assert {"griever-table-1-musique", "griever-table-3-musique"} <= set(RESULTS)
