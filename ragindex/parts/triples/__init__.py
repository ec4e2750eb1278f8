"""Parts that are triples, and the files that triples are read from."""
