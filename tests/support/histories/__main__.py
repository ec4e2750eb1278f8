"""Many histories, each from a seed of its own.

    python -m histories --engine lancedb --seed 0 --minutes 60 --state FILE

One line of JSON a history goes to the file; seeds that are in it are not played again, so a run goes on where it was
interrupted, and two can share the work (`--step 2 --seed 0` and `--step 2 --seed 1`). Run it in `tests/support/`, or
with it on PYTHONPATH: `make histories` does.
"""

import argparse
import json
import random
import shutil
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from elasticsearch_node.node import store as elasticsearch_store

from histories import drawn
from histories.fresh import Fresh, make_folder
from histories.killed import Killed
from histories.played import History

KILLED = " killed"
_PLAIN = {"lancedb": 1.0, "lancedb beyond memory": 0.0, "elasticsearch": 1.0}
ENGINES: Mapping[str, float] = {name + how: memory for name, memory in _PLAIN.items() for how in ("", KILLED)}
"""The budget that a history begins with. Killed: its deaths are those of real processes."""
_TRIES = 120
"""Shorter histories that are tried where one failed."""


def main() -> None:
    given = _arguments()
    warnings.simplefilter("ignore")
    known = {line["seed"] for line in _lines(given.state) if line["engine"] == given.engine}
    place, end = make_folder("ragindex-fresh-"), time.monotonic() + given.minutes * 60
    try:
        for seed in (number for number in count(given.seed, given.step) if number not in known):
            if time.monotonic() > end:
                break
            with _store(given.engine) as store:  # each has its own: a server holds a bounded number of shards
                _keep(given.state, play_seed(seed, given.engine, store, Fresh(place / str(seed))))
            shutil.rmtree(place / str(seed), ignore_errors=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    outcomes = Counter((line["engine"], line["outcome"]) for line in _lines(given.state))
    print("\n".join(f"{engine}: {number:,} {outcome}" for (engine, outcome), number in sorted(outcomes.items())))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="histories", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", choices=list(ENGINES), default="lancedb")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--step", type=int, default=1, help="from one seed to the next")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--state", type=Path, required=True, help="a file of JSON Lines")
    return parser.parse_args()


@contextmanager
def _store(engine: str) -> Iterator[str]:
    with elasticsearch_store(writers=1) if engine.startswith("elasticsearch") else nullcontext("") as written:
        yield written


def play_seed(seed: int, engine: str, store: str, fresh: Fresh) -> dict[str, Any]:
    """The line of one history; where it failed, with the fewest steps that fail alike."""
    rng, begun = random.Random(f"{engine} {seed}"), time.monotonic()
    chosen = drawn.setting(rng, ENGINES[engine], store)
    kind = Killed if engine.endswith(KILLED) else History
    played = drawn.play(chosen, drawn.steps(rng, chosen), fresh, kind=kind)
    line: dict[str, Any] = {
        "seed": seed,
        "engine": engine,
        "methods": chosen.methods,
        "steps": len(played.steps),
        "faults": sorted(played.met),
        "outcome": played.kind or "held",
        "seconds": round(time.monotonic() - begun, 1),
    }
    if played.kind:
        tries = 0 if kind is Killed else _TRIES  # a kill at some moment is not the same kill again
        smaller, shortest = drawn.shrunk(chosen, played, fresh, tries)
        line |= {"broken": shortest.broken, "shrunk": {"setting": asdict(smaller), "steps": shortest.steps}}
    return line


def _lines(state: Path) -> list[dict[str, Any]]:
    if not state.exists():
        return []
    return [json.loads(line) for line in state.read_text().splitlines() if line.endswith("}")]


def _keep(state: Path, line: Mapping[str, Any]) -> None:
    with state.open("a") as file:
        file.write(json.dumps(line) + "\n")
    broken = f"\n  {line['broken'][-600:]}\n  {json.dumps(line['shrunk'])}" if "broken" in line else ""
    text = f"{line['engine']} {line['seed']}: {line['steps']} steps, {line['seconds']} s, {line['outcome']}{broken}"
    print(text, flush=True)


if __name__ == "__main__":
    main()
