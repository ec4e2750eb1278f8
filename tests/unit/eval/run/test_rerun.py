"""What a rerun compares: settings, files that they name, services and models."""

import os
from pathlib import Path
from typing import Any

import pytest
from command_line import QUESTIONS, TEXTS, write

from ragindex.errors import StoreError
from ragindex_eval.results.files import remove_records
from ragindex_eval.run import rerun
from ragindex_eval.run.settings import CompareSettings, make_settings


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rerun, "_code_digest", str)
    write(tmp_path / "notes", TEXTS)
    write(tmp_path, {"questions.csv": QUESTIONS})


def given(**settings: Any) -> CompareSettings:
    return make_settings({"data": "notes", "questions": "questions.csv", **settings})


def described(**settings: Any) -> rerun.Inputs:
    return rerun.describe_inputs(given(**settings))


def test_settings_that_change_a_result() -> None:
    others: list[dict[str, Any]] = [
        {"k": "2"},
        {"seed": 3},
        {"encoder": "lsa:1"},
        {"language": "german"},
        {"limit": 1},
        {"methods": "hybrid(depth=3)"},
        {"methods": "hybrid(depth=2)"},
    ]
    digests = {rerun.settings_digest(given(**other)) for other in ({}, *others)}
    assert len(digests) == 1 + len(others)
    assert rerun.settings_digest(given(fail_below=["bm25:R@5=0.5"], out="out")) in digests


@pytest.mark.parametrize(
    "settings",
    [
        {"encoder": "sentence-transformers:models/one"},
        {"methods": 'bm25,rerank(reranker="cross-encoder:models/one")'},
        {"methods": [{"name": "evidence", "params": {"weights": "models/one/weights.json#0123"}}]},
        {"grid": ['evidence:weights="models/one/weights.json"']},
        {"reranker": "cross-encoder:models/one"},
        {"qa_model": "models/one"},
        {"triples": "models/one/weights.json"},
    ],
    ids=lambda settings: str(*settings),
)
def test_files_of_models_that_settings_name(settings: dict[str, Any]) -> None:
    write(Path("models/one"), {"weights.json": "1"})
    before = described(**settings)
    assert described(**settings).matches(before)
    write(Path("models/one"), {"weights.json": "2"})
    assert not described(**settings).matches(before)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_among_the_documents_is_not_read() -> None:
    os.mkfifo("notes/pipe")
    assert "0/pipe" not in described().files


def test_a_label_is_no_path() -> None:
    methods = [{"name": "bm25", "label": "[b]models[/]"}, {"name": "bm25", "label": "models/one"}]
    write(Path("models"), {"one": "1"})
    before = described(methods=methods)
    write(Path("models"), {"one": "2"})
    assert described(methods=methods).matches(before)


def test_the_revision_of_a_model_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(Path("hub").resolve()))
    write(Path("hub/models--a--b/refs"), {"main": "0123"})
    before = described()
    write(Path("hub/models--a--b/refs"), {"main": "4567"})
    assert not described().matches(before)


def test_another_service_and_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://one.example/v1")
    before = described()
    monkeypatch.setenv("OPENAI_BASE_URL", "https://user:password@one.example/v1")
    assert described().matches(before)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://two.example/v1")
    assert not described().matches(before)


def test_the_corpus_beside_a_file_of_questions() -> None:
    write(Path("data"), {"some.json": "[]"})
    before = described(data="data/some.json")
    write(Path("data"), {"some_corpus.json": "[]"})
    assert not described(data="data/some.json").matches(before)


def test_recently_changed_file_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TEXTS:
        os.utime(Path("notes", name), (1, 1))
    states = described().files
    assert {state.stamp for state in states.values()} == {None}  # the files are as new as their ctime
    monkeypatch.setattr(rerun, "_SETTLED", -1)
    assert None not in {state.stamp for state in described().files.values() if state.hash}


def test_record_that_cannot_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted")

    Path("inputs-1.json").write_text("{}")
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StoreError, match=r"inputs-1\.json could not be removed: Operation not permitted"):
        remove_records(Path())
