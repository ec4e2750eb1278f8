"""What building methods over a corpus takes: the one estimate of `compare` and `recommend`.

Parts that the index has count with what they took. The others are built over a sample of the documents, without a
language model, and their seconds and bytes are scaled by the length of all documents. The scaled costs are kept beside
the answers in the index, so that a sample is built once.

Building the methods that were not compared takes what `recommend` has estimated on the same index. Elsewhere it
follows from measured rates of all methods of this distribution but the quick ones, without a language model: most of it
goes into encoding names, triples and summaries, so it is estimated from the seconds that the passages' vectors took
here (measured in docs/dev/evidence/default-methods.md).
"""

import sys
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
from ragindex.plugins import code_fingerprint, registry
from ragindex.types import Chunking, Document
from ragindex_eval.format import many
from ragindex_eval.results.model import Comparison
from ragindex_eval.run.plan import choose_methods, list_all
from ragindex_eval.run.settings import ALL, QUICK, IndexAndModelSettings

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
    drawn, characters_left = list[Document](), _SAMPLED_CHARACTERS
    for document in shuffled:
        if len(document.text) <= characters_left:
            drawn.append(document)
            characters_left -= len(document.text)
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


# ---------------------------------------------------------------- methods that were not compared

_ENCODINGS = 16.4  # encoding, as a multiple of what the passages' vectors take
_SECONDS, _SECONDS_PER_PASSAGE = 30.0, 0.038
_SECONDS_PER_QUESTION, _ENCODED_QUESTIONS = 0.3, 100  # what is asked, as a multiple of what `dense` takes
_BYTES, _BYTES_OF_MODEL = (0.2e9, 0.5e6), (1.2e9, 0.5e6)  # for all passages and for each; with a local model


def describe_rest(comparisons: Sequence[Comparison], *, asks: bool, building: float | None = None) -> str:
    """Return how many methods were not compared, how to compare them, and what that takes here; "" if there are none.

    With `asks`, a language model does what the rates have rules for, so the time is unknown. `building` are the seconds
    to build them, if these were estimated for this index.
    """
    rest = list_rest()
    if not rest:
        return ""
    sentence = f"{many(len(rest), 'more method')}: --methods {ALL}"
    if asks:
        return f"{sentence}; what they ask the language model: ragindex estimate"
    seconds = sum(map(_rate_building, comparisons)) if building is None else building
    asking = sum(map(_rate_asking, comparisons))
    peak = _peak_memory()
    memory = "" if peak is None else f", and {_describe_memory(peak, comparisons)}"
    return f"{sentence}, about {format_duration(seconds)} to build, {format_duration(asking)} to ask{memory} here"


def list_rest() -> list[str]:
    """Return the names of the methods that are compared only if they are named."""
    return [name for name in list_all() if name not in QUICK]


def estimate_rest_building(models: IndexAndModelSettings, folder: Path) -> float | None:
    """Return the seconds that building the rest takes over the documents of an index; None before `recommend` ran.

    Building a sample for it takes half a minute at the end of a comparison. Plugins of others are left out: what they
    do is unknown.
    """
    schemes = {method.label: method.scheme for method in choose_methods([ALL])[0] if method.label in list_rest()}
    ours = {label: scheme for label, scheme in schemes.items() if code_fingerprint.of(type(scheme)) is None}
    with Index.open(folder, **models.opened_with(), read_only=True) as index:
        costs = read_costs(ours, tuple(index.documents), models, folder)
    return None if costs is None else costs.seconds_left(ours)


def _rate_building(comparison: Comparison) -> float:
    """Return the seconds that building the methods besides the quick ones takes over the same data, by the rates."""
    vectors = max(
        (method.parts["vectors"].seconds for method in comparison.methods if "vectors" in method.parts), default=0.0
    )
    return _SECONDS + _ENCODINGS * vectors + _SECONDS_PER_PASSAGE * (comparison.dataset.passages or 0)


def _rate_asking(comparison: Comparison) -> float:
    """Return the seconds that asking the methods besides the quick ones takes, by the rates."""
    encoded = next((method.latency.total.p50 for method in comparison.methods if method.name == "dense"), None) or 0.0
    return (_SECONDS_PER_QUESTION + _ENCODED_QUESTIONS * encoded / 1e3) * comparison.dataset.questions


def _describe_memory(used: int, comparisons: Sequence[Comparison]) -> str:
    """Return the memory, to one decimal of a GB, for the largest of the corpora."""
    passages = max(comparison.dataset.passages or 0 for comparison in comparisons)
    local = any(comparison.encoder.startswith("sentence-transformers") for comparison in comparisons)
    fixed, each = _BYTES_OF_MODEL if local else _BYTES
    return f"{(used + fixed + each * passages) / 1e9:.1f} GB of memory"


def format_duration(seconds: float) -> str:
    """Format seconds in the unit that fits: `40 s`, `9 min`, `3 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"


def _peak_memory() -> int | None:
    """Return the most memory that this process has held, in bytes; None where the system does not say."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
