"""Print what every method finds over small worlds, as JSON: run with different kernels of OpenBLAS, for test_kernels.

python kernel_child.py FOLDER SIZE SEED [SEED ...]
"""

import json
import sys
import warnings
from pathlib import Path

from search_server import default_scheme

from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Query
from ragindex_eval.data.worlds import make_documents, make_questions

QUESTIONS = 10


def answer(folder: Path, size: int, seed: int) -> dict[str, list[list[tuple[str, float]]]]:
    """Return the ids and scores of ten hits for each question, by method."""
    documents, questions = list(make_documents(size, seed)), make_questions(size, seed)[:QUESTIONS]
    queries = [Query(f"q{n}", question.text) for n, question in enumerate(questions)]
    names = registry.plugin_names("schemes")
    schemes = {name: default_scheme(name, documents if name == "http" else ()) for name in names}
    with Index.open(folder, encoder="lsa", chunking=None, create=True) as workspace:
        workspace.add(documents)
        workspace.build(*list(schemes.values()))
        retrieved = {name: scheme.open(workspace).retrieve(queries, 10) for name, scheme in schemes.items()}
    return {
        name: [[(hit.id, hit.score) for hit in question.hits] for question in hits] for name, hits in retrieved.items()
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    place, size, *seeds = sys.argv[1:]
    print(json.dumps({seed: answer(Path(place) / seed, int(size), int(seed)) for seed in seeds}))
