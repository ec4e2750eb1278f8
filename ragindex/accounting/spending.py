"""What a command paid: requests to LLMs, encoders and rerankers, each counted once."""

from typing import Any

from ragindex.accounting.ledger import Tally


def spending_to_json(paid: Tally) -> dict[str, Any]:
    """`{"input_tokens", "output_tokens", "money"}`, in dollars; money is null where a price is not known."""
    spent = paid.spent
    return {"input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens, "money": spent.money}


def format_spending(paid: Tally) -> str | None:
    """Return what was paid now as a sentence; None if nothing was."""
    spent, unknown = paid.spent, _without_price(paid)
    tokens = spent.input_tokens + spent.output_tokens
    if not (tokens or spent.money or unknown):
        return None
    price = f"no price is known for {' and '.join(unknown)}" if spent.money is None else f"${spent.money:.6f}"
    return f"Spent: {tokens:,} tokens, {price}."


def _without_price(paid: Tally) -> list[str]:
    return sorted({entry.model for entry in paid.entries if entry.money is None and not entry.replayed})
