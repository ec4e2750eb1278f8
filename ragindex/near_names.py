"""Suggestions for misspelled names."""

from collections.abc import Iterable
from difflib import SequenceMatcher

_NEAR = 0.65
"""The least similarity of a suggestion, which is the share of matching characters (`SequenceMatcher.ratio`)."""
_MARGIN = 0.1
"""A name less similar than the best by more than this is not suggested beside it."""
_MOST = 3


def find_near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that are near to a misspelled one, nearest first: similar or begun by it."""
    ratios = {other: _compare(name, other) for other in known}
    least = max(_NEAR, max(ratios.values(), default=0.0) - _MARGIN)
    return sorted((other for other in ratios if ratios[other] >= least), key=lambda other: (-ratios[other], other))[
        :_MOST
    ]


def suggest_names(name: str, known: Iterable[str]) -> str:
    """Return `Did you mean hybrid?` if known names are near, else `Available: …` with all of them."""
    names = list(known)
    near = find_near_names(name, names)
    return f"Did you mean {' or '.join(near)}?" if near else f"Available: {', '.join(names) or 'none'}."


def _compare(name: str, other: str) -> float:
    a, b = name.casefold(), other.casefold()
    return max(SequenceMatcher(None, a, b).ratio(), _NEAR if len(a) > 1 and b.startswith(a) else 0.0)
