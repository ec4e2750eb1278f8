"""Retrievers for other frameworks.

`ragindex.integrations.langchain`, `.llama_index`, `.haystack` and `.dspy` each need the package of their framework,
which is imported only by them. `ragindex use` prints the lines to paste into an application.
"""
