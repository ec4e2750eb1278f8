"""What the methods that were not compared would take: time and memory, from measured rates.

The rates are of all methods of this distribution but the quick ones, without a language model. Most of their time goes
into encoding names, triples and summaries, so it is told from the seconds that the passages' vectors took here.
docs/comparing.md says how the rates were measured.
"""

import sys
from collections.abc import Sequence

from ragindex.plugins import registry
from ragindex_eval.format import many
from ragindex_eval.results.model import Comparison
from ragindex_eval.run.methods import ALL, QUICK

_ENCODINGS = 16.0  # encoding, as a multiple of what the passages' vectors take
_SECONDS, _SECONDS_PER_PASSAGE, _SECONDS_PER_QUESTION = 20.0, 0.03, 1.5
_BYTES, _BYTES_PER_PASSAGE = 4e8, 2e6


def describe_rest(comparisons: Sequence[Comparison], *, asks: bool) -> str:
    """Return how many methods were not compared, how to compare them, and what that takes here; "" if there are none.

    With `asks`, a language model does what the rates have rules for, so the time is unknown.
    """
    rest = [name for name in registry.plugin_names("schemes") if name not in QUICK]
    if not rest:
        return ""
    said = f"{many(len(rest), 'more method')}: --methods {ALL}"
    if asks:
        return f"{said}; what they ask the language model: ragindex estimate"
    passages = max(comparison.dataset.passages for comparison in comparisons)
    seconds = sum(map(estimate_seconds, comparisons))
    held = _peak_memory()
    memory = "" if held is None else f" and {(held + _BYTES + _BYTES_PER_PASSAGE * passages) / 1e9:.1f} GB of memory"
    return f"{said}, about {format_time(seconds)}{memory} here"


def estimate_seconds(comparison: Comparison) -> float:
    """Return the seconds that the methods besides the quick ones would take over the same data."""
    data = comparison.dataset
    parts = {name: part.seconds for method in comparison.methods for name, part in method.parts.items()}
    encoding = _ENCODINGS * parts.get("vectors", 0.0)
    return encoding + _SECONDS + _SECONDS_PER_PASSAGE * data.passages + _SECONDS_PER_QUESTION * data.questions


def format_time(seconds: float) -> str:
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
