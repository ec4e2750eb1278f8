"""A server whose model extracts names and statements, by batches or one by one, and that kills a process on order."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from batch_server import BatchServer
from openai_server import KEY, Answer, Fault, Received

PRICES = (0.15, 0.075, 0.60)
"""Of input, cached input and output of gpt-4o-mini, in dollars per million tokens."""
BATCH_PRICES = (0.075, 0.075, 0.30)
"""The same in a batch, where cached input keeps its price."""


def extract(body: Mapping[str, Any]) -> str:
    """The capitalised words of the passage as names, each said to stand beside the next."""
    text = body["messages"][-1]["content"]
    names = list(dict.fromkeys(re.findall(r"\b[A-Z][a-z]+\b", text)))[:6] or ["Nobody"]
    triples = [[name, "stands beside", other] for name, other in pairwise(names)]
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    return json.dumps({name: value for name, value in (("entities", names), ("triples", triples)) if name in fields})


def server_money(server: BatchServer) -> float:
    """What the server has billed: single requests at full price, those of batches at theirs."""
    return server.single.money(*PRICES) + server.batched.money(*BATCH_PRICES)


class Killer:
    """Kills a process with SIGKILL when the server gets the n-th request of a kind, before or after it acts on it."""

    def __init__(self, server: BatchServer) -> None:
        self.moment: tuple[str, int, bool] | None = None
        self._seen = 0
        self.process: subprocess.Popen[str] | None = None
        server.choose = self._after
        server.before = self._before

    def aim(self, path: str, time: int, *, before: bool) -> None:
        self.moment, self._seen = (path, time, before), 0

    def _before(self, received: Received) -> bool:
        due = self._is_time(received, before=True)
        if due:
            self._kill()
        return due

    def _after(self, received: Received, _: int) -> Fault | None:
        return self._kill_and_drop if self._is_time(received, before=False) else None

    def _is_time(self, received: Received, *, before: bool) -> bool:
        if self.moment is None or self.moment[2] != before or not matches(self.moment[0], received):
            return False
        self._seen += 1
        return self._seen == self.moment[1]

    def _kill_and_drop(self, answer: Answer) -> None:
        self._kill()

    def _kill(self) -> None:
        assert self.process is not None
        self.moment = None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def matches(path: str, received: Received) -> bool:
    """Whether a request is one to a path such as `POST batches`, `GET batches/ID`, `GET files/ID/content`."""
    method = "POST" if received.body else "GET"
    parts = urlsplit(received.path).path.removeprefix("/v1/").removeprefix("chat/").split("/")
    shape = "/".join("ID" if place == 1 else part for place, part in enumerate(parts))
    return f"{method} {shape}" == path


def start(data: Path, index: Path, server: BatchServer, *more: str, **given: object) -> "subprocess.Popen[str]":
    """`ragindex index` as a process of its own, with `gear` and a model that answers in batches."""
    llm = {"model": "gpt-4o-mini", "base_url": server.url, "batch": "true", "batch_poll_seconds": 0.2, **given}
    written = ", ".join(f"{name}={value}" for name, value in llm.items())
    command = ["index", str(data), "--index", str(index), "--methods", "gear", "--encoder", "lsa", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "ragindex", *command, "--llm", f"openai({written})", "--json", "-"],
        env={**os.environ, "OPENAI_API_KEY": KEY},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
