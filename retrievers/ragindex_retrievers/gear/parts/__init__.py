"""The index part of GeAR: the graph of triples."""
