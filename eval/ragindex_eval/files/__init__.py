"""The files of a study: written, and read back."""
