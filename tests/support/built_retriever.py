"""A method built and opened in one step, for tests of what it finds."""

from typing import Any

from ragindex.index.index import Index
from ragindex.interfaces import Retriever
from ragindex.plugins import registry


def built_retriever(workspace: Index, method: Any) -> Retriever:
    """The retriever of `method`, its parts brought up to the corpus first."""
    scheme = registry.scheme(method)
    workspace.build(scheme)
    return workspace.open_method(scheme)
