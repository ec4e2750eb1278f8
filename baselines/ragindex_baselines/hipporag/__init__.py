"""HippoRAG: personalised PageRank over a graph of phrases, from what a question names."""
