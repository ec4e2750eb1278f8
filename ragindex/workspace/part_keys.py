"""What a part is: its identity in a workspace, and the order in which parts are built."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import regex
from pydantic import BaseModel

from ragindex import canonical
from ragindex.errors import BrokenPluginError, RagindexError, UsageError
from ragindex.interfaces import IndexingScheme, PaidPlugin, Part, PartWithSharedRecords, PartWithTasks
from ragindex.plugins import registry
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
        return self.imports.get(registry.name_of(model(part))) if "import" in part.uses else None


def part_key(part: Part[Any], means: Means) -> str:
    """The identity of a part: its name and a hash of class, version, parameters, inputs, and of what `uses` names.

    What is imported depends on the file, and on no language model.
    """
    own: dict[str, Any] = {
        "part": registry.fingerprint(model(part)),
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
    if imported is None and isinstance(part, PartWithTasks):
        own["prompts"] = [task.identity for task in part.tasks()]
    return f"{regex.sub(r'[^A-Za-z0-9_-]', '-', registry.name_of(model(part)))}-{canonical.digest(own)}"


def model(plugin: Any) -> BaseModel:
    """A plugin as what it is to pydantic."""
    if not isinstance(plugin, BaseModel):
        raise UsageError(f"A plugin must be a frozen pydantic model. Got {type(plugin).__name__} instead.")
    return plugin


def tasks_of(scheme: IndexingScheme) -> tuple["Task[Any]", ...]:
    """What a scheme asks a language model while it answers: its own tasks and those of the schemes it wraps, each once.

    What its parts ask while they are built does not belong here.
    """
    own = scheme.tasks() if isinstance(scheme, PartWithTasks) else ()
    return tuple(dict.fromkeys((*own, *(task for base in bases_of(scheme) for task in tasks_of(base)))))


def checked(scheme: IndexingScheme) -> IndexingScheme:
    """The scheme, if it can say its parts and tasks. Raises BrokenPluginError where its own code fails."""
    try:
        in_order(scheme.parts())
        tasks_of(scheme)
    except RagindexError:
        raise
    except Exception as error:
        raise broken(registry.name_of(model(scheme)), error) from error
    return scheme


def broken(method: str, error: Exception) -> BrokenPluginError:
    """What is said of a method whose own code failed."""
    return BrokenPluginError(
        f"The method {method} is broken: {registry.said_of(error)}. Mend or uninstall it, or leave it out."
    )


def bases_of(scheme: IndexingScheme) -> tuple[IndexingScheme, ...]:
    """The schemes among a scheme's parameters, alone or in a list, in the order of the parameters."""
    members = [one for one in parameters_of(model(scheme)) if hasattr(one, "parts")]
    return tuple(cast(IndexingScheme, one) for one in members)


def parameters_of(plugin: BaseModel) -> Iterator[BaseModel]:
    """The plugins among a plugin's parameters, alone or in a list; not those inside of these."""
    for name in type(plugin).model_fields:
        value = getattr(plugin, name)
        members = value if isinstance(value, tuple | list) else (value,)
        yield from (one for one in members if isinstance(one, BaseModel))


def paid_by(plugin: Any) -> Iterator[PaidPlugin]:
    """What among a plugin and its parameters, nested ones too, opens something whose requests cost money."""
    if isinstance(plugin, PaidPlugin):
        yield plugin
    for inner in parameters_of(model(plugin)):
        yield from paid_by(inner)


def reads_k(scheme: IndexingScheme, largest: int) -> bool:
    """Whether the first hits of a scheme can depend on how many are asked for, up to `largest`.

    What the scheme says of itself (`reads_k`) counts. One that says nothing reads k where one of its bases does, and
    where more than its `reads_k_above` are asked for.
    """
    own = getattr(scheme, "reads_k", None)
    if own is not None:
        return bool(own)
    above = getattr(scheme, "reads_k_above", None)
    return (above is not None and largest > above) or any(reads_k(base, largest) for base in bases_of(scheme))


def uses_encoder(part: Part[Any]) -> bool:
    """Whether the part or one of its inputs uses the encoder."""
    return "encoder" in part.uses or any(uses_encoder(source) for source in part.inputs())


def shares_records(part: Part[Any]) -> bool:
    """Whether the part's records can belong to several passages."""
    return isinstance(part, PartWithSharedRecords) and part.shares


def parts_of(plugin: IndexingScheme | Part[Any]) -> tuple[Part[Any], ...]:
    """The parts of a scheme; a part is its own."""
    return plugin.parts() if hasattr(plugin, "parts") else (plugin,)


def in_order(parts: Iterable[Part[Any]]) -> list[Part[Any]]:
    """Each part and its inputs once, inputs first."""
    ordered: dict[str, Part[Any]] = {}

    def visit(part: Part[Any]) -> None:
        for source in part.inputs():
            visit(source)
        ordered.setdefault(registry.fingerprint(model(part)), part)

    for part in parts:
        visit(part)
    return list(ordered.values())
