"""Retrievers that leave their index: described by a small file, packed into one, and loaded again."""
