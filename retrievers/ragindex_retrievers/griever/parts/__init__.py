"""The index parts of GRIEVER: partial triples, name vectors, aliases, and passages with their triples."""
