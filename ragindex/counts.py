"""Counts, lists and quoted values in messages."""

import reprlib
from collections.abc import Sequence

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
