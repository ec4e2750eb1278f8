"""The index part of links: the names of passages, and the places where other names may stand."""
