"""Bring a workspace to a corpus, to be killed at any moment. Run as: crash_child.py FOLDER first|both"""

import sys
from pathlib import Path

import sklearn.decomposition  # noqa: F401  # imported before "ready", so that the kill falls into the work

import ragindex.workspace.sync
import ragindex_baselines.hybrid
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


def document(number: int) -> Document:
    picked = [WORDS[(number * step + step * step) % len(WORDS)] for step in range(1, 9)]
    return Document(f"d{number:04d}", f"Number {number}", " ".join(picked) + f" item{number % 37}", {"number": number})


FIRST = [document(number) for number in range(400)]
BOTH = FIRST[50:] + [document(number) for number in range(400, 520)]  # 50 removed, 120 added


def bring(folder: Path, which: str) -> Workspace:
    ragindex.workspace.sync._BATCH = 16
    workspace = Workspace.open(folder, chunking=None)
    workspace.replace(FIRST if which == "first" else BOTH)
    workspace.sync([METHOD])
    return workspace


if __name__ == "__main__":
    print("ready", flush=True)
    bring(Path(sys.argv[1]), sys.argv[2])
    print("done", flush=True)
