"""Exact search in memory, over the records of any store."""
