"""A password is planted in each address, key and parameter that can hold one, and looked for in files and output.

Keys that a server repeats to a language model's client are in test_language_secrets.
"""

import base64
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from command_line import Done, make_desk, ragindex
from hypothesis import given
from hypothesis import strategies as st
from openai_server import Answer, Fault, OpenAIServer, Received, status
from rerank_server import reranking
from unrecorded import record_nothing

from ragindex.corpus import describe_left_out, read
from ragindex.errors import DataError, RagindexError, UsageError
from ragindex.llm import endpoint_features
from ragindex.mlflow_tracing import TracingWarning, autolog
from ragindex.plugins import registry
from ragindex.plugins.base import Plugin
from ragindex.redaction import bare_address, hide_secrets, holds_secret
from ragindex_eval.cli import compare
from ragindex_eval.mlflow_tracking import TrackingWarning, track

PLANTED = "planted/s3cret+0123456789"
QUOTED = quote(PLANTED, safe="")
LOGIN = base64.b64encode(f"me:{PLANTED}".encode()).decode()
PIECE = "s3cret"
NEEDLES = (PLANTED, QUOTED, LOGIN, PIECE)
ADDRESSES = {
    "a user and a password": f"http://me:{QUOTED}@127.0.0.1:1/v1",
    "a token for a user": f"https://{QUOTED}@127.0.0.1:1/v1",
    "a password that is not quoted": f"http://me:{PLANTED}@127.0.0.1:1/v1",
    "a key in the query": f"http://127.0.0.1:1/v1?api_key={QUOTED}",
    "a token behind other things": f"http://127.0.0.1:1/v1?a=b&access_token={QUOTED}",
    "a query of another name": f"http://127.0.0.1:1/v1?{QUOTED}",
    "a fragment": f"http://127.0.0.1:1/v1#{QUOTED}",
    "no scheme": f"me:{PLANTED}@127.0.0.1:1/v1",
}
pytestmark = pytest.mark.filterwarnings(
    "ignore",  # mlflow's dependencies deprecate one another
    "always::ragindex_eval.mlflow_tracking.TrackingWarning",
    "always::ragindex.mlflow_tracing.TracingWarning",
    "error::pytest.PytestUnhandledThreadExceptionWarning",
)


@pytest.fixture
def tracing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`--trace` is meant to last as long as the process; here it ends with the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow.tracing
        from mlflow.tracking import fluent
        from mlflow.tracking._tracking_service import utils
    monkeypatch.setattr(utils, "_tracking_uri", None)
    monkeypatch.setattr(fluent, "_active_experiment_id", None)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "")
    monkeypatch.delenv("MLFLOW_EXPERIMENT_ID")  # which is set, and put back in the end
    mlflow.tracing.reset()  # type: ignore[no-untyped-call]
    yield
    autolog(disable=True)
    mlflow.tracing.reset()  # type: ignore[no-untyped-call]


@pytest.fixture
def desk(tmp_path: Path, tracing: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    recording = {name: getattr(compare, name) for name in ("track", "record_live")}
    folder = make_desk(tmp_path, monkeypatch)
    for name, function in recording.items():
        monkeypatch.setattr(compare, name, function)
    for name in list(os.environ):
        if name.endswith(("_URL", "_KEY", "_PROXY", "_URI", "_USER", "_PASSWORD", "_proxy")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")  # mlflow keeps what a relative one was
    monkeypatch.setattr(endpoint_features, "_memories", {})
    return folder


@pytest.fixture
def server(desk: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """Lets in who has the user and the password that the addresses of the environment hold."""
    with OpenAIServer(key=PLANTED) as running:
        reranking(running)
        running.choose = let_in(running, lambda _: None)
        there = running.url.replace("//", f"//me:{QUOTED}@")
        for name in ("OPENAI", "EMBEDDING", "RERANK"):
            monkeypatch.setenv(f"{name}_API_KEY", PLANTED)
            monkeypatch.setenv(f"{name}_BASE_URL", there)
        yield running


def let_in(server: OpenAIServer, spoil: Callable[[Received], Fault | None]) -> Callable[[Received, int], Fault]:
    def choose(received: Received, _: int) -> Fault:
        assert received.headers["authorization"] == f"Basic {LOGIN}"
        fault = spoil(received)
        right: Callable[[Answer], Answer] = lambda _: server.routes[received.path](received.body)  # noqa: E731
        return right if fault is None else lambda answer: fault(right(answer))

    return choose


def leaks(folder: Path, *told: Done | str) -> list[str]:
    """Where a piece of the secret is: files, and what was printed."""
    files = {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    shown = {f"output {n}": (one if isinstance(one, str) else one.out + one.err) for n, one in enumerate(told)}
    texts = files | {name: text.encode() for name, text in shown.items()}
    return [f"{needle} in {name}" for name, text in texts.items() for needle in NEEDLES if needle.encode() in text]


# ---------------------------------------------------------------- all that is done with addresses that hold it


@pytest.mark.slow
def test_nothing_that_is_written_or_told_holds_it(server: OpenAIServer, desk: Path) -> None:
    rerank = "rerank(base=bm25, reranker=endpoint(model=small))"
    said = {"answer": "slate", "passages": [1], "found": True}

    def write(body: Mapping[str, Any]) -> str:
        return json.dumps(
            {key: said.get(key, "slate") for key in body["response_format"]["json_schema"]["schema"]["properties"]}
        )

    server.write = write
    told = [
        ragindex("doctor"),
        ragindex("index", "notes", "--index", "w", "--methods", "hybrid", "--encoder", "openai:small",
                 "--llm", "openai:small"),
        ragindex("compare", "notes", "--questions", "questions.csv", "--methods", f"bm25,dense,ircot,{rerank}",
                 "--encoder", "openai:small", "--llm", "openai:small", "--index", "c", "--out", "results",
                 "--read", "--trace", "--json", "result.json"),
        ragindex("report", "results"),
        ragindex("search", "slate?", "--index", "w", "--method", rerank, "--explain"),
        ragindex("ask", "slate?", "--index", "w"),
        ragindex("cache", "--index", "c"),
        ragindex("cache", "--index", "c", "--export", "calls.jsonl"),
    ]  # fmt: skip
    assert [done.code for done in told] == [0] * 8, [done.err for done in told]
    assert len(server.requests) > 5
    assert {"mlflow.db", "results", "result.json"} <= {one.name for one in desk.iterdir()}
    assert leaks(desk, *told) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [400, 401, 403, 404, 429, 500])
def test_a_server_that_repeats_what_it_was_sent(number: int, server: OpenAIServer, desk: Path) -> None:
    server.choose = let_in(
        server, lambda got: status(number, f"{got.headers} {PLANTED}", code=LOGIN, retry_after="999")
    )
    quick = "timeout=2, retries=0"
    told = [
        ragindex("index", "notes", "--index", "w", "--encoder", f"openai(model=small, {quick})"),
        ragindex("compare", "notes", "--questions", "questions.csv", "--index", "c", "--out", "results",
                 "--methods", f"ircot,rerank(base=bm25, reranker=endpoint(model=small, {quick}))", "--trace",
                 "--llm", f"openai(model=small, {quick})", "--json", "result.json"),
    ]  # fmt: skip
    assert told[0].code == 6
    assert server.requests
    assert leaks(desk, *told) == []


def test_a_proxy_that_is_not_there(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://me:{QUOTED}@127.0.0.1:1")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-no-importance")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://h.example/v1")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    told = [
        ragindex("index", "notes", "--index", "w", "--encoder", "openai(model=small, retries=0)"),
        ragindex("compare", "notes", "--questions", "questions.csv", "--index", "c", "--methods", "bm25"),
    ]
    assert [done.code for done in told] == [6, 0]
    assert leaks(desk, *told) == []


# ---------------------------------------------------------------- parameters: refused, and not repeated


def specs(address: str) -> dict[str, tuple[str, str]]:
    """Every parameter that is an address: the flag, and the plugin as it is written."""
    return {
        "chat": ("--llm", f'openai(model=small, base_url="{address}")'),
        "encoder": ("--encoder", f'openai(model="{address}")'),
        "store": ("--store", f'elasticsearch(url="{address}")'),
        "stores": ("--store", f'elasticsearch(url="http://127.0.0.1:1,{address}")'),
        "argument": ("--store", f"elasticsearch:{address}"),
        "reranker": ("--methods", f'rerank(base=bm25, reranker=endpoint(model=small, base_url="{address}"))'),
    }


@pytest.mark.parametrize("kind", specs(""))
@pytest.mark.parametrize("how", ADDRESSES)
def test_an_address_among_parameters_is_refused(how: str, kind: str, desk: Path) -> None:
    flag, written = specs(ADDRESSES[how])[kind]
    if kind == "encoder" and how in ("a query of another name", "a fragment", "no scheme"):
        pytest.skip("a model's name is no address")
    methods = [] if flag == "--methods" else ["--methods", "bm25"]
    Path("study.yaml").write_text(yaml.safe_dump({"data": "notes", flag[2:]: [written] if methods == [] else written}))
    told = [
        ragindex("index", "notes", "--index", "w", flag, written, *methods),
        ragindex("compare", "notes", "--questions", "questions.csv", "--index", "c", flag, written, *methods),
        ragindex("compare", "--config", "study.yaml", "--questions", "questions.csv", *methods),
        ragindex("search", "slate?", "--index", "none", flag.replace("methods", "method"), written),
    ]
    Path("study.yaml").unlink()
    assert [done.code for done in told[:3]] == [2, 2, 2]
    if how != "no scheme":
        assert all("Set " in done.err for done in told[:2]), told
    assert leaks(desk, *told) == []


@pytest.mark.parametrize(
    ("group", "params"),
    [
        ("llms", {"name": "openai", "params": {"model": "m", "extra": {"api_key": PLANTED}}}),
        ("llms", {"name": "openai", "params": {"model": "m", "extra": {"headers": {"Authorization": PLANTED}}}}),
        ("llms", {"name": "openai", "params": {"model": "m", "extra": {"proxy": f"http://me:{QUOTED}@h"}}}),
        ("llms", {"name": "openai", "params": {"model": "m", "key_variable": PLANTED}}),
        ("llms", {"name": "openai", "params": {"model": "m", "api_key": PLANTED}}),
        ("encoders", {"name": "sentence-transformers", "params": {"model": f"https://me:{QUOTED}@h/model"}}),
        ("encoders", {"name": "openai", "params": {"model": "m", "password": PLANTED}}),
        ("schemes", {"name": "bm25", "params": {"over": {"name": "passages", "params": {"api-key": PLANTED}}}}),
    ],
)
def test_other_parameters_are_refused(group: registry.PluginGroup, params: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        registry.create(group, params)
    assert not [needle for needle in NEEDLES if needle in f"{error.value!s} {error.value!r}"]


def test_a_plugin_of_anybody_refuses_it() -> None:
    class Theirs(Plugin):
        hosts: tuple[str, ...] = ()
        password: str = ""

    assert Theirs(hosts=("http://h/@scope/x?page=2", "https://h:9200/a@b"), password="").hosts
    for given_ in ({"hosts": ["http://h", ADDRESSES["a user and a password"]]}, {"password": PLANTED}):
        with pytest.raises(UsageError, match="parameter of Theirs must not contain a user, password"):
            Theirs.model_validate(given_)


@pytest.mark.parametrize(
    "written",
    [
        f'openai(base_url="{ADDRESSES["a user and a password"]}"',
        f'openai(base_url="{ADDRESSES["a key in the query"]}" x)',
    ],
)
def test_what_cannot_be_read_is_not_repeated(written: str, desk: Path) -> None:
    done = ragindex("index", "notes", "--index", "w", "--llm", written)
    assert (done.code, "cannot be read" in done.err) == (2, True)
    assert leaks(desk, done) == []


def test_documents_at_an_address(desk: Path) -> None:
    done = ragindex("index", ADDRESSES["a user and a password"], "--index", "w")
    assert done.code != 0
    assert leaks(desk, done) == []


@pytest.mark.parametrize("how", ADDRESSES)
@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "EMBEDDING_BASE_URL", "RERANK_BASE_URL", "ELASTICSEARCH_URL"])
def test_an_address_of_the_environment(name: str, how: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some can be used, others cannot: none is repeated."""
    monkeypatch.setenv(name, ADDRESSES[how])
    for key in ("OPENAI_API_KEY", "EMBEDDING_API_KEY", "RERANK_API_KEY"):
        monkeypatch.setenv(key, PLANTED)
    flags = {
        "OPENAI_BASE_URL": ["--methods", "ircot", "--llm", "openai(model=small, retries=0)"],
        "EMBEDDING_BASE_URL": ["--methods", "dense", "--encoder", "openai(model=small, retries=0)"],
        "RERANK_BASE_URL": ["--methods", "rerank(base=bm25, reranker=endpoint(model=small, retries=0))"],
        "ELASTICSEARCH_URL": ["--methods", "bm25", "--store", "elasticsearch(retries=0)"],
    }
    told = ragindex("compare", "notes", "--questions", "questions.csv", "--index", "c", "--out", "r", *flags[name])
    assert leaks(desk, told) == []


# ---------------------------------------------------------------- MLflow

TRACKERS = {
    **{how: address for how, address in ADDRESSES.items() if how != "no scheme"},
    "a database": f"postgresql://me:{QUOTED}@127.0.0.1:1/runs",
    "a database with a driver": f"mysql+pymysql://me:{QUOTED}@127.0.0.1:1/runs",
    "a database's password with a sign": f"postgresql://me:{PIECE}#more@127.0.0.1:1/runs",
    "a password in the query": f"postgresql://127.0.0.1:1/runs?user=me&password={QUOTED}",
    "an ODBC string": f"mssql+pyodbc:///?odbc_connect=UID%3Dme%3BPWD%3D{QUOTED}",
    "no such scheme": f"nosuch://me:{QUOTED}@127.0.0.1:1/runs",
}


@pytest.mark.parametrize("how", TRACKERS)
def test_a_tracker_with_a_password(how: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", TRACKERS[how])
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    done = ragindex(
        "compare", "notes", "--questions", "questions.csv", "--index", "c", "--methods", "bm25", "--trace",
        "--out", "results", "--json", "result.json",
    )  # fmt: skip
    assert done.code == 0
    assert "not recorded in MLflow" in done.err
    assert leaks(desk, done) == []


def test_a_tracker_that_works_is_named_without_its_password(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_nothing(monkeypatch, "run")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", TRACKERS["a database"])
    done = ragindex("compare", "notes", "--questions", "questions.csv", "--index", "c", "--methods", "bm25")
    assert (
        'postgresql://127.0.0.1:1/runs; to look at them: mlflow ui --backend-store-uri "$MLFLOW_TRACKING_URI"'
        in done.out
    )
    assert leaks(desk, done) == []


def test_warnings_of_trackers_are_kinds_of_ours() -> None:
    """So that commands show them."""
    assert {kind.__module__.partition(".")[0] for kind in (TrackingWarning, TracingWarning)} == {
        "ragindex_eval",
        "ragindex",
    }
    assert track is compare.track


# ---------------------------------------------------------------- what others say


def test_an_error_of_anybody_in_results_and_traces(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragindex_baselines import bm25

    def failing(*_: Any) -> Any:
        try:
            raise OSError(f"GET http://h/search?q=x&api_key={QUOTED} failed for {ADDRESSES['a user and a password']}")
        except OSError as error:
            raise ValueError(f"Authorization: Bearer {PLANTED}") from error

    monkeypatch.setattr(bm25.BM25, "open", lambda *_: type("Theirs", (), {"retrieve": failing})())
    done = ragindex(
        "compare", "notes", "--questions", "questions.csv", "--index", "c", "--methods", "bm25,dense", "--trace",
        "--out", "results", "--json", "result.json",
    )  # fmt: skip
    assert any(b"ValueError" in file.read_bytes() for file in Path("results").rglob("*.jsonl"))
    assert b"ValueError" in Path("mlflow.db").read_bytes()
    assert leaks(desk, done) == []


CRASH = """
import sys, threading
from ragindex.cli import console, main
from ragindex.plugins.base import Plugin

def crash():
    try:
        raise OSError("GET " + sys.argv[1])
    except OSError as error:
        raise ZeroDivisionError(sys.argv[1]) from error

def start():
    thread = threading.Thread(target=crash)
    thread.start()
    thread.join()
    crash()

console.run_with_exit_codes(start)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["a user and a password", "a key in the query", "a password that is not quoted"])
def test_what_nobody_has_foreseen(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASH, ADDRESSES[how]], check=False, capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 1
    assert done.stderr.count("ZeroDivisionError: http://") == 2
    assert not [needle for needle in NEEDLES if needle in done.stderr]


def test_every_error_of_ours_hides_what_it_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYBODYS_API_KEY", PLANTED)
    for made in (RagindexError, UsageError, lambda text: DataError(text, text, path=text)):
        error = made(f"{PLANTED} and {ADDRESSES['a user and a password']}")  # type: ignore[operator]
        assert not [needle for needle in NEEDLES if needle in f"{error} {error!r} {error.args}"]


def test_what_is_said_of_items_that_are_left_out_hides_what_it_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYBODYS_API_KEY", PLANTED)
    bad = json.dumps({"_id": "1", "text": ["a", PLANTED, ADDRESSES["a user and a password"]]})
    (tmp_path / "corpus.jsonl").write_text(f'{bad}\n{bad}\n{{"_id": "2", "text": "good"}}\n')
    skipped = read(tmp_path / "corpus.jsonl", skip_bad=True).skipped
    assert [one.place.rpartition(", ")[2] for one in skipped] == ["line 1", "line 2"]
    said = f"{skipped} {list(map(str, skipped))} {describe_left_out(skipped)}"
    assert "found" in said
    assert not [needle for needle in NEEDLES if needle in said]


USERS = st.text("abcXYZ019._~!$'()*,;=%-", max_size=8)
PASSWORDS = st.text("abcXYZ019._~!$()*,;=%-:@", min_size=1, max_size=12)


@given(st.sampled_from(["http", "postgresql+psycopg2", "s3"]), USERS, PASSWORDS, st.sampled_from(["", ":9200"]))
def test_any_login_is_seen_hidden_and_left_out(scheme: str, user: str, password: str, port: str) -> None:
    secret = f"<{password}>".replace("<", "QQ").replace(">", "QQ")
    address = f"{scheme}://{user}:{secret}@host.example{port}/path"
    assert holds_secret(address)
    assert secret not in hide_secrets(f"GET {address}: no answer")
    assert bare_address(address) == f"{scheme}://host.example{port}/path"


@given(
    st.from_regex(
        r"https?://[a-z.]{1,9}(:[0-9]{1,5})?(/[a-z@0-9]{0,5}){0,3}(\?(q|page|v)=[a-z0-9]{1,5})?", fullmatch=True
    )
)
def test_other_addresses_stay_as_they_are(address: str) -> None:
    assert not holds_secret(address)
    assert hide_secrets(address) == address
