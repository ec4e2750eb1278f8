"""The parts of HippoRAG: the graph of phrases and passages, and vectors spread over it."""
