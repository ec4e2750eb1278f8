"""A helper that opens a retriever for a command; if parts are missing, the error names the command to build them."""

from ragindex._util.text import first_names
from ragindex.errors import MissingPartError
from ragindex.index.index import Index
from ragindex.index.parts import list_working_methods, require_working
from ragindex.interfaces import Retriever, Scheme
from ragindex.plugins import registry


def open_retriever(index: Index, scheme: Scheme) -> Retriever:
    """Open the scheme's retriever.

    Raises MissingPartError with the command that builds the missing parts, and BrokenPluginError.
    """
    try:
        return require_working(scheme).open(index)
    except MissingPartError as error:
        raise make_not_built_error(index, scheme) from error


def make_not_built_error(index: Index, scheme: Scheme) -> MissingPartError:
    """Return the error of a method that is not built, with the methods that are and the command that builds it."""
    method = registry.label(scheme)
    encoder = index.encoder_of(scheme)
    which = f" with the encoder {encoder}" if encoder else ""
    built = _list_built_methods(index)
    there = f" Built: {first_names(built)}." if built else ""
    command = index.command("index", "--methods", method)
    return MissingPartError(f"The index {index.folder} is not built for {method}{which}.{there} Run: {command}")


def _list_built_methods(index: Index) -> list[str]:
    """Return the installed methods of which an index has all parts, with their default parameters."""
    found = list[str]()
    for name, parts in list_working_methods().items():
        keys = {index.key(part, index.pinned_encoder(part)) for part in parts}
        if keys and keys <= index.manifest.parts.keys():
            found.append(name)
    return found
