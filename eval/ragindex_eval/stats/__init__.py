"""Statistics of scores by question: numpy arrays in, numbers out; for any program (docs/explanation/statistics.md)."""
