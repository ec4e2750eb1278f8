"""Every study: its methods and parameters exist, its figures parse, and it runs."""

from pathlib import Path

import pytest
from command_line import ragindex
from project import ROOT
from unrecorded import record_nothing

from ragindex.plugins import registry
from ragindex_eval.results.load import load_results
from ragindex_eval.run.pipeline import make_plan
from ragindex_eval.run.read_answers import GOLD_PASSAGES, NO_PASSAGES
from ragindex_eval.run.settings import read_settings

STUDIES = {path.stem: read_settings(path) for path in sorted((ROOT / "studies").glob("*.yaml"))}
NOT_RUN = ("ColBERTv2", "IRCoT (ColBERTv2)", "RAPTOR + ColBERTv2", "SiReRAG + ColBERTv2")


def test_there_are_studies_of_every_paper() -> None:
    papers = [name.partition("-")[0] for name in STUDIES]
    assert {paper: papers.count(paper) for paper in papers} == {"gear": 8, "griever": 4, "sirerag": 8}


@pytest.mark.parametrize("name", STUDIES)
def test_methods_exist_and_every_published_row_has_one(name: str) -> None:
    settings = STUDIES[name]
    assert settings.name == name
    table = settings.published
    assert table is not None
    labels = [method.label for method in make_plan(settings).methods]
    bounds = [NO_PASSAGES, GOLD_PASSAGES] if settings.read else []
    published = {method for rows in table.data.values() for method in rows.figures}
    assert published - {*labels, *bounds} <= set(NOT_RUN)
    assert set(labels) <= published


@pytest.mark.parametrize("name", STUDIES)
def test_metrics_are_those_that_the_study_measures(name: str) -> None:
    settings = STUDIES[name]
    assert settings.published is not None
    measured = {f"R@{k}" for k in settings.k}
    of_answers = {"EM", "F1", "accuracy", "STR-EM", "Disambig-F1", "DR"} if settings.read else set()
    assert set(settings.published.metrics) <= measured | of_answers
    stated = {settings.published.conditions_on(data).get("k") for data in settings.published.data}
    assert stated <= {None, settings.k[-1]}


def test_figures_are_fractions_of_one() -> None:
    figures = STUDIES["griever-table-1"].published, STUDIES["griever-table-4"].published
    assert figures[0] is not None
    assert figures[0].figures_on("musique")["GRIEVER", "R@5"] == 0.456
    assert figures[1] is not None
    assert figures[1].figures_on("musique")["IRCoT + GRIEVER", "R@10"] == pytest.approx(0.6103)
    assert ("IRCoT + GRIEVER, 2 rounds", "R@15") not in figures[1].figures_on("2wiki")


def test_a_parameter_of_a_study_is_that_of_the_method() -> None:
    plan = {method.label: method.scheme for method in make_plan(STUDIES["sirerag-table-5"]).methods}
    assert plan["(E)"] == registry.scheme("sirerag(pool=tree_pool(trees=[summary_tree(dual=propositions)]))")


def test_no_study_has_settings_of_ones_own_machine() -> None:
    given = {name for settings in STUDIES.values() for name in settings.model_fields_set}
    assert given == {"name", "methods", "k", "read", "reader_prompt", "published"}


def test_a_study_asks_for_answers_as_its_paper_does() -> None:
    asked = {name: settings.reader_prompt for name, settings in STUDIES.items() if settings.read}
    styles = {"gear": "six-words", "griever": "six-words", "sirerag": "fewest-words"}
    assert asked == {name: styles[name.partition("-")[0]] for name in asked}


def test_a_study_runs_on_a_small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_nothing(monkeypatch)
    monkeypatch.chdir(tmp_path)
    config = ROOT / "studies" / "griever-table-1.yaml"
    done = ragindex("compare", "world:50:7", "--config", config, "--published-data", "musique", "--limit", 3)
    assert done.code == 0
    result = load_results(tmp_path / "ragindex-results" / "griever-table-1")
    published = result.comparisons[0].published
    assert published is not None
    assert [one.published for one in published.figures if one.method == "GRIEVER"] == [0.456, 0.539, 0.573]
    assert all(one.here is not None and one.verdict == "not comparable" for one in published.figures)
    assert published.reason == (
        "encoder is lsa, published all-mpnet-base-v2; llm is rules, published gpt-4o-mini; "
        "3 questions, published 500; 50 documents, published 139,416"
    )
