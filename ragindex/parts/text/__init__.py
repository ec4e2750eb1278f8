"""Parts that hold texts: passages, propositions, topics."""
