"""Encoders, which convert texts to vectors, and their cache."""
