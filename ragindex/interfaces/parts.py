"""Parts: data that are made from the corpus and kept up to date, from which methods answer."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Protocol, Self, TypeAlias, TypeVar

from pydantic import BeforeValidator, Field

from ragindex.errors import UsageError
from ragindex.interfaces.encoders import Encoder
from ragindex.interfaces.stores import Collection, RecordBatch, Schema
from ragindex.plugins.base import Plugin
from ragindex.types import Chunking

if TYPE_CHECKING:
    from ragindex.interfaces.llm import LLM
    from ragindex.llm.tasks import Task

Opened_co = TypeVar("Opened_co", covariant=True)
Uses: TypeAlias = frozenset[Literal["encoder", "model", "prompts", "import", "seed"]]


@dataclass(frozen=True, slots=True)
class Change:
    """One batch of work for a part: `upsert` maps passages to add or update to their revisions; `remove` lists ids.

    If it is `fresh`, the part has made nothing of these passages yet, so it need not look for their old records.
    """

    upsert: Mapping[str, str]
    remove: tuple[str, ...] = ()
    fresh: bool = False


class PartContext(Protocol):
    """The objects that a part may use both while it is built and when it is opened."""

    @property
    def folder(self) -> Path:
        """The part's own folder, for Arrow and npy files."""
        ...

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The opened input parts, in the order of `Part.inputs`."""
        ...

    @property
    def encoder(self) -> "Encoder":
        """The index's encoder; its document vectors are cached by (encoder id, text)."""
        ...

    @property
    def language(self) -> str:
        """The language of the corpus, for text analysis."""
        ...

    def passages(self, ids: Sequence[str]) -> RecordBatch:
        """Return passages of the corpus.

        Columns: id, doc_id, title, text, metadata (the document's, as JSON), headings that the passage starts under,
        joined by " › ", and own_headings, a list of those in it.
        """
        ...


class BuildContext(PartContext, Protocol):
    """The objects that a part may use while it is built: writable collections, the LLM, the seed, and reports.

    Encoder, LLM and imported file are only available to parts whose `uses` names them.
    """

    @property
    def llm(self) -> "LLM":
        """The index's LLM, or the offline rules; called through tasks."""
        ...

    @property
    def imported(self) -> Path | None:
        """The file that the part's content is imported from; None if no file was given to the index."""
        ...

    @property
    def seed(self) -> int:
        """The seed of all random choices."""
        ...

    def collection(self, name: str, schema: "Schema") -> "Collection":
        """Return the part's writable collection `name`; create it with `schema` if it does not exist."""
        ...

    def failed(self, id: str, reason: str, *, set_aside: bool = False) -> None:
        """Report a passage that could not be processed. It is counted as failed and retried at the next sync.

        One that is `set_aside`, as a `Failure` of a model says, is retried with `Index.build(retry_failed=True)` only.
        """
        ...

    def note(self, sentence: str, *, detail: bool = False) -> None:
        """Store a sentence with the part that explains its figures to users. Call it in `finish`.

        A `detail` changes no figure and no next step of the user: a short output may leave it out, but no other note.
        """
        ...


class ReadContext(PartContext, Protocol):
    """The objects that a part may use when it is opened: its collections, pinned to one version."""

    def collection(self, name: str) -> "Collection":
        """Return the part's collection `name`, read-only. Raises MissingPartError if no sync has finished it."""
        ...


SearchKind: TypeAlias = Literal["text", "vectors"]
"""How the records of a part can be searched."""


class ChunkedPlugin(Plugin):
    """Base class of parts and methods, which are made from passages of one chunking."""

    def own_chunking(self) -> Chunking | None:
        """Return the chunking that the parameters name; None: the index's. Raises UsageError if they name several."""
        inner = (plugin for plugin in self.inner_plugins() if isinstance(plugin, ChunkedPlugin))
        chunkings = {chunking for plugin in inner if (chunking := plugin.own_chunking()) is not None}
        if len(chunkings) > 1:
            raise UsageError(
                f"{type(self).__name__} needs one chunking for all its parts. Got {len(chunkings)} different ones: "
                f"{' and '.join(sorted(map(str, chunkings)))}. Set `over` once, on the outermost method."
            )
        return next(iter(chunkings), None)


def _parse_chunking(value: Any) -> Any:
    """Return the parameters of a chunking that is written as `passages(by=words, size=128)`."""
    if isinstance(value, Mapping) and value.get("name") == "passages":
        return {"size": None, "overlap": 0, **value["params"]}
    return value


class Part(ChunkedPlugin, Generic[Opened_co]):
    """Base class of parts: data derived from the corpus and kept up to date. `Opened_co` is the type `open` returns.

    A subclass sets `version`, implements `open`, and overrides `apply`, `finish` or both. A part's identity is its
    class, version, parameters and inputs, and everything that `uses` names.
    """

    version: ClassVar[int]
    """Increased when the same parameters would give other data."""
    uses: ClassVar[Uses] = frozenset()
    """The parts of the index that the data depend on: its encoder, its LLM ("model", with the "prompts" of `tasks`),
    its seed, or an imported file ("import")."""
    searched_by: ClassVar["frozenset[SearchKind] | None"] = None
    """How methods can search the part's records as hits: by "text", their words, or by "vectors", their own or those
    that `vectors_of` makes of their texts. Empty: not at all. None: not stated, so that methods try it."""
    caches_costs: ClassVar[bool] = False
    """Whether the vectors that `apply` needs are cached while it runs, so that a crash loses few of a large batch."""
    finishes_changes: ClassVar[bool] = False
    """Whether each `finish` processes only what has changed; the times of all calls are then added up."""
    chunked: Annotated[Chunking | None, BeforeValidator(_parse_chunking)] = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="Chunking of the passages, set by the parameter over of methods. null: the index's.",
    )

    def own_chunking(self) -> Chunking | None:
        """Return the chunking of the passages that the part is made from; None: the index's."""
        return self.chunked or super().own_chunking()

    def with_chunking(self, chunking: Chunking | None) -> Self:
        """Return the part made from passages of `chunking`, unless it names another, or None (the index's)."""
        own = self.own_chunking() or chunking
        if own is None:
            return self
        values = {name: getattr(self, name) for name in type(self).model_fields}
        inner = {name: part.with_chunking(own) for name, part in values.items() if isinstance(part, Part)}
        return self.model_copy(update={**inner, "chunked": own})

    def without_chunking(self, chunking: Chunking | None) -> Self:
        """Return the part without `chunking` in it and in the parts among its parameters; the opposite of the above."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        inner = {name: part.without_chunking(chunking) for name, part in values.items() if isinstance(part, Part)}
        return self.model_copy(update={**inner, "chunked": None if self.chunked == chunking else self.chunked})

    def to_label(self) -> Self:
        """Return an equivalent part with the shortest text: parts among its parameters take its chunking by default."""
        own = self.chunked
        return self if own is None else self.without_chunking(own).model_copy(update={"chunked": own})

    def inputs(self) -> tuple["Part[Any]", ...]:
        """Return the parts that this part is built from. Default: none; it is built from the passages."""
        return ()

    def tasks(self) -> "tuple[Task[Any], ...]":
        """Return the part's LLM tasks; their names, versions and prompts are part of its identity."""
        return ()

    @property
    def shares_records(self) -> bool:
        """Whether, with these parameters, a record can belong to several passages (merged triples, clusters)."""
        return False

    def passages_sharing_with(self, ids: Sequence[str], context: BuildContext) -> Iterable[str]:
        """Return the passages that currently share a record with one of the passages `ids`."""
        return ()

    def check_import(self, file: Path) -> None:
        """Check a file to import (`uses` names "import"). Raises DataError if it cannot be read."""

    def apply(self, change: Change, context: BuildContext) -> None:
        """Process one batch of changes. Must be idempotent: after a crash the batch is repeated. Default: no effect."""

    def list_texts(self, ids: Sequence[str], context: BuildContext) -> Sequence[str]:
        """Return the texts that `apply` encodes if these passages are new, so that workers can encode them before.

        Default: none; they are then encoded one batch after the other.
        """
        return ()

    def finish(self, context: BuildContext) -> None:
        """Build data that needs the whole corpus, after the last batch; repeated after a crash. Default: no effect."""

    @abstractmethod
    def open(self, context: ReadContext) -> Opened_co:
        """Open the object that schemes work with."""
