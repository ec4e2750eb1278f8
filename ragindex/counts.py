"""Counts in messages."""


def many(count: int, what: str) -> str:
    """Format a count with its noun: `1 question`, `1,200 questions`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
