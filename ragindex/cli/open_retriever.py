"""A helper that opens a retriever for a command; if parts are missing, the error names the command to build them."""

from ragindex.counts import first_names
from ragindex.errors import MissingPartError
from ragindex.interfaces import Retriever, Scheme
from ragindex.plugins import registry
from ragindex.workspace.part_keys import list_working_methods, require_working
from ragindex.workspace.workspace import Workspace


def open_retriever(workspace: Workspace, scheme: Scheme) -> Retriever:
    """Open the scheme's retriever.

    Raises MissingPartError with the command that builds the missing parts, and BrokenPluginError.
    """
    try:
        return require_working(scheme).open(workspace)
    except MissingPartError as error:
        raise make_not_built_error(workspace, scheme) from error


def make_not_built_error(workspace: Workspace, scheme: Scheme) -> MissingPartError:
    """Return the error of a method that is not built, with the methods that are and the command that builds it."""
    method = registry.label(scheme)
    encoder = workspace.encoder_of(scheme)
    which = f" with the encoder {encoder}" if encoder else ""
    built = _list_built_methods(workspace)
    there = f" Built: {first_names(built)}." if built else ""
    command = workspace.command("index", "--methods", method)
    return MissingPartError(f"The index {workspace.folder} is not built for {method}{which}.{there} Run: {command}")


def _list_built_methods(workspace: Workspace) -> list[str]:
    """Return the installed methods of which an index has all parts, with their default parameters."""
    found = list[str]()
    for name, parts in list_working_methods().items():
        keys = {workspace.key(part, workspace.pinned_encoder(part)) for part in parts}
        if keys and keys <= workspace.manifest.parts.keys():
            found.append(name)
    return found
