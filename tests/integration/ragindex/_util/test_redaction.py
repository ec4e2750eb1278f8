"""A password is planted in the addresses, keys and parameters of commands, and looked for in files and output.

Keys that a server repeats to a language model's client are in test_language_secrets.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import ragindex
from planted_secrets import ADDRESSES, PARAMETERS, PIECE, PLANTED, QUOTED, leaks, planted_desk
from unrecorded import record_nothing

from ragindex.mlflow_tracing import TracingWarning
from ragindex_baselines.bm25 import BM25
from ragindex_eval.cli import compare
from ragindex_eval.mlflow.tracking import TrackingWarning, track

COMPARE = ("compare", "notes", "--questions", "questions.csv", "--index", "c")
LOGIN_ADDRESS = ADDRESSES["a user and a password"]
pytestmark = pytest.mark.filterwarnings(
    "ignore",  # mlflow's dependencies deprecate one another
    "always::ragindex_eval.mlflow.tracking.TrackingWarning",
    "always::ragindex.mlflow_tracing.TracingWarning",
    "error::pytest.PytestUnhandledThreadExceptionWarning",
)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with planted_desk(tmp_path, monkeypatch) as folder:
        yield folder


def test_unreachable_proxy(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://me:{QUOTED}@127.0.0.1:1")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-no-importance")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://h.example/v1")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    outputs = [
        ragindex("index", "notes", "--index", "w", "--encoder", "openai(model=small, retries=0)"),
        ragindex(*COMPARE, "--methods", "bm25"),
    ]
    assert [done.code for done in outputs] == [6, 0]
    assert leaks(desk, *outputs) == []


@pytest.mark.parametrize("kind", PARAMETERS)
def test_commands_refuse_address_with_secret(kind: str, desk: Path) -> None:
    """Which addresses are refused is tested with the plugins themselves."""
    group, written = PARAMETERS[kind][0].removesuffix("s"), PARAMETERS[kind][1].format(LOGIN_ADDRESS)
    flag = "method" if group == "scheme" else group
    listed, methods = ("methods", []) if flag == "method" else (flag, ["--methods", "bm25"])
    Path("study.yaml").write_text(yaml.safe_dump({"data": "notes", listed: written if methods else [written]}))
    outputs = [
        ragindex("index", "notes", "--index", "w", f"--{listed}", written, *methods),
        ragindex(*COMPARE, f"--{listed}", written, *methods),
        ragindex("compare", "--config", "study.yaml", "--questions", "questions.csv", *methods),
        ragindex("search", "slate?", "--index", "none", f"--{flag}", written),
    ]
    Path("study.yaml").unlink()
    assert [done.code for done in outputs[:3]] == [2, 2, 2]
    assert all("Set " in done.err for done in outputs[:2]), outputs
    assert leaks(desk, *outputs) == []


def test_unreadable_specification_and_documents_at_address(desk: Path) -> None:
    written = (f'openai(base_url="{LOGIN_ADDRESS}"', f'openai(base_url="{ADDRESSES["a key in the query"]}" x)')
    outputs = [ragindex("index", "notes", "--index", "w", "--llm", address) for address in written]
    assert [(done.code, "cannot be read" in done.err) for done in outputs] == [(2, True)] * 2
    outputs.append(ragindex("index", LOGIN_ADDRESS, "--index", "w"))
    assert outputs[-1].code != 0
    assert leaks(desk, *outputs) == []


@pytest.mark.parametrize(
    ("name", "addresses", "flags"),
    [
        ("OPENAI", ADDRESSES, ["--methods", "ircot", "--llm", "openai(model=small, retries=0)"]),
        (
            "EMBEDDING",
            ["a token for a user", "a query of another name"],
            ["--methods", "dense", "--encoder", "openai(model=small, retries=0)"],
        ),
        (
            "RERANK",
            ["a user and a password", "no scheme"],
            ["--methods", "rerank(base=bm25, reranker=endpoint(model=small, retries=0))"],
        ),
        ("ELASTICSEARCH", ADDRESSES, ["--methods", "bm25", "--store", "elasticsearch(retries=0)"]),
    ],
)
def test_addresses_of_environment(
    name: str, addresses: Any, flags: list[str], desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some can be used, others cannot: none is repeated."""
    record_nothing(monkeypatch)
    for key in ("OPENAI_API_KEY", "EMBEDDING_API_KEY", "RERANK_API_KEY"):
        monkeypatch.setenv(key, PLANTED)
    for how in addresses:
        monkeypatch.setenv("ELASTICSEARCH_URL" if name == "ELASTICSEARCH" else f"{name}_BASE_URL", ADDRESSES[how])
        output = ragindex(*COMPARE, "--out", "r", "--fresh", *flags)
        assert leaks(desk, output) == [], how


TRACKERS = {
    "a user and a password": LOGIN_ADDRESS,
    "a query of another name": ADDRESSES["a query of another name"],
    "a fragment": ADDRESSES["a fragment"],
    "a database": f"postgresql://me:{QUOTED}@127.0.0.1:1/runs",
    "a database's password with a sign": f"postgresql://me:{PIECE}#more@127.0.0.1:1/runs",
    "a password in the query": f"postgresql://127.0.0.1:1/runs?user=me&password={QUOTED}",
    "an ODBC string": f"mssql+pyodbc:///?odbc_connect=UID%3Dme%3BPWD%3D{QUOTED}",
    "no such scheme": f"nosuch://me:{QUOTED}@127.0.0.1:1/runs",
}


def test_trackers_with_passwords(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    for how, address in TRACKERS.items():
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        done = ragindex(
            *COMPARE, "--methods", "bm25", "--trace", "--fresh", "--out", "results", "--json", "result.json"
        )
        assert done.code == 0, how
        assert "not recorded in MLflow" in done.err, how
        assert leaks(desk, done) == [], how


def test_tracker_is_named_without_password(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_nothing(monkeypatch, "run")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", TRACKERS["a database"])
    done = ragindex(*COMPARE, "--methods", "bm25")
    assert (
        'postgresql://127.0.0.1:1/runs; to look at them: mlflow ui --backend-store-uri "$MLFLOW_TRACKING_URI"'
        in done.out
    )
    assert leaks(desk, done) == []


def test_warnings_of_trackers_are_ours() -> None:
    """So that commands show them."""
    kinds = {kind.__module__.partition(".")[0] for kind in (TrackingWarning, TracingWarning)}
    assert kinds == {"ragindex_eval", "ragindex"}
    assert track is compare.track


def test_error_of_plugin_in_results_and_traces(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> Any:
        try:
            raise OSError(f"GET http://h/search?q=x&api_key={QUOTED} failed for {LOGIN_ADDRESS}")
        except OSError as error:
            raise ValueError(f"Authorization: Bearer {PLANTED}") from error

    monkeypatch.setattr(BM25, "_open", lambda *_: type("Theirs", (), {"retrieve": failing})())
    done = ragindex(*COMPARE, "--methods", "bm25,dense", "--trace", "--out", "results", "--json", "result.json")
    assert any(b"ValueError" in file.read_bytes() for file in Path("results").rglob("*.jsonl"))
    assert b"ValueError" in Path("mlflow.db").read_bytes()
    assert leaks(desk, done) == []
