"""What building methods over a corpus takes: the one estimate of `compare` and `recommend`.

Parts that the index has count with what they took. The others are built over a sample of the documents, without a
language model, and their seconds and bytes are scaled by the length of all documents. The scaled costs are kept beside
the answers in the index, so that a sample is built once.
"""

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from ragindex._util import durable_files
from ragindex._util.canonical import digest
from ragindex.accounting import ledger
from ragindex.index.index import Index
from ragindex.index.manifest import read_manifest
from ragindex.index.models import vector_cache_path
from ragindex.index.parts import topological_order
from ragindex.interfaces import FittedEncoderPlugin, Scheme
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import Budget
from ragindex.plugins import registry
from ragindex.types import Chunking, Document
from ragindex_eval.run.settings import IndexAndModelSettings

SAMPLED_DOCUMENTS = 60
"""The most documents of a sample."""
_SAMPLED_CHARACTERS = 150_000
"""The most characters of a sample: 60 long documents would take minutes."""
_SMALL = 5 * SAMPLED_DOCUMENTS  # documents
_KEPT = "sampled-costs.json"


@dataclass(frozen=True, slots=True)
class PartCost:
    """Seconds and bytes of a part over all documents; `built` if the index has it, so that they were measured."""

    seconds: float
    bytes: float
    built: bool = False


@dataclass(frozen=True, slots=True)
class BuildCosts:
    """The costs of parts by label, and the labels of the parts of each method."""

    parts: Mapping[str, PartCost]
    methods: Mapping[str, Sequence[str]]

    def of(self, method: str) -> list[PartCost]:
        """Return the costs of the parts of a method."""
        return [self.parts[label] for label in self.methods[method]]

    def seconds_left(self, methods: Collection[str]) -> float:
        """Return the seconds of all parts of the methods that the index lacks; shared parts count once."""
        labels = {label for method in methods for label in self.methods[method]}
        return sum(self.parts[label].seconds for label in labels if not self.parts[label].built)


def is_small(documents: Sequence[Document]) -> bool:
    """Return whether building over the documents takes no longer than estimating what it takes."""
    return len(documents) <= _SMALL


def estimate_building(
    schemes: Mapping[str, Scheme],
    documents: Sequence[Document],
    chunking: Chunking | Literal["default"] | None,
    models: IndexAndModelSettings,
    folder: Path | None = None,
    budget: Budget | None = None,
) -> BuildCosts:
    """Estimate what building the schemes, by label, takes over `documents`; a paid encoder is paid from the budget.

    `folder` is that of the index, which need not exist. Vectors that it has cached are not made again; they count with
    what they first took. The others are cached there, so that the index does not make them again. Raises as
    `Index.build` does.
    """
    known = {} if folder is None else _read_known(folder, schemes, documents, models)
    methods = _list_methods(schemes, models)
    lacking = [schemes[method] for method, labels in methods.items() if not known.keys() >= {*labels}]
    if lacking:
        sampled = _build_sample(lacking, documents, chunking, models, folder, budget)
        known = sampled | known
        if folder is not None:
            _keep_sampled(folder, documents, models, known)
    return _choose_costs(known, methods)


def read_costs(
    schemes: Mapping[str, Scheme], documents: Sequence[Document], models: IndexAndModelSettings, folder: Path
) -> BuildCosts | None:
    """Return what `estimate_building` does if that needs no new sample, else None."""
    known, methods = _read_known(folder, schemes, documents, models), _list_methods(schemes, models)
    return _choose_costs(known, methods) if all(known.keys() >= {*labels} for labels in methods.values()) else None


def _choose_costs(known: Mapping[str, PartCost], methods: Mapping[str, Sequence[str]]) -> BuildCosts:
    wanted = {label for labels in methods.values() for label in labels}
    return BuildCosts({label: cost for label, cost in known.items() if label in wanted}, methods)


def _read_known(
    folder: Path, schemes: Mapping[str, Scheme], documents: Sequence[Document], models: IndexAndModelSettings
) -> dict[str, PartCost]:
    """Return the costs of the parts that the index has, or that an earlier sample had, by label."""
    built = {} if read_manifest(folder) is None else _read_built(folder, schemes, models)
    return _read_sampled(folder, documents, models) | built


def _list_methods(schemes: Mapping[str, Scheme], models: IndexAndModelSettings) -> dict[str, tuple[str, ...]]:
    fit = _label_fit(models)
    return {label: _list_labels(scheme, fit) for label, scheme in schemes.items()}


# ---------------------------------------------------------------- parts


def _label_fit(models: IndexAndModelSettings) -> str | None:
    """Return the label of the fit of the encoder; None if it is not fitted to documents."""
    encoder = registry.encoder(models.encoder or "lsa")
    return f"{registry.label(encoder)} fit" if isinstance(encoder, FittedEncoderPlugin) else None


def _list_labels(scheme: Scheme, fit: str | None) -> tuple[str, ...]:
    parts = topological_order(scheme.parts())
    fitted = fit is not None and any("encoder" in part.uses for part in parts)
    return (*map(registry.label, parts), *([fit] if fit is not None and fitted else []))


def _read_built(folder: Path, schemes: Mapping[str, Scheme], models: IndexAndModelSettings) -> dict[str, PartCost]:
    with Index.open(folder, **models.opened_with(), read_only=True) as index:
        return measure_built(index, schemes.values())


def measure_built(index: Index, schemes: Iterable[Scheme]) -> dict[str, PartCost]:
    """Return the costs of the parts of schemes that an index has, and of the fit of its encoder, by label."""
    parts = {registry.label(part): part for scheme in schemes for part in index.all_parts(scheme)}
    keys = {label: index.key(part, index.pinned_encoder(part)) for label, part in parts.items()}
    records = {label: index.manifest.parts[key] for label, key in keys.items() if key in index.manifest.parts}
    measured = {label: PartCost(record.seconds, record.bytes, built=True) for label, record in records.items()}
    fit = index.fit_figures() if any("encoder" in part.uses for part in parts.values()) else None
    return measured if fit is None else measured | {fit.name: PartCost(fit.seconds, fit.bytes, built=True)}


# ---------------------------------------------------------------- the sample


def _build_sample(
    schemes: Sequence[Scheme],
    documents: Sequence[Document],
    chunking: Chunking | Literal["default"] | None,
    models: IndexAndModelSettings,
    index: Path | None,
    budget: Budget | None,
) -> dict[str, PartCost]:
    """Build schemes over a sample of the documents, and return the costs of their parts, scaled to all documents.

    Vectors of a fitted encoder are of no use to the index, whose fit is another.
    """
    drawn = _draw_sample(documents, models.seed or 0)
    factor = _count_characters(documents) / max(_count_characters(drawn), 1)
    cached = None if index is None or _label_fit(models) is not None else vector_cache_path(index)
    if cached is not None:
        cached.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        Index.open(
            Path(folder),
            encoder=models.encoder,
            language=models.language,
            chunking=chunking,
            vectors=cached,
            llm_settings=LLMSettings(budget=budget),
            create=True,
        ) as sample,
        ledger.record_calls(),
    ):
        sample.add(drawn)
        for scheme in schemes:
            sample.build(scheme)
        measured = measure_built(sample, schemes)
    return {label: PartCost(factor * cost.seconds, factor * cost.bytes) for label, cost in measured.items()}


def _draw_sample(documents: Sequence[Document], seed: int) -> list[Document]:
    """Draw documents that are not too long together; the shortest of those drawn if each alone is too long."""
    shuffled = Random(seed).sample(documents, min(SAMPLED_DOCUMENTS, len(documents)))  # noqa: S311  # no secret
    drawn, room = list[Document](), _SAMPLED_CHARACTERS
    for document in shuffled:
        if len(document.text) <= room:
            drawn.append(document)
            room -= len(document.text)
    return drawn or [min(shuffled, key=lambda document: len(document.text))]


def _count_characters(documents: Iterable[Document]) -> int:
    return sum(len(document.text) for document in documents)


def _read_sampled(folder: Path, documents: Sequence[Document], models: IndexAndModelSettings) -> dict[str, PartCost]:
    """Return the costs that an index keeps of a sample of these documents; {} if there are none."""
    try:
        value = durable_files.load_hashed_json((folder / "runs" / _KEPT).read_bytes()) or {}
    except OSError:
        return {}
    if value.get("sampled_for") != _identify_sample(documents, models):
        return {}
    return {label: PartCost(seconds, size) for label, (seconds, size) in value["parts"].items()}


def _keep_sampled(
    folder: Path, documents: Sequence[Document], models: IndexAndModelSettings, sampled: Mapping[str, PartCost]
) -> None:
    parts = {label: [cost.seconds, cost.bytes] for label, cost in sampled.items() if not cost.built}
    content = durable_files.dump_hashed_json({"sampled_for": _identify_sample(documents, models), "parts": parts})
    with suppress(OSError):  # where nothing can be written, the sample is built again
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        durable_files.write_file(folder / "runs" / _KEPT, content)


def _identify_sample(documents: Sequence[Document], models: IndexAndModelSettings) -> str:
    """Return a hash of what the scaled costs depend on."""
    encoder = registry.label(registry.encoder(models.encoder or "lsa"))
    return digest([encoder, models.language, len(documents), _count_characters(documents)])
