"""Links: passages that the best ones mention by name, or that mention them."""
