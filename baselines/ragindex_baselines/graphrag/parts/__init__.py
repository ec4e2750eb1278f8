"""The parts of GraphRAG: the entity graph, and communities with reports."""
