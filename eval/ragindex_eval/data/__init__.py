"""Data sets: corpora with questions and gold, synthetic worlds, and drafted questions."""
