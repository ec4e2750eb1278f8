"""A password that tests plant in addresses, keys and parameters, and look for in files and output."""

import base64
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from command_line import Done, make_desk
from empty_tracker import make_tracker

from ragindex.llm import openai_chat
from ragindex.mlflow_tracing import autolog
from ragindex_eval.cli import compare

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
PARAMETERS = {  # every parameter that is an address: the group, and the plugin as it is written
    "chat": ("llms", 'openai(model=small, base_url="{}")'),
    "encoder": ("encoders", 'openai(model="{}")'),
    "store": ("stores", 'elasticsearch(url="{}")'),
    "stores": ("stores", 'elasticsearch(url="http://127.0.0.1:1,{}")'),
    "argument": ("stores", "elasticsearch:{}"),
    "reranker": ("schemes", 'rerank(base=bm25, reranker=endpoint(model=small, base_url="{}"))'),
}


@contextmanager
def planted_desk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder of commands that are recorded and traced in MLflow, without keys and addresses set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow.tracing
        from mlflow.tracking import fluent
        from mlflow.tracking._tracking_service import utils
    recording = {name: getattr(compare, name) for name in ("track", "record_live")}
    make_desk(folder, monkeypatch)
    for name, function in recording.items():
        monkeypatch.setattr(compare, name, function)
    monkeypatch.setattr(utils, "_tracking_uri", None)
    monkeypatch.setattr(fluent, "_active_experiment_id", None)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "")
    monkeypatch.delenv("MLFLOW_EXPERIMENT_ID")  # which is set, and put back in the end
    for name in list(os.environ):
        if name.endswith(("_URL", "_KEY", "_PROXY", "_URI", "_USER", "_PASSWORD", "_proxy")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", make_tracker(folder))  # mlflow keeps what a relative one was
    monkeypatch.setattr(openai_chat, "_memories", {})
    mlflow.tracing.reset()  # type: ignore[no-untyped-call]
    yield folder
    autolog(disable=True)
    mlflow.tracing.reset()  # type: ignore[no-untyped-call]


def find_needles(text: str) -> list[str]:
    return [needle for needle in NEEDLES if needle in text]


def leaks(folder: Path, *outputs: Done) -> list[str]:
    """Where a piece of the secret is: files, and what was printed."""
    texts = {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    texts |= {f"output {number}": (output.out + output.err).encode() for number, output in enumerate(outputs)}
    return [f"{needle} in {name}" for name, text in texts.items() for needle in NEEDLES if needle.encode() in text]
