"""An index that all tests open."""

from made_library import library, opened, searching

__all__ = ["library", "opened", "searching"]
