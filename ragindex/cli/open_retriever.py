"""Opening a retriever for one command: what is missing is answered with the whole command that makes it."""

import shlex
from collections.abc import Mapping

from ragindex.errors import MissingPartError
from ragindex.interfaces import Retriever, Scheme
from ragindex.plugins import registry
from ragindex.workspace.workspace import Workspace


def opened(workspace: Workspace, scheme: Scheme, given: Mapping[str, object]) -> Retriever:
    """The retriever. Raises MissingPartError; `given` are the flags that the command was given, None where not."""
    try:
        return scheme.open(workspace)
    except MissingPartError as error:
        method, folder = registry.label(scheme), workspace.folder
        flags = "".join(f" {flag} {shlex.quote(str(value))}" for flag, value in given.items() if value)
        command = f"--index {shlex.quote(str(folder))} --methods {shlex.quote(method)}{flags}"
        encoder = given.get("--encoder")
        which = f" with {encoder}" if encoder else ""
        message = f"The workspace {folder} has not been built for {method}{which}. Run: ragindex index {command}"
        raise MissingPartError(message) from error
