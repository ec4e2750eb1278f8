"""Parts that hold vectors, and the code they share."""
