"""Running comparisons: ask, time, score, and put together."""
