"""Bring a workspace to a corpus, to be killed at any moment.

Run as: crash_child.py FOLDER first|both, for `METHOD` in one process; with `workers`, for `TREES` on two processes.
"""

import signal
import sys
from pathlib import Path

import sklearn.decomposition  # noqa: F401  # imported before "ready", so that the kill falls into the work

import ragindex.workspace.sync
import ragindex_baselines.hybrid
import ragindex_baselines.raptor
from ragindex import workers
from ragindex.interfaces import Scheme
from ragindex.types import Document
from ragindex.workspace.workspace import Workspace

WORDS = [
    "river",
    "glass",
    "tower",
    "lamp",
    "winter",
    "bread",
    "stone",
    "garden",
    "letter",
    "copper",
    "sail",
    "orchard",
    "bridge",
    "needle",
    "meadow",
    "harbour",
]
METHOD = ragindex_baselines.hybrid.Hybrid()
TREES = ragindex_baselines.raptor.Raptor()
"""Clusters and summarises by rules, which are what worker processes do."""


def document(number: int) -> Document:
    picked = [WORDS[(number * step + step * step) % len(WORDS)] for step in range(1, 9)]
    return Document(f"d{number:04d}", f"Number {number}", " ".join(picked) + f" item{number % 37}", {"number": number})


FIRST = [document(number) for number in range(400)]
BOTH = FIRST[50:] + [document(number) for number in range(400, 520)]  # 50 removed, 120 added


def bring(folder: Path, which: str, method: Scheme = METHOD) -> Workspace:
    ragindex.workspace.sync._BATCH = 16
    workspace = Workspace.open(folder, chunking=None)
    workspace.replace(FIRST if which == "first" else BOTH)
    workspace.sync([method])
    return workspace


if __name__ == "__main__":
    print("ready", flush=True)
    if sys.argv[3:] == ["workers"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        workers.SERIAL_SECONDS = 0.0
        with workers.use_workers(2):
            bring(Path(sys.argv[1]), sys.argv[2], TREES)
    else:
        bring(Path(sys.argv[1]), sys.argv[2])
    print("done", flush=True)
