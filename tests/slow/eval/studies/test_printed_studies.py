"""Every study is rehearsed by rules, and one is run as printed against an endpoint with answers written by hand."""

from pathlib import Path

import pytest
from command_line import ragindex
from made_language import answering
from studied_hills import QUESTIONS, answer, task_of, write_files
from unrecorded import record_nothing

from ragindex_eval.results.files import load_results
from ragindex_eval.run.bounds import GOLD_PASSAGES, NO_PASSAGES
from ragindex_eval.run.plan import make_plan
from ragindex_eval.studies.catalogue import list_studies, load_study


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, no key, no model and no hub."""
    record_nothing(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("OPENAI_API_KEY", "EMBEDDING_API_KEY", "OPENAI_BASE_URL", "EMBEDDING_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", list_studies())
def test_each_study_is_rehearsed_by_rules(name: str, tmp_path: Path) -> None:
    done = ragindex("study", name, "--dry-run", "--json", "-")
    assert done.code == 0, done.err
    study, value = load_study(name), done.json
    assert [data["name"] for data in value["data"]] == list(study.data)
    measured = {method.label for method in make_plan(study.settings).methods} - {*value["not_rehearsed"]}
    if study.settings.read:
        measured |= {NO_PASSAGES, GOLD_PASSAGES}
    for data in value["data"]:
        rows = {row["method"]: row for row in data["rows"]}
        assert rows.keys() == study.table.data[data["name"]].figures.keys()
        of_worlds = {"EM", "F1", "R@5", "R@10", "R@15"}  # a world has no choices and no sub-questions
        missing = {row["method"] for row in data["rows"] if row["here"] is None and row["metric"] in of_worlds}
        assert missing == rows.keys() - measured if of_worlds & {*study.table.metrics} else missing == set()
        states = {(need["kind"], need["state"]) for need in data["needs"]}
        assert {("files", "missing"), ("key", "missing")} <= states
        assert data["estimate"] is None
    assert list(tmp_path.iterdir()) == []  # nothing stays


def test_a_study_runs_as_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SiReRAG's Table 4: GPT-3.5 turbo indexes, GPT-4o reads."""
    write_files(tmp_path / "data")
    asked = ("study", "sirerag-table-4-gpt-3.5", "--on", "musique", "--data", "data")
    with answering(monkeypatch, answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        dry = ragindex(*asked, "--dry-run", "--json", "-")
        assert dry.code == 0, dry.err
        (of_data,) = dry.json["data"]
        assert {need["state"] for need in of_data["needs"]} == {"ok"}
        assert 0 < of_data["estimate"]["money"] < 1
        assert server.requests == []
        done = ragindex(*asked, "--yes", "--json", "-")
        assert done.code == 0, done.err
        chats = [request.body for request in server.requests if request.path.endswith("/chat/completions")]
        by_model = {model: {task_of(body) for body in chats if body["model"] == model} for model in _models(chats)}
        assert by_model == {
            "gpt-3.5-turbo": {"extract", "question_entities", "rewrite", "entities", "propositions", "summary"},
            "gpt-4o": {"answer"},
        }
        sent = len(server.requests)
        assert ragindex(*asked, "--yes", "--json", "-").code == 0
        assert len(server.requests) == sent  # nothing is paid for again
    result = load_results(Path("ragindex-results/sirerag-table-4-gpt-3.5-musique")).comparisons[0]
    assert (result.encoder, result.llm) == ("openai:text-embedding-3-small", "openai:gpt-3.5-turbo")
    assert result.reader is not None
    assert (result.reader.llm, result.reader.tokens, result.reader.passages) == ("openai:gpt-4o", None, 20)
    assert {method.label: method.metrics["EM"] for method in result.methods} == dict.fromkeys(
        ("HippoRAG", "RAPTOR", "SiReRAG"), 1.0
    )
    assert {bound.label: bound.metrics["EM"] for bound in result.bounds} == {NO_PASSAGES: 0.0, GOLD_PASSAGES: 1.0}
    assert result.published is not None
    equal = {condition.name for condition in result.published.conditions if condition.equal}
    assert equal == {"encoder", "llm", "reader", "k"}
    assert done.json["spent"]["money"] > 0
    assert len(result.queries) == len(QUESTIONS)


def _models(chats: list[object]) -> set[str]:
    return {str(body["model"]) for body in chats if isinstance(body, dict)}
