"""A method built and opened in one step, for tests of what it finds."""

from typing import Any

from ragindex.interfaces import Retriever
from ragindex.plugins import registry
from ragindex.workspace.workspace import Workspace


def built_retriever(workspace: Workspace, method: Any) -> Retriever:
    """The retriever of `method`, its parts brought up to the corpus first."""
    scheme = registry.scheme(method)
    workspace.sync([scheme])
    return workspace.retriever(scheme)
