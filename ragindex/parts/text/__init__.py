"""Parts that are texts: passages, propositions, topics."""
