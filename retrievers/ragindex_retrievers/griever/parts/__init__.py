"""The parts of GRIEVER: partial triples, vectors of names, aliases, passages with their triples."""
