"""Many histories, each from a seed of its own.

    python -m histories --engine lancedb --seed 0 --minutes 60 --state FILE

One line of JSON a history goes to the file; seeds that are in it are not played again, so a run goes on where it was
interrupted, and two can share the work (`--step 2 --seed 0` and `--step 2 --seed 1`). `--summary` says what the file
holds. Run it in `tests/support/`, or with it on PYTHONPATH: `make histories` does.
"""

import argparse
import json
import random
import shutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elasticsearch_node.node import store as elasticsearch_store

from histories import drawn
from histories.fresh import Fresh, room
from histories.killed import Killed
from histories.planted import PLANTED
from histories.played import History, Setting, Step

KILLED = " killed"
_PLAIN = {"lancedb": 1.0, "lancedb beyond memory": 0.0, "elasticsearch": 1.0}
ENGINES: Mapping[str, float] = {name + how: memory for name, memory in _PLAIN.items() for how in ("", KILLED)}
"""The budget that a history begins with. Killed: its deaths are those of real processes."""
_LEAST = 8
_TRIES = 120
"""Shorter histories that are tried where one failed."""


def main() -> None:
    given = _arguments()
    if given.summary:
        print(summary(given.state))
        return
    warnings.simplefilter("ignore")
    known, end = _known(given.state, given.engine), time.monotonic() + given.minutes * 60
    place = room("ragindex-fresh-")
    try:
        with PLANTED[given.plant]() if given.plant else nullcontext():
            for seed in _seeds(given.seed, given.step, given.histories, known):
                if time.monotonic() > end:
                    break
                with _store(given.engine) as store:  # each has its own: a server holds a bounded number of shards
                    _keep(given.state, one(seed, given.engine, store, Fresh(place / str(seed)), given.skip))
                shutil.rmtree(place / str(seed), ignore_errors=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(summary(given.state))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="histories", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", choices=list(ENGINES), default="lancedb")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--step", type=int, default=1, help="from one seed to the next")
    parser.add_argument("--histories", type=int, default=sys.maxsize, help="at most so many")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--state", type=Path, required=True, help="a file of JSON Lines")
    parser.add_argument("--skip", type=lambda text: frozenset(text.split(",")), default=frozenset(), help="kinds")
    parser.add_argument("--plant", choices=list(PLANTED), help="a defect to be found")
    parser.add_argument("--summary", action="store_true", help="only say what the file holds")
    return parser.parse_args()


def _seeds(first: int, step: int, most: int, known: set[int]) -> Iterator[int]:
    left, seed = most, first
    while left > 0:
        if seed not in known:
            left -= 1
            yield seed
        seed += step


@contextmanager
def _store(engine: str) -> Iterator[str]:
    with elasticsearch_store(writers=1) if engine.startswith("elasticsearch") else nullcontext("") as written:
        yield written


def one(seed: int, engine: str, store: str, fresh: Fresh, skip: frozenset[str]) -> dict[str, Any]:
    """The line of one history; where it failed, with the fewest steps that fail alike."""
    rng, begun = random.Random(f"{engine} {seed}"), time.monotonic()
    chosen = drawn.setting(rng, ENGINES[engine], store)
    kind = Killed if engine.endswith(KILLED) else History
    played = drawn.play(chosen, drawn.steps(rng, chosen), fresh, skip, kind=kind)
    line: dict[str, Any] = {
        "seed": seed,
        "engine": engine,
        "methods": chosen.methods,
        "steps": len(played.steps),
        "kinds": sorted({name for name, _ in played.steps}),
        "faults": sorted(played.met),
        "outcome": played.kind or "held",
        "seconds": round(time.monotonic() - begun, 1),
    }
    if played.kind:
        tries = 0 if kind is Killed else _TRIES  # a kill at some moment is not the same kill again
        smaller, shortest = drawn.shrunk(chosen, played, fresh, skip, tries)
        line |= {
            "broken": shortest.broken,
            "shrunk": _told(smaller, shortest.steps),
            "whole": _told(chosen, played.steps),
        }
    return line


def _told(chosen: Setting, steps: Sequence[Step]) -> dict[str, Any]:
    """What `drawn.play` takes."""
    return {"setting": asdict(chosen), "steps": steps}


# ---------------------------------------------------------------- the file


def _lines(state: Path) -> list[dict[str, Any]]:
    if not state.exists():
        return []
    return [json.loads(line) for line in state.read_text().splitlines() if line.endswith("}")]


def _known(state: Path, engine: str) -> set[int]:
    return {line["seed"] for line in _lines(state) if line["engine"] == engine}


def _keep(state: Path, line: Mapping[str, Any]) -> None:
    with state.open("a") as file:
        file.write(json.dumps(line) + "\n")
    broken = f"\n  {line['broken'][-600:]}\n  {json.dumps(line['shrunk'])}" if "broken" in line else ""
    print(
        f"{line['engine']} {line['seed']}: {line['steps']} steps, {line['seconds']} s, {line['outcome']}{broken}",
        flush=True,
    )


def summary(state: Path) -> str:
    """Histories of at least eight steps and the faults they met, by engine; then what failed."""
    lines = _lines(state)
    said = []
    for engine in sorted({line["engine"] for line in lines}):
        own = [line for line in lines if line["engine"] == engine]
        long = [line for line in own if line["steps"] >= _LEAST]
        seconds = sum(line["seconds"] for line in own) / len(own)
        steps = sum(line["steps"] for line in own) / len(own)
        said.append(
            f"{engine}: {len(own):,} histories, {len(long):,} of at least {_LEAST} steps; "
            f"{steps:.1f} steps and {seconds:.1f} s a history"
        )
        faults = Counter(fault.partition(":")[0] for line in own for fault in line["faults"])
        writes = Counter(fault.partition(": ")[2].partition(" ")[0] for line in own for fault in line["faults"])
        said += [f"  {what}: {_counted(found)}" for what, found in (("died", faults), ("at", writes))]
        said.append(f"  steps of each kind: {_counted(Counter(kind for line in own for kind in line['kinds']))}")
        said.append(f"  {_counted(Counter(line['outcome'] for line in own))}")
    failed = [line for line in lines if line["outcome"] != "held"]
    said += [f"{line['engine']} {line['seed']}: {line['outcome']}\n  {json.dumps(line['shrunk'])}" for line in failed]
    return "\n".join(said) or "No histories yet."


def _counted(found: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(found.items(), key=lambda one: -one[1])) or "none"


if __name__ == "__main__":
    main()
