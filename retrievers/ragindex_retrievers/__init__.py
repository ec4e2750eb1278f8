"""Retrievers from papers, one folder per paper."""
