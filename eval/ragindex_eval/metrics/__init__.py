"""Metrics of rankings, answers and trees, and the scores of a method."""
