"""Parts that hold triples, and the files that triples are imported from."""
