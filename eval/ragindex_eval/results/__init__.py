"""The results of a comparison: frozen values."""
