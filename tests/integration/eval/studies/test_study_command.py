"""The commands `studies` and `study`: what is missing for a run, what it costs, and which settings it has."""

from pathlib import Path

import pytest
from command_line import failed, make_desk, ragindex
from openai_server import KEY
from studied_hills import write_files

from ragindex.encoders import model_hub
from ragindex_eval.run.settings import CompareSettings, make_settings
from ragindex_eval.studies import catalogue
from ragindex_eval.studies.catalogue import DataSource, load_study
from ragindex_eval.studies.needs import Need, list_missing, list_needs

SOURCE = DataSource(data="musique.json", files=("musique.json", "musique_corpus.json"), page="https://example.org")


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(model_hub, "find_problem", lambda: "no network")
    return make_desk(tmp_path, monkeypatch)


def needs(**options: object) -> dict[str, Need]:
    settings = make_settings({"methods": "bm25", **options})
    return {f"{need.kind} {need.what}": need for need in list_needs(settings, SOURCE, Path("data"))}


def test_studies_are_listed() -> None:
    value = ragindex("studies", "--json", "-").json
    assert len(value) >= 20
    (row,) = [row for row in value if row["name"] == "sirerag-table-4-gpt-3.5"]
    assert row == {
        "name": "sirerag-table-4-gpt-3.5",
        "source": "SiReRAG (Zhang et al. 2025), Table 4",
        "data": ["musique", "2wiki", "hotpotqa"],
        "encoder": "openai:text-embedding-3-small",
        "llm": "openai:gpt-3.5-turbo",
        "reader_llm": "openai:gpt-4o",
    }
    assert "griever-table-1" in ragindex("studies").out


def test_files_are_there_or_missing() -> None:
    assert needs()["files musique.json, musique_corpus.json"] == Need(
        "files", "musique.json, musique_corpus.json", False, "from https://example.org into data"
    )
    write_files(Path("data"))
    assert needs()["files musique.json, musique_corpus.json"].there
    Path("data/musique_corpus.json").unlink()
    assert not needs()["files musique_corpus.json"].there


def test_keys_and_prices_of_each_model(monkeypatch: pytest.MonkeyPatch) -> None:
    models = {"llm": "openai:gpt-4o-2024-08-06", "read": True, "reader_llm": "openai:nobody"}
    described = needs(**models, encoder="openai:text-embedding-3-small")
    keys = {name: need.advice for name, need in described.items() if need.kind == "key"}
    assert keys == {
        "key OPENAI_API_KEY": "export OPENAI_API_KEY=… for api.openai.com",
        "key EMBEDDING_API_KEY or OPENAI_API_KEY": "export OPENAI_API_KEY=… for api.openai.com",
    }
    prices = {need.what: (need.state, need.required) for need in described.values() if need.kind == "price"}
    assert prices == {
        "openai:text-embedding-3-small": ("ok", False),
        "openai:gpt-4o-2024-08-06": ("ok", False),
        "openai:nobody": ("open", False),
    }
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert {need.state for need in needs(**models).values() if need.kind == "key"} == {"ok"}
    unread = needs(llm="openai:gpt-4o", reader_llm="openai:nobody")  # nothing is read
    assert "price openai:nobody" not in unread


def test_weights_are_downloaded_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = "sentence-transformers:no-such-model"
    assert needs(encoder=encoder)["weights no-such-model"] == Need(
        "weights", "no-such-model", False, "the hub does not answer (no network); give a folder with the weights", True
    )
    monkeypatch.setattr(model_hub, "find_problem", lambda: None)
    open_need = needs(encoder=encoder)["weights no-such-model"]
    assert (open_need.state, open_need.required) == ("open", False)
    assert open_need.advice.endswith("at the first run")


def test_what_several_data_sets_lack_comes_once() -> None:
    lacking = Need("key", "OPENAI_API_KEY", False, "export it")
    rest = [Need("price", "x", False, "set it", required=False), Need("files", "a", True)]
    assert list_missing({"musique": [lacking, *rest], "2wiki": [lacking]}) == [
        "musique, 2wiki: key OPENAI_API_KEY: export it"
    ]


def test_a_run_that_lacks_something_is_refused() -> None:
    message = failed(2, "study", "griever-table-1", "--on", "hotpotqa")
    assert message.startswith(
        "griever-table-1 cannot run yet. Missing for hotpotqa: files hotpotqa.json, hotpotqa_corpus.json: from "
        "https://github.com/OSU-NLP-Group/HippoRAG into .; hotpotqa: key OPENAI_API_KEY: export OPENAI_API_KEY=…"
    )
    assert "weights all-mpnet-base-v2: the hub does not answer (no network)" in message
    assert message.endswith("To see all: --dry-run")
    assert failed(2, "study", "griever-table-9").startswith("There is no study 'griever-table-9'. Available: gear-")
    nothing = failed(2, "study", "griever-table-1", "--on", "squad")
    assert nothing == "griever-table-1 has no data set 'squad'. Available: musique, 2wiki, hotpotqa."


def test_the_settings_of_a_run_are_those_of_the_paper() -> None:
    def settings_of(name: str, data: str, **given: object) -> CompareSettings:
        return load_study(name).settings_on(data, Path("d"), make_settings(given))

    gear = settings_of("gear-table-3", "musique")
    assert (gear.encoder, gear.llm, gear.reader_llm) == (
        "sentence-transformers:all-mpnet-base-v2",
        "openai:gpt-4o-mini-2024-07-18",
        None,
    )
    assert (gear.data, gear.format, gear.published_data) == ("d/processed_data/musique", "ircot", "musique")
    assert gear.out == Path("ragindex-results/gear-table-3-musique")
    assert (gear.read, gear.reader_passages, gear.reader_input) == (True, 5, "passages")
    assert settings_of("gear-table-10", "2wiki-qwen").llm == "openai:Qwen-2.5-7B-Instruct"
    assert settings_of("gear-table-10", "2wiki-llama").llm == "openai:Llama-3.1-8B-Instruct"
    drawn = settings_of("sirerag-table-11", "multihop-rag")
    assert (drawn.kinds, drawn.limit) == ({"comparison_query": 350, "inference_query": 350}, None)
    assert settings_of("sirerag-table-11", "musique-single-hop").limit == 502
    asqa = settings_of("sirerag-table-11", "asqa")
    assert (asqa.data, asqa.questions) == ("d/wikipedia", Path("d/ASQA.json"))
    assert settings_of("sirerag-table-2", "quality").seeds == [0, 1, 2, 3, 4]
    own = settings_of("sirerag-table-2", "quality", seed=7, llm="offline", out=Path("o"))
    assert (own.seed, own.seeds, own.llm, own.out) == (7, None, "offline", Path("o"))


def write_hotpotqa() -> None:
    write_files(Path("data"))
    for name in ("hotpotqa.json", "hotpotqa_corpus.json"):
        Path("data", name.replace("hotpotqa", "musique")).rename(Path("data", name))


def test_a_dry_run_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    write_hotpotqa()
    done = ragindex("study", "griever-table-2", "--on", "hotpotqa", "--data", "data", "--dry-run", "--json", "-")
    assert done.code == 0, done.err
    (row,) = done.json["data"]
    assert [need["state"] for need in row["needs"] if need["kind"] == "key"] == ["missing"]
    assert sum(task["calls"] for task in row["estimate"]["tasks"]) > 0


def test_a_run_by_rules_needs_no_key() -> None:
    write_hotpotqa()
    command = ("study", "griever-table-2", "--on", "hotpotqa", "--data", "data", "--encoder", "lsa", "--llm", "offline")
    done = ragindex(*command, "--json", "-")
    assert done.code == 0, done.err
    assert done.json["published"]["data"] == "hotpotqa"
    measured = {row["method"] for row in done.json["published"]["figures"] if row["here"] is not None}
    assert measured == {"BM25", "Dense", "RRFHybrid", "Composed", "GRIEVER"}
    dry = ragindex(*command, "--dry-run").out
    assert "hotpotqa: what its run needs" in dry
    assert "Nothing here is paid for." in dry
    assert "Rehearsed by rules over world:50:7, 3 questions" in dry


def test_json_takes_one_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for source in catalogue.list_data_sources().values():
        for name in source.files:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).touch()
    by_rules = ("--encoder", "lsa", "--llm", "offline", "--json", "-")
    assert failed(2, "study", "griever-table-1", *by_rules) == "--json takes one data set. Name it: --on musique"
