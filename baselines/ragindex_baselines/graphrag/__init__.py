"""GraphRAG (Edge et al. 2024): local search."""
