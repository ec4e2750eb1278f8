"""Helpers that several parts share."""
