"""Build alternative retrieval schemes over one corpus, use one, and compare them.

    workspace = ragindex.Workspace.open("my-index")
    workspace.add(ragindex.read("my-documents"))
    retriever = workspace.retriever("hybrid")
    hits = retriever.retrieve([ragindex.Query("1", "Who wrote the report?")], k=5)[0].hits

`ragindex_eval.run.compare.compare` is the comparison; the command line does the same.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragindex.corpus import Chunking, Corpus, read
    from ragindex.errors import RagindexError
    from ragindex.types import Document, Hit, Query, Retrieval
    from ragindex.workspace.workspace import Workspace

__all__ = ["Chunking", "Corpus", "Document", "Hit", "Query", "RagindexError", "Retrieval", "Workspace", "read"]

_FROM = {
    **dict.fromkeys(("Corpus", "Chunking", "read"), "ragindex.corpus"),
    **dict.fromkeys(("Document", "Hit", "Query", "Retrieval"), "ragindex.types"),
    **{"RagindexError": "ragindex.errors", "Workspace": "ragindex.workspace.workspace"},
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The names above, imported when they are asked for: the command line must catch Ctrl-C before anything is."""
        if name not in _FROM:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_FROM[name]), name)
