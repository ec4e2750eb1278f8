"""Comparison runs: retrieval, timing, scoring and conclusions."""
