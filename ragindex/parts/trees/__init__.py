"""Trees of summaries and their nodes."""
