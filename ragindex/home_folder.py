"""Paths that begin with `~`, the user's home folder, which a shell does not expand everywhere and Python nowhere."""

from pathlib import Path


def expand_home(path: Path | str) -> Path:
    """Return a path in which `~` at the start, by itself or before a slash, is the user's home folder."""
    written = str(path)
    return Path(path).expanduser() if written == "~" or written.startswith("~/") else Path(path)
