"""Exact search in memory over the records of a collection."""
