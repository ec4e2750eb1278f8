"""Build trees on two processes, to be stopped at any moment: crash_child.py FOLDER."""

import signal
import sys
from pathlib import Path

import sklearn.decomposition  # noqa: F401  # imported before "ready", so that the kill falls into the work

import ragindex.index.sync
import ragindex_baselines.raptor
from ragindex._util import workers
from ragindex.index.index import Index
from ragindex.types import Document

WORDS = (
    *("river", "glass", "tower", "lamp", "winter", "bread", "stone", "garden"),
    *("letter", "copper", "sail", "orchard", "bridge", "needle", "meadow", "harbour"),
)
TREES = ragindex_baselines.raptor.Raptor()
"""Clusters and summarises by rules, which are what worker processes do."""


def document(number: int) -> Document:
    picked = [WORDS[(number * step + step * step) % len(WORDS)] for step in range(1, 9)]
    return Document(f"d{number:04d}", f"Number {number}", " ".join(picked) + f" item{number % 37}", {"number": number})


DOCUMENTS = [document(number) for number in range(400)]


def build(folder: Path) -> Index:
    ragindex.index.sync._BATCH = 16
    workspace = Index.open(folder, chunking=None, create=True)
    workspace.replace(DOCUMENTS)
    workspace.build(TREES)
    return workspace


if __name__ == "__main__":
    print("ready", flush=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    workers.SERIAL_SECONDS = 0.0
    with workers.use_workers(2):
        build(Path(sys.argv[1]))
    print("done", flush=True)
