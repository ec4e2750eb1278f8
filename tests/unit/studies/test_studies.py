"""Every study: its methods and parameters exist, and its figures parse. tests/slow/studies runs one."""

import pytest
from project import ROOT

from ragindex.plugins import registry
from ragindex_eval.run.bounds import GOLD_PASSAGES, NO_PASSAGES
from ragindex_eval.run.plan import make_plan
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
    prompts = {name: settings.reader_prompt for name, settings in STUDIES.items() if settings.read}
    styles = {"gear": "six-words", "griever": "six-words", "sirerag": "fewest-words"}
    assert prompts == {name: styles[name.partition("-")[0]] for name in prompts}
