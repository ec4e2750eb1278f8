"""Engines that hold collections."""
