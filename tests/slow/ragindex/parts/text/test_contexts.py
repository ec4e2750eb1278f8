"""Contexts of passages on both stores."""

from pathlib import Path

from elasticsearch_node.node import store as elasticsearch_store

from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Document, Query, Section

PIER = "# Pier\n\nThe old pier is closed.\n\n## Tides\n\nIt turns twice.\n\n## Fees\n\nA berth costs nine crowns."
HEADINGS = (("# Pier", ("Pier",)), ("## Tides", ("Pier", "Tides")), ("## Fees", ("Pier", "Fees")))
SECTIONS = tuple(Section(PIER.index(line), path) for line, path in HEADINGS)
DOCUMENTS = [Document("pier", "Pier", PIER, sections=SECTIONS), Document("blank", "Blank", " ")]
CONTEXTS = ("title", "none", "headings", "sentence")


def test_both_stores_find_the_same(tmp_path: Path) -> None:
    methods = [registry.scheme(f"bm25(over=passages(by=sections, context={context}))") for context in CONTEXTS]
    questions = [Query(str(n), text) for n, text in enumerate(("pier", "tides", "closed", "blank", "nine fees"))]
    answers = []
    with elasticsearch_store() as written:
        for store in ("lancedb", written):
            with Index.open(tmp_path / str(len(answers)), store=store, create=True) as workspace:
                workspace.add(DOCUMENTS)
                workspace.build(*methods)
                answers.append(
                    [
                        [(hit.id, round(hit.score, 5)) for hit in retrieval.hits]
                        for method in methods
                        for retrieval in workspace.open_method(method).retrieve(questions, 9)
                    ]
                )
    assert answers[0] == answers[1]
