"""Baselines: the retrieval methods that others are compared with."""
