"""Reports of what a command paid for requests to LLMs, encoders and rerankers, each counted once."""

from typing import Any

from ragindex._util.text import many
from ragindex.accounting.ledger import Tally


def spending_to_json(paid: Tally) -> dict[str, Any]:
    """Return the tokens, whether they are `estimated`, and the money in US dollars, None if a price is unknown."""
    spent = paid.spent
    tokens = {"input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
    return {**tokens, "estimated": spent.estimated, "money": spent.money}


def format_spending(paid: Tally) -> str | None:
    """Return what was paid in this run as a sentence, or None if nothing was paid."""
    spent, unknown = paid.spent, _list_unpriced(paid)
    tokens = spent.input_tokens + spent.output_tokens
    if not (tokens or spent.money or unknown):
        return None
    about = "about " if spent.estimated else ""
    price = f"no price is known for {' and '.join(unknown)}" if spent.money is None else f"{about}${spent.money:.6f}"
    return f"Spent: {about}{many(tokens, 'token')}, {price}."


def _list_unpriced(paid: Tally) -> list[str]:
    return sorted({entry.model for entry in paid.entries if entry.money is None and not entry.replayed})
