"""What parts share."""
