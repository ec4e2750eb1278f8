"""Elasticsearch, for corpora that outgrow one machine."""
