"""Counts and lists in messages."""

from collections.abc import Sequence

MAX_NAMED = 5
"""Largest number of names that a message lists."""


def many(count: int, what: str, plural: str = "") -> str:
    """Format a count with its noun: `1 question`, `1,200 questions`. Default of `plural`: `what` with an s."""
    return f"{count:,} {what if count == 1 else plural or f'{what}s'}"


def first_names(names: Sequence[str]) -> str:
    """Join the first MAX_NAMED names, with an ellipsis if there are more."""
    return ", ".join([*names[:MAX_NAMED], *(["…"] if len(names) > MAX_NAMED else [])])
