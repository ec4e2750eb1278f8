"""Report section on the agreement of methods: the overlap of the documents of their first k hits, without gold."""

from dataclasses import dataclass

from ragindex_eval.conclusions import leaders as conclusions
from ragindex_eval.results.model import Comparison


@dataclass(frozen=True, slots=True)
class Agreement:
    """Matrix of overlaps: `rows` in percent, "" on the diagonal and if unknown; `shades` from 0 to 10."""

    k: int
    labels: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    shades: tuple[tuple[int, ...], ...]


def render_agreement(comparison: Comparison) -> Agreement | None:
    """Make the matrix of overlaps; None if no two methods can be compared."""
    k = comparison.ks[0]
    known = conclusions.agreement(comparison, k)
    both = {**known, **{(b, a): value for (a, b), value in known.items()}}
    labels = tuple(method.label for method in comparison.methods)
    if not both:
        return None
    rows = tuple(tuple(f"{100 * both[a, b]:.0f}" if (a, b) in both else "" for b in labels) for a in labels)
    shades = tuple(tuple(round(10 * both.get((a, b), 0.0)) for b in labels) for a in labels)
    return Agreement(k, labels, rows, shades)
