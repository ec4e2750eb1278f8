"""The results of a comparison as frozen values, and their files."""
