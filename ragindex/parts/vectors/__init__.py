"""Parts that are vectors."""
