"""What a part is: its identity in a workspace, and the order in which parts are built."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import regex

from ragindex import canonical
from ragindex.errors import BrokenPluginError, RagindexError
from ragindex.interfaces import Part, Scheme
from ragindex.llm.plugins import PaidPlugin
from ragindex.plugins import registry
from ragindex.plugins.base import Plugin
from ragindex.text_analysis import VERSION as ANALYSIS

if TYPE_CHECKING:
    from ragindex.llm.tasks import Task


@dataclass(frozen=True, slots=True)
class Means:
    """What parts are made with: the ids of encoder and language model, the seed, and imported files by part name."""

    encoder: str | None
    llm: str
    seed: int
    imports: Mapping[str, str] = field(default_factory=dict)

    def imported(self, part: Part[Any]) -> str | None:
        """The hash of the file that a part is imported from."""
        return self.imports.get(registry.name_of(part)) if "import" in part.uses else None


def part_key(part: Part[Any], means: Means) -> str:
    """The identity of a part: its name and a hash of class, version, parameters, inputs, and of what `uses` names.

    What is imported depends on the file, and on no language model.
    """
    own: dict[str, Any] = {
        "part": registry.plugin_fingerprint(part),
        "inputs": [part_key(source, means) for source in part.inputs()],
        "encoder": means.encoder if "encoder" in part.uses else None,
        "seed": means.seed if "seed" in part.uses else None,
        "analysis": ANALYSIS,
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
    """What a scheme asks a language model while it answers: its own tasks and those of the schemes it wraps, each once.

    What its parts ask while they are built does not belong here.
    """
    return tuple(dict.fromkeys((*scheme.tasks(), *(task for base in scheme.base_schemes() for task in tasks_of(base)))))


def require_working(scheme: Scheme) -> Scheme:
    """The scheme, if it can say its parts and tasks. Raises BrokenPluginError where its own code fails."""
    try:
        topological_order(scheme.parts())
        tasks_of(scheme)
    except RagindexError:
        raise
    except Exception as error:
        raise broken_plugin(registry.name_of(scheme), error) from error
    return scheme


def broken_plugin(method: str, error: Exception) -> BrokenPluginError:
    """What is said of a method whose own code failed."""
    return BrokenPluginError(
        f"The method {method} is broken: {registry.describe_error(error)}. Fix or uninstall it, or leave it out."
    )


def paid_by(plugin: Plugin) -> Iterator[PaidPlugin]:
    """The plugins among a plugin and its parameters, nested ones too, whose requests cost money."""
    if isinstance(plugin, PaidPlugin):
        yield plugin
    for inner in plugin.inner_plugins():
        yield from paid_by(inner)


def uses_encoder(part: Part[Any]) -> bool:
    """Whether the part or one of its inputs uses the encoder."""
    return "encoder" in part.uses or any(uses_encoder(source) for source in part.inputs())


def parts_of(plugin: Scheme | Part[Any]) -> tuple[Part[Any], ...]:
    """The parts of a scheme; a part is its own."""
    return plugin.parts() if isinstance(plugin, Scheme) else (plugin,)


def topological_order(parts: Iterable[Part[Any]]) -> list[Part[Any]]:
    """Each part and its inputs once, inputs first."""
    ordered: dict[str, Part[Any]] = {}

    def visit(part: Part[Any]) -> None:
        for source in part.inputs():
            visit(source)
        ordered.setdefault(registry.plugin_fingerprint(part), part)

    for part in parts:
        visit(part)
    return list(ordered.values())
