"""Build retrievers for RAG over your documents, search with one, and compare them.

    import ragindex

    with ragindex.open("my-index", encoder="lsa", create=True) as index:
        index.add(ragindex.read("my-documents"))
        index.build("hybrid")
        for hit in index.retriever("hybrid").search("When was the lighthouse built?", k=3):
            print(hit.score, hit.title, hit.text, hit.doc_ids)

    result = ragindex.compare("my-documents", ["bm25", "hybrid(rrf_k=20)"], questions="questions.csv")
    print(result)
    print(result["bm25"]["R@5"])

`ragindex methods` on the command line lists the methods; `ragindex methods hybrid` explains one method's parameters.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Unpack

    from ragindex._util.workers import use_executor
    from ragindex.compare_options import CompareMethod, CompareOptions
    from ragindex.corpus import Chunking, Corpus, Rows, read
    from ragindex.errors import RagindexError
    from ragindex.export.load import load_retriever as load
    from ragindex.index.index import Index
    from ragindex.index.index import open_index as open
    from ragindex.index.retriever import Hits, IndexRetriever
    from ragindex.types import Document, Hit, Position, Query, Retrieval, Section

__all__ = [
    "Chunking",
    "Corpus",
    "Document",
    "Hit",
    "Hits",
    "Index",
    "IndexRetriever",
    "Position",
    "Query",
    "RagindexError",
    "Retrieval",
    "Rows",
    "Section",
    "compare",
    "load",
    "open",
    "read",
    "use_executor",
]

_LAZY = {
    **dict.fromkeys(("Chunking", "Corpus", "Rows", "read"), "ragindex.corpus"),
    **dict.fromkeys(("Document", "Hit", "Position", "Query", "Retrieval", "Section"), "ragindex.types"),
    **dict.fromkeys(("Index", "open_index"), "ragindex.index.index"),
    **dict.fromkeys(("Hits", "IndexRetriever"), "ragindex.index.retriever"),
    "RagindexError": "ragindex.errors",
    "load_retriever": "ragindex.export.load",
    "use_executor": "ragindex._util.workers",
}


def compare(
    data: "str | Path | Corpus | Any | None" = None,
    methods: "str | Sequence[CompareMethod] | None" = None,
    *,
    questions: "str | Path | None" = None,
    **options: "Unpack[CompareOptions]",
) -> Any:
    """Compare methods on documents and questions: recall, answers, tokens, money, latency, size.

    Example:
        result = ragindex.compare("my-documents", ["bm25", "hybrid(rrf_k=20)"], questions="questions.csv")
        print(result)  # a table; in a notebook, HTML
        result["bm25"]["R@5"]  # one figure
        result.save("results")  # JSON, JSON Lines, TREC run files
        result.report("report.html")

    A method can be a function `search(question, k)` too, which returns ids of documents. `ragindex_eval.compare`
    documents `data`, `methods`, `questions`, the options and the errors. It is loaded through its entry point, because
    the framework does not import the evaluation.
    """
    from importlib.metadata import entry_points

    (evaluation,) = entry_points(group="ragindex.evaluation", name="compare")
    return evaluation.load()(data, methods, questions=questions, **options)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name on first use, so that the command line can handle Ctrl-C before the slow imports."""
        source = {"open": "open_index", "load": "load_retriever"}.get(name, name)
        if source not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LAZY[source]), source)

    def __dir__() -> list[str]:
        return [*globals(), *__all__]
