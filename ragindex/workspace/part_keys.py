"""The keys that identify parts in a workspace, and the order in which parts are built."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import regex

from ragindex import canonical
from ragindex.errors import BrokenPluginError, NameTakenError, RagindexError, UsageError
from ragindex.filters import TERMS_VERSION
from ragindex.interfaces import Part, Scheme
from ragindex.llm.plugins import PaidPlugin
from ragindex.plugins import code_fingerprint, registry
from ragindex.plugins.base import Plugin
from ragindex.plugins.plugin_errors import describe_class, describe_failure, find_fault
from ragindex.text_analysis import VERSION as ANALYSIS
from ragindex.workspace.chunks import Chunks, chunks_of

if TYPE_CHECKING:
    from ragindex.llm.tasks import Task


@dataclass(frozen=True, slots=True)
class Means:
    """The inputs shared by all parts: encoder id, LLM id, seed, and the hashes of imported files by part name."""

    encoder: str | None
    llm: str
    seed: int
    imports: Mapping[str, str] = field(default_factory=dict)

    def imported(self, part: Part[Any]) -> str | None:
        """Return the hash of the file that a part is imported from, or None if it is not imported."""
        return self.imports.get(registry.name_of(part)) if "import" in part.uses else None


def part_key(part: Part[Any], means: Means) -> str:
    """Return the key of a part: its name and a hash of its class, version, parameters, inputs, and what `uses` names.

    The key of an imported part depends on the file instead of the LLM.
    """
    own: dict[str, Any] = {
        "part": registry.plugin_fingerprint(part),
        "inputs": [part_key(source, means) for source in inputs_of(part)],
        "encoder": means.encoder if "encoder" in part.uses else None,
        "seed": means.seed if "seed" in part.uses else None,
        "analysis": ANALYSIS,
        "terms": TERMS_VERSION,
    }
    imported = means.imported(part)
    if imported is not None:
        own["import"] = imported
    elif "model" in part.uses:
        own["model"] = means.llm
    if imported is None and (tasks := part.tasks()):
        own["prompts"] = [task.identity for task in tasks]
    return f"{regex.sub(r'[^A-Za-z0-9_-]', '-', registry.name_of(part))}-{canonical.digest(own)}"


def tasks_of(scheme: Scheme) -> tuple["Task[Any]", ...]:
    """Return the LLM tasks that a scheme runs for queries: its own and those of its base schemes, without duplicates.

    The tasks that its parts use while they are built are not included.
    """
    return tuple(dict.fromkeys((*scheme.tasks(), *(task for base in scheme.base_schemes() for task in tasks_of(base)))))


def require_working(scheme: Scheme) -> Scheme:
    """Return the scheme if it and its parts can be used. Raises BrokenPluginError if one lacks something or fails."""
    try:
        parts = topological_order(scheme.parts())
        tasks_of(scheme)
        for plugin in (scheme, *parts):
            if code_fingerprint.of(type(plugin)) is not None and (fault := find_fault(plugin)) is not None:
                raise BrokenPluginError(f"{describe_class(plugin)}: {fault}")
    except RagindexError:
        raise
    except Exception as error:
        raise broken_plugin(registry.name_of(scheme), error, scheme) from error
    return scheme


def list_working_methods() -> dict[str, list[Part[Any]]]:
    """Return all parts, inputs first, of each installed method that works with its default parameters, by name."""
    found = dict[str, list[Part[Any]]]()
    for name in registry.plugin_names("schemes"):
        try:
            found[name] = topological_order(require_working(registry.scheme(name)).parts())
        except RagindexError:  # broken, or without a default
            continue
    return found


def require_working_default(name: str) -> None:
    """Check the method of a name with its default parameters; a method that requires a parameter is not checked.

    Raises BrokenPluginError or NameTakenError.
    """
    try:
        require_working(registry.scheme(name))
    except (BrokenPluginError, NameTakenError):
        raise
    except UsageError:
        return


def broken_plugin(method: str, error: Exception, scheme: Scheme) -> BrokenPluginError:
    """Return the error for a method whose code failed: what it raised, and where."""
    told = describe_failure(error, scheme)
    return BrokenPluginError(f"The method {method} is broken: {told}. Fix or uninstall it, or leave it out.")


def paid_by(plugin: Plugin) -> Iterator[PaidPlugin]:
    """Yield the paid plugins among a plugin and the plugins in its parameters, at any depth."""
    if isinstance(plugin, PaidPlugin):
        yield plugin
    for inner in plugin.inner_plugins():
        yield from paid_by(inner)


def uses_encoder(part: Part[Any]) -> bool:
    """Return whether the part or one of its inputs uses the encoder."""
    return "encoder" in part.uses or any(uses_encoder(source) for source in inputs_of(part))


def parts_of(plugin: Scheme | Part[Any]) -> tuple[Part[Any], ...]:
    """Return the parts of a scheme, or the part itself."""
    return plugin.parts() if isinstance(plugin, Scheme) else (plugin,)


def inputs_of(part: Part[Any]) -> tuple[Part[Any], ...]:
    """Return the inputs of a part, made from the same passages; without any, the chunks that it is made from."""
    chunking = part.own_chunking()
    inputs = tuple(source.with_chunking(chunking) for source in part.inputs())
    chunks = None if inputs or isinstance(part, Chunks) else chunks_of(chunking)
    return inputs if chunks is None else (chunks,)


def topological_order(parts: Iterable[Part[Any]]) -> list[Part[Any]]:
    """Return the parts and their inputs without duplicates, inputs first."""
    ordered: dict[str, Part[Any]] = {}

    def visit(part: Part[Any]) -> None:
        fingerprint = registry.plugin_fingerprint(part)
        if fingerprint not in ordered:  # else its inputs are there too
            for source in inputs_of(part):
                visit(source)
            ordered[fingerprint] = part

    for part in parts:
        visit(part.with_chunking(None))
    return list(ordered.values())
