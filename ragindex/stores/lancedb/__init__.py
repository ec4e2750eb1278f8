"""LanceDB, the embedded engine."""
