"""Metrics of rankings, answers and trees."""
