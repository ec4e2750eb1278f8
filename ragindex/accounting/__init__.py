"""Accounting of the time, tokens and money that a run uses."""
