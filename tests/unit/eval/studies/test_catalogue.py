"""Every study: its methods and parameters exist, its figures parse, and its setup is what the conditions say."""

from pathlib import Path
from statistics import fmean

import pytest

from ragindex.encoders.local_models import LocalModelPlugin
from ragindex.errors import UnknownNameError
from ragindex.llm.answer_question import ContextLimits
from ragindex.plugins import registry
from ragindex.plugins.base import walk_plugins
from ragindex_baselines.ircot import IRCoT
from ragindex_eval.data.published import EFFICIENCY
from ragindex_eval.run.bounds import GOLD_PASSAGES, NO_PASSAGES
from ragindex_eval.run.plan import make_plan
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.studies.catalogue import list_studies, load_study
from ragindex_retrievers.gear.method import ExpandingScheme, Gear

STUDIES = {name: load_study(name).settings for name in list_studies()}


def test_there_are_studies_of_every_paper() -> None:
    papers = [name.partition("-")[0] for name in STUDIES]
    assert {paper: papers.count(paper) for paper in papers} == {"gear": 9, "griever": 4, "sirerag": 10}


@pytest.mark.parametrize("name", STUDIES)
def test_methods_exist_and_every_published_row_has_one(name: str) -> None:
    settings = STUDIES[name]
    assert settings.name == name
    table = settings.published
    assert table is not None
    study = load_study(name)
    labels = [method.label for method in make_plan(study.settings_on(study.data[0], Path(), CompareSettings())).methods]
    assert labels == list(study.labels)
    bounds = [NO_PASSAGES, GOLD_PASSAGES] if settings.read else []
    published = {method for rows in table.data.values() for method in rows.figures}
    assert published - {*labels, *bounds} == set()
    assert set(labels) <= published


@pytest.mark.parametrize("name", STUDIES)
def test_the_setup_is_what_the_conditions_say(name: str) -> None:
    study = load_study(name)
    for data in study.data:
        settings, conditions = study.settings_on(data, Path(), CompareSettings()), study.table.conditions_on(data)
        models = {"encoder": settings.encoder, "llm": settings.llm, "reader": settings.reader_llm or settings.llm}
        for condition, model in models.items():
            assert condition not in conditions or str(model).rpartition(":")[2] == conditions[condition]
        assert settings.limit in (None, conditions.get("questions"))
        assert settings.kinds is None or sum(settings.kinds.values()) == conditions["questions"]
        assert study.source_of(data).files


def test_rows_may_be_left_out() -> None:
    study = load_study("gear-table-2")
    settings = study.settings_on("musique", Path(), CompareSettings(), ["ColBERTv2", "BM25"])
    labels = [method.label for method in make_plan(settings).methods]
    assert labels == [label for label in study.labels if label not in ("ColBERTv2", "BM25")]
    with pytest.raises(UnknownNameError, match="gear-table-2 has no row 'BM26'. Available: HippoRAG, BM25, "):
        study.settings_on("musique", Path(), CompareSettings(), ["BM26"])


def test_weights_are_of_colbert() -> None:
    models = {
        plugin.model
        for name in ("gear-table-2", "gear-table-3", "sirerag-table-6")
        for row in load_study(name).setup.with_weights
        for plugin in walk_plugins(registry.scheme(row))
        if isinstance(plugin, LocalModelPlugin)
    }
    assert models == {"colbert-ir/colbertv2.0"}


@pytest.mark.parametrize("name", STUDIES)
def test_metrics_are_those_that_the_study_measures(name: str) -> None:
    settings = STUDIES[name]
    assert settings.published is not None
    measured = {f"R@{k}" for k in settings.k}
    of_answers = {"EM", "F1", "accuracy", "STR-EM", "Disambig-F1", "DR", *EFFICIENCY} if settings.read else set()
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


def read_figures(name: str, metric: str) -> dict[str, dict[str, float]]:
    """The published figures by method and data set."""
    table, by_method = load_study(name).table, dict[str, dict[str, float]]()
    for data in table.data:
        for (method, of), value in table.figures_on(data).items():
            if of == metric:
                by_method.setdefault(method, {})[data] = value
    return by_method


def test_seconds_have_the_averages_and_the_growth_that_the_paper_prints() -> None:
    """The columns "Average" of SiReRAG's Tables 7 and 10, and TPER by the sizes of pools in its appendix C."""
    seconds = {**read_figures("sirerag-table-7", "TPQ"), **read_figures("sirerag-table-10", "TPQ")}
    averages = {"RAPTOR": 1.500, "SiReRAG": 2.315, "Self-ask": 2.41, "SiReRAG + self-ask": 3.63}
    assert {method: fmean(values.values()) for method, values in seconds.items()} == pytest.approx(averages, abs=5e-3)
    pools = {"musique": (35070, 12371), "2wiki": (19100, 6939), "hotpotqa": (29934, 10031)}
    growth = {
        data: seconds["SiReRAG"][data] / seconds["RAPTOR"][data] / (large / small)
        for data, (large, small) in pools.items()
    }
    assert read_figures("sirerag-table-7", "TPER") == {"SiReRAG": pytest.approx(growth, abs=6e-4)}


def test_one_call_of_gears_table_7_is_that_of_its_table_2() -> None:
    for metric in ("R@5", "R@10", "R@15"):
        extraction, main = read_figures("gear-table-7", metric), read_figures("gear-table-2", metric)
        for method in ("HippoRAG", "HippoRAG w/ IRCoT"):
            assert extraction[f"{method}, our prompt"].items() <= main[method].items()
        later = "HippoRAG w/ IRCoT{}, 2 rounds"
        assert extraction[later.format(", our prompt")] == main[later.format("")]
        printed = {name: values for name, values in extraction.items() if "original prompt" in name}
        assert sum(len(values) for values in printed.values()) == 6


def test_a_parameter_of_a_study_is_that_of_the_method() -> None:
    plan = {method.label: method.scheme for method in make_plan(STUDIES["sirerag-table-5"]).methods}
    assert plan["(E)"] == registry.scheme("sirerag(pool=tree_pool(trees=[summary_tree(dual=propositions)]))")


@pytest.mark.parametrize("name", STUDIES)
def test_every_chain_of_gear_is_encoded_as_algorithm_1_has_it(name: str) -> None:
    schemes = [method.scheme for method in make_plan(STUDIES[name]).methods]
    scorings = {scheme.scoring for scheme in schemes if isinstance(scheme, ExpandingScheme)}
    expands = (name.startswith("gear") and name != "gear-table-7") or name == "griever-table-4"
    assert scorings == ({"exact"} if expands else set())


def test_griever_under_agents_is_called_for_five_passages() -> None:
    schemes = [method.scheme for method in make_plan(STUDIES["griever-table-4"]).methods]
    agents = [scheme for scheme in schemes if isinstance(scheme, Gear)]
    assert len(agents) == 4
    assert {(agent.base_k, agent.passage_link_k) for agent in agents} == {(5, 5)}
    assert {scheme.base_k for scheme in schemes if isinstance(scheme, IRCoT)} == {5}


def test_tables_of_gear_state_the_chunks_of_its_table_5() -> None:
    chunks = {139416: 148793, 430225: 490454, 9221: 10293}
    for study in STUDIES.values():
        table = study.published
        assert table is not None
        stated = [table.conditions_on(data) for data in table.data]
        sizes = [(each["documents"], each.get("passages")) for each in stated if "documents" in each]
        assert sizes == [(documents, chunks[int(documents)]) for documents, _ in sizes]


def test_no_study_has_settings_of_ones_own_machine() -> None:
    given = {name for settings in STUDIES.values() for name in settings.model_fields_set}
    of_the_reader = {"read", "reader_passages", "reader_input", "reader_prompt"}
    assert given == {"name", "methods", "k", "published", *of_the_reader}


def test_a_reader_is_given_what_the_paper_says() -> None:
    """The five best passages alone (GeAR, Table 3; GRIEVER, Table 2), or all candidates (SiReRAG, section 5.4)."""
    limits = {name: settings.context_limits() for name, settings in STUDIES.items() if settings.read}
    five = ContextLimits(None, 5, notes=False)
    candidates = dict.fromkeys(("sirerag-table-2", "sirerag-table-9", "sirerag-table-10"), 10)
    assert limits == {
        name: ContextLimits(None, candidates.get(name, 20)) if name.startswith("sirerag") else five for name in limits
    }
    assert {name: STUDIES[name].k[-1] for name in limits} == {name: limits[name].passages for name in limits}


def test_a_study_asks_for_answers_as_its_paper_does() -> None:
    prompts = {name: settings.reader_prompt for name, settings in STUDIES.items() if settings.read}
    styles = {"gear": "six-words", "griever": "six-words", "sirerag": "fewest-words"}
    assert prompts == {name: styles[name.partition("-")[0]] for name in prompts}
