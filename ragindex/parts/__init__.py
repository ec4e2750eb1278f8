"""Parts that more than one scheme uses."""
