"""Retrievers for other frameworks, and the lines to paste into an application.

`ragindex.integrations.langchain`, `.llama_index`, `.haystack` and `.dspy` each need the package of their framework,
which is imported only by them.
"""

from ragindex.integrations.usage import FRAMEWORKS, usage_lines

__all__ = ["FRAMEWORKS", "usage_lines"]
