"""Build a tree of two levels of summaries, to be killed at any moment. Run as: tree_child.py FOLDER URL"""

import sys
from pathlib import Path

import openai  # noqa: F401  # imported before the work begins
from made_trees import Compass, at

from ragindex.index.index import Index
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.parts.trees.summary_tree import SummaryTree

TREE = SummaryTree(dimensions=2, stop_at=1)
GROUPS = ((1, 0.15, 0), (1, -0.15, 0), (0.15, 0, 1), (-0.15, 0, 1))
"""Two pairs of groups: their summaries are clustered in pairs, and the summaries of those once more."""
DOCUMENTS = [
    at(f"{letter}{number}", x + 0.01 * (number - 2), y + 0.01 * (number % 2), z + 0.01 * (number > 2))
    for letter, (x, y, z) in zip("abcd", GROUPS, strict=True)
    for number in range(1, 5)
]


def bring(folder: Path, url: str) -> Index:
    plugin = OpenAICompatibleChat(model="small", base_url=url, retries=0, concurrency=1)
    workspace = Index.open(folder, llm=plugin, chunking=None, encoder=Compass(), create=True)
    workspace.replace(DOCUMENTS)
    workspace.build(TREE)
    return workspace


if __name__ == "__main__":
    bring(Path(sys.argv[1]), sys.argv[2])
