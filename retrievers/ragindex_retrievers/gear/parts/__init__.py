"""The part of GeAR: the graph of triples."""
