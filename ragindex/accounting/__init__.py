"""What work takes: time, tokens, money."""
