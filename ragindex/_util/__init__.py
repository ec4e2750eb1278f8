"""Helpers of the other packages: files, HTTP, processes, texts of messages, progress. Not for plugins' use."""
