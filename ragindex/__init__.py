"""Build alternative retrieval schemes over one corpus, use one, and compare them.

    workspace = ragindex.Workspace.open("my-index")
    workspace.add(ragindex.read("my-documents").documents)
    retriever = workspace.retriever("hybrid")
    hits = retriever.retrieve([ragindex.Query("1", "Who wrote the report?")], k=5)[0].hits

`eval.evaluator.compare` is the comparison; the command line does the same.
"""

from ragindex.corpus import Corpus, Cutting, read
from ragindex.errors import RagindexError
from ragindex.types import Document, Hit, Query, Retrieval
from ragindex.workspace import Workspace

__all__ = ["Corpus", "Cutting", "Document", "Hit", "Query", "RagindexError", "Retrieval", "Workspace", "read"]
