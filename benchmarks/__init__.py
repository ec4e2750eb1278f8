"""Measurements of speed, scale and quality. Run by hand: `make bench`. Never a timed assertion in a test."""
