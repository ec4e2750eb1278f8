"""Data sets: corpora, questions and gold; made-up worlds; drafted questions."""
