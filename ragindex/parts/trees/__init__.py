"""Parts that hold trees of summaries, and their nodes."""
