"""Reranking: the results of any scheme, reordered by a model that reads question and passage together."""
