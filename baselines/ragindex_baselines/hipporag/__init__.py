"""HippoRAG: a walk from what a question names over the graph of phrases."""
