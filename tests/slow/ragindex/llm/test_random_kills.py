"""Random runs that are killed: nothing is paid twice but what was in flight, and no run passes its budget.

The service misbehaves in one way; method, command, way, budget and the moments of the kills are drawn by the seed.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from charging import FREE, LOST, Charging, Misbehaviour
from command_line import write
from openai_server import OpenAIServer, Received
from rerank_server import reranking
from till import SAID, Till, open_desk

SEEDS = range(3)
IN_FLIGHT = 4
LLM = f"openai(model=small, concurrency={IN_FLIGHT}, retries=3)"
METHODS = ("bm25(over=triples)", "bm25(over=passages(context=sentence))", "dense(over=topics)", "ircot", "self-ask")
OTHERS = {
    "entities": ["Grey Anna", "Sarn"],
    "triples": [["Grey Anna", "is", "a hill"], ["Sarn", "carries", "slate"]],
    "sentence": "It tells of a river.",
    "thought": "The Sarn carries slate.",
    "follow_ups": [{"question": "Which river carries slate?", "answer": "the Sarn"}],
}
MOST_EXCEEDED = 1.05


@dataclass
class Kills:
    """Kills a process once so many requests have come, and counts the answers that each request was charged for."""

    kind: Misbehaviour | None
    share: float
    rng: random.Random
    process: subprocess.Popen[bytes] | None = None
    left: int | None = None
    charged: Counter[str] = field(default_factory=Counter)

    def __call__(self, received: Received, attempt: int) -> Misbehaviour | None:
        if self.left is not None:
            self.left -= 1
            if self.left == 0 and self.process is not None:
                self.process.send_signal(signal.SIGKILL)
        if self.kind is not None and attempt == 0 and self.rng.random() < self.share:
            return self.kind
        self.charged[f"{received.path} {json.dumps(received.body, sort_keys=True)}"] += 1
        return None


@pytest.fixture
def charging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Charging]:
    with OpenAIServer() as server:
        reranking(server)
        server.write = lambda body: json.dumps({**SAID, **OTHERS})
        open_desk(Till(server), tmp_path, monkeypatch)
        monkeypatch.setenv("RAGINDEX_STATE", str(tmp_path / "state"))
        write(tmp_path / "notes", {f"{number}.txt": f"Hill {number} has {number} mills." for number in range(12)})
        yield Charging(server)


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_runs_pay_once_and_within_their_budget(seed: int, charging: Charging) -> None:
    rng = random.Random(seed)
    method, kind = rng.choice(METHODS), rng.choice([None, *LOST.values(), *FREE.values()])
    budget = rng.choice([None, rng.uniform(1.0, 20.0)])
    command = rng.choice(
        [
            ("index", "notes", "--methods", method),
            ("compare", "notes", "--questions", "questions.csv", "--methods", f"bm25,{method}", "--out", "o"),
            ("compare", "notes", "--questions", "questions.csv", "--methods", method, "--read", "--out", "o"),
        ]
    )
    flags = [] if budget is None else ["--budget", f"{budget:.4f}"]
    kills = Kills(kind, rng.choice([0.1, 0.4]), random.Random(seed + 1))
    charging.misbehave = kills
    moments = [rng.randint(1, 12) for _ in range(rng.randint(1, 3))]
    killed = 0
    for moment in (*moments, None):
        before = charging.charged
        kills.process, kills.left = None, moment
        kills.process = subprocess.Popen(
            [sys.executable, "-m", "ragindex", *command, "--index", "i", "--llm", LLM, *flags],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{Path.cwd() / 'runs.db'}"},
        )
        _, said = kills.process.communicate(timeout=300)
        killed += kills.process.returncode == -signal.SIGKILL
        assert kills.process.returncode in (0, 9, 7, -signal.SIGKILL), said.decode()
        if budget is not None:
            assert charging.charged - before <= MOST_EXCEEDED * budget, said.decode()
    assert sum(kills.charged.values()) > 0
    again = sum(times - 1 for times in kills.charged.values())
    assert again <= IN_FLIGHT * killed, [body for body, times in kills.charged.items() if times > 1]
