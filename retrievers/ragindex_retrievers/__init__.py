"""Retrievers from papers, one folder each."""
