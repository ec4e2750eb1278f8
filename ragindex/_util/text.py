"""Texts of messages: counts, lists, quoted values, and names that were meant."""

import os
import reprlib
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path

MAX_NAMED = 5
"""Largest number of names that a message lists."""
_QUOTED = reprlib.Repr()
_QUOTED.maxstring = _QUOTED.maxother = _QUOTED.maxlong = 200


def many(count: int, what: str, plural: str = "") -> str:
    """Format a count with its noun: `1 question`, `1,200 questions`. Default of `plural`: `what` with an s."""
    return f"{count:,} {what if count == 1 else plural or f'{what}s'}"


def first_names(names: Sequence[str]) -> str:
    """Join the first MAX_NAMED names, with an ellipsis if there are more."""
    return ", ".join([*names[:MAX_NAMED], *(["…"] if len(names) > MAX_NAMED else [])])


def quote_value(value: object) -> str:
    """Return a value as Python writes it, of bounded length: in a message, a client may have sent it.

    >>> quote_value(["tea"]), len(quote_value("x" * 1_000_000))
    ("['tea']", 200)
    """
    return _QUOTED.repr(value)


_NEAR = 0.65
"""The least similarity of a suggestion, which is the share of matching characters (`SequenceMatcher.ratio`)."""
_MARGIN = 0.1
"""A name less similar than the best by more than this is not suggested beside it."""
MOST_NEAR = 3
"""Suggestions at most."""
NAMES_COMPARED = 10_000
"""Names that one is compared with at most, where there may be many."""


def find_near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that are near to a misspelled one, nearest first: similar or begun by it."""
    ratios = {other: _compare(name, other) for other in known}
    least = max(_NEAR, max(ratios.values(), default=0.0) - _MARGIN)
    return sorted((other for other in ratios if ratios[other] >= least), key=lambda other: (-ratios[other], other))[
        :MOST_NEAR
    ]


def suggest_names(name: str, known: Iterable[str]) -> str:
    """Return `Did you mean hybrid?` if known names are near, else `Available: …` with all of them."""
    names = list(known)
    near = find_near_names(name, names)
    return f"Did you mean {' or '.join(near)}?" if near else f"Available: {', '.join(names) or 'none'}."


def require_known_options(function: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError, with names that are near, for a keyword that a function with typed options does not have."""
    names = list(known)
    for name in options:
        if name not in names:
            raise TypeError(f"{function} has no option {name!r}. {suggest_names(name, names)}")


def describe_near(names: Sequence[str]) -> str:
    """Return `near it is 'hill.md'` for an error message, or `near it are …` for several names; "" for none."""
    return f"near it {'is' if len(names) == 1 else 'are'} {', '.join(map(repr, names))}" if names else ""


def find_near_paths(path: Path) -> list[str]:
    """Return the names of files and folders beside a path that does not exist, near to its name."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, NAMES_COMPARED)]
    except (OSError, ValueError):  # a folder that does not exist or must not be read, an impossible name
        return []
    return find_near_names(path.name, names)


def _compare(name: str, other: str) -> float:
    """Return the similarity; 0 if it is less than _NEAR, which upper bounds of it show at once for most names."""
    a, b = name.casefold(), other.casefold()
    bonus = _NEAR if len(a) > 1 and b.startswith(a) else 0.0
    matcher = SequenceMatcher(None, a, b)
    if matcher.real_quick_ratio() < _NEAR or matcher.quick_ratio() < _NEAR:
        return bonus
    return max(matcher.ratio(), bonus)
