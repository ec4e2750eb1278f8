"""Reranking: what any scheme found, put in another order by a model that reads question and passage together."""
