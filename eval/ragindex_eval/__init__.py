"""Comparing retrievers: data sets, metrics, runs, tracking, reports."""
