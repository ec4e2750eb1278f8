"""Counts in messages."""


def many(count: int, what: str, plural: str = "") -> str:
    """Format a count with its noun: `1 question`, `1,200 questions`. Default of `plural`: `what` with an s."""
    return f"{count:,} {what if count == 1 else plural or f'{what}s'}"
