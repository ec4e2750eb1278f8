"""What the methods that were not compared would take: time and memory.

Building takes what `recommend` has estimated on the same index. Elsewhere it follows from measured rates of all methods
of this distribution but the quick ones, without a language model: most of it goes into encoding names, triples and
summaries, so it is estimated from the seconds that the passages' vectors took here.
docs/dev/evidence/default-methods.md says how the rates were measured.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from ragindex.index.index import Index
from ragindex.plugins import code_fingerprint
from ragindex_eval.format import many
from ragindex_eval.results.model import Comparison
from ragindex_eval.run.build_costs import read_costs
from ragindex_eval.run.plan import choose_methods, list_all
from ragindex_eval.run.settings import ALL, QUICK, IndexAndModelSettings

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
