"""Build alternative retrieval schemes over one corpus and compare them."""
