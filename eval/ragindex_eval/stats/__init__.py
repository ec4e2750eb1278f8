"""Statistics of scores by question: numpy arrays in, numbers out; for use by any program (docs/statistics.md)."""
