"""Helpers for retrievers: hits, rank fusion, traces."""
