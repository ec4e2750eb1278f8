"""LLM clients, tasks, caching and budgets, and rules that do the same tasks without an LLM."""
