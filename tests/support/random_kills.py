"""A random run that is killed several times and then ends, at a service that charges and misbehaves in one way.

Method, command, number of documents, kind of misbehaviour, budget and the moments of the kills are drawn by a seed.
`python -m random_kills RUNS SEED WORKER WORKERS FILE` plays so many runs, but for those in the file,
and adds a line of JSON for each.
"""

import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from pathlib import Path

import pytest
from charging import FREE, LOST, TIMEOUT, UNUSABLE, Charging, Misbehaviour, longer
from command_line import write
from forked_commands import ForkedCommands
from openai_server import OpenAIServer, Received, usage
from rerank_server import reranking
from till import SAID, Till, open_desk

from ragindex.accounting.spending_log import read_payments

IN_FLIGHT = 4
PARTS = ("bm25(over=triples)", "bm25(over=passages(context=sentence))", "dense(over=topics)")
"""Ask the model for each passage."""
AGENTS = ("ircot", "self-ask")
ANSWER = {
    "entities": ["Grey Anna", "Sarn"],
    "triples": [["Grey Anna", "is", "a hill"], ["Sarn", "carries", "slate"]],
    "sentence": "It tells of a river.",
    "thought": "The Sarn carries slate.",
    "follow_ups": [{"question": "Which river carries slate?", "answer": "the Sarn"}],
}
ANSWERED: dict[str, Misbehaviour] = {"too long": Misbehaviour(longer(4)), "no usage": Misbehaviour(usage(None))}
"""Answers that can be used, whatever is wrong with their counts."""
KINDS: dict[str, Misbehaviour | None] = {
    "honest": None,
    **LOST,
    **FREE,
    "timeout": TIMEOUT,
    **ANSWERED,
    **{kind: misbehaviour for kind, (misbehaviour, _) in UNUSABLE.items()},
}
HONEST_SHARE = 0.25
MOST_EXCEEDED = 1.05
LEAST_USED = 0.8
"""Of a budget that is at least five times what one call can cost."""
_NEXT_CALL = re.compile(r"the next call could cost \$(\d+\.\d+)")


@dataclass
class RunRecord:
    """What a run did: exit codes of its processes, charges beside the budget, and answers that were paid again."""

    seed: int
    command: str
    kind: str
    budget: float | None
    codes: list[int] = field(default_factory=list)
    charges: list[float] = field(default_factory=list)
    requests: int = 0
    paid_again: int = 0
    logged: float = 0.0
    possibly: float = 0.0
    next_call: float | None = None
    errors: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return sum(code == -signal.SIGKILL for code in self.codes)

    @property
    def worst_ratio(self) -> float | None:
        return None if self.budget is None else max(self.charges) / self.budget

    def find_faults(self) -> list[str]:
        """Return what must not be, in words."""
        return [*self._find_faults_of_processes(), *self._find_early_end(), *self._find_faults_of_log()]

    def _find_faults_of_processes(self) -> Iterator[str]:
        allowed = {0, 6, 7, 9, -signal.SIGKILL}
        if self.codes[-1] == -signal.SIGKILL or not allowed.issuperset(self.codes):
            yield f"exit codes {self.codes}: {self.errors[-1]}"
        if self.paid_again > IN_FLIGHT * self.kills:
            yield f"{self.paid_again} answers are paid again after {self.kills} kills"
        if self.worst_ratio is not None and self.worst_ratio > MOST_EXCEEDED:
            yield f"charged {self.charges} with a budget of {self.budget}"

    def _find_early_end(self) -> Iterator[str]:
        if self.kind != "honest" or self.codes[-1] != 9 or self.budget is None or self.next_call is None:
            return
        if self.charges[-1] + self.next_call < self.budget - 1e-4:
            yield f"stopped at {self.charges[-1]} of {self.budget}, the next call {self.next_call}"
        if 5 * self.next_call <= self.budget and self.charges[-1] < LEAST_USED * self.budget:
            yield f"stopped at {self.charges[-1]} of {self.budget}"

    def _find_faults_of_log(self) -> Iterator[str]:
        if self.kind != "no usage" and self.logged > sum(self.charges) + 1e-6:  # estimated, where nothing is counted
            yield f"logged {self.logged}, charged {sum(self.charges)}"
        if self.kind != "no usage" and not self.kills and sum(self.charges) > self.logged + self.possibly + 1e-6:
            yield f"charged {sum(self.charges)}, logged {self.logged} and possibly {self.possibly}"


@dataclass
class Killer:
    """Kills a process once so many requests have come, and counts the usable answers that each request was paid for."""

    kind: str
    share: float
    rng: random.Random
    process: int | None = None
    left: int | None = None
    paid: Counter[str] = field(default_factory=Counter)

    def __call__(self, received: Received, attempt: int) -> Misbehaviour | None:
        if self.left is not None:
            self.left -= 1
            if self.left == 0 and self.process is not None:
                os.kill(self.process, signal.SIGKILL)
        misbehaviour = KINDS[self.kind]
        chats = "chat" in received.path
        if self.kind in ANSWERED:
            spoilt = chats
        elif self.kind in UNUSABLE:
            spoilt = chats and self.rng.random() < self.share
        else:
            spoilt = misbehaviour is not None and attempt == 0 and self.rng.random() < self.share
        if not spoilt or self.kind in ANSWERED:
            self.paid[f"{received.path} {json.dumps(received.body, sort_keys=True)}"] += 1
        return misbehaviour if spoilt else None


def play(seed: int, folder: Path, commands: ForkedCommands, patch: pytest.MonkeyPatch) -> RunRecord:
    """Play the run of a seed in an empty folder; the first of twenty is recorded in MLflow."""
    rng = random.Random(seed)
    part, method = rng.choice(PARTS), rng.choice(PARTS + AGENTS)
    kind = "honest" if rng.random() < HONEST_SHARE else rng.choice(sorted(set(KINDS) - {"honest"}))
    documents, max_tokens = rng.randint(8, 24), rng.choice([60, 400])
    budget = rng.choice([None, rng.uniform(1.0, 10.0), rng.uniform(3.0, 20.0)])
    arguments = ("--questions", "questions.csv", "--out", "o")
    command = rng.choice(
        [
            ("index", "notes", "--methods", part),
            ("compare", "notes", "--methods", f"bm25,{method}", *arguments),
            ("compare", "notes", "--methods", method, "--read", *arguments),
        ]
    )
    llm = f"openai(model=small, concurrency={IN_FLIGHT}, retries=3, timeout=1.0, max_tokens={max_tokens})"
    flags = [] if budget is None else ["--budget", f"{budget:.4f}"]
    moments = [rng.randint(1, 12) for _ in range(rng.randint(1, 3))]
    killer = Killer(kind, rng.choice([0.1, 0.4]), random.Random(seed + 1))
    record = RunRecord(seed, " ".join(command), kind, budget)
    with OpenAIServer() as server:
        reranking(server)
        server.write = lambda body: json.dumps({**SAID, **ANSWER})
        open_desk(Till(server), folder, patch)
        patch.setenv("RAGINDEX_STATE", str(folder / "state"))
        write(folder / "notes", {f"{number}.txt": f"Hill {number} has {number} mills." for number in range(documents)})
        charging = Charging(server)
        charging.misbehave = killer
        environment = {
            **{name: os.environ[name] for name in os.environ if name.startswith(("OPENAI_", "RERANK_", "RAGINDEX_"))},
            "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'runs.db'}",
        }
        for moment in (*moments, None):
            before = charging.charged
            killer.process, killer.left = None, moment
            running = commands.start(
                *(*command, "--index", "i", "--llm", llm, *flags),
                folder=folder,
                environment=environment,
                recorded=seed % 20 == 0,
            )
            killer.process = running.process
            record.codes.append(running.wait())
            while server.in_flight:
                time.sleep(0.01)
            record.charges.append(charging.charged - before)
            record.errors.append(running.errors[-600:])
        message = _NEXT_CALL.search(record.errors[-1])
        record.next_call = float(message[1]) if message else None
        record.requests, record.paid_again = len(server.requests), sum(times - 1 for times in killer.paid.values())
        payments = read_payments(date.today() - timedelta(days=1)).payments
        record.logged = sum(payment.money or 0.0 for payment in payments if not payment.possibly_charged)
        record.possibly = sum(payment.money or 0.0 for payment in payments if payment.possibly_charged)
    return record


def _main() -> None:
    runs, seed, worker, workers, path = *map(int, sys.argv[1:5]), sys.argv[5]
    seeds = random.Random(seed).sample(range(10**6), runs)[worker::workers]
    with ForkedCommands() as commands, open(path, "a+", encoding="utf-8") as lines:
        lines.seek(0)
        done = {json.loads(line)["seed"] for line in lines}
        for each in (seed for seed in seeds if seed not in done):
            with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
                record = play(each, Path(folder), commands, patch)
                patch.chdir("/")
            kills, ratio = record.kills, record.worst_ratio
            line = {**asdict(record), "kills": kills, "worst_ratio": ratio, "faults": record.find_faults()}
            lines.write(json.dumps(line) + "\n")
            lines.flush()


if __name__ == "__main__":
    _main()
