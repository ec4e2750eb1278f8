"""Paths that begin with `~`, the user's home folder, which a shell does not expand everywhere and Python nowhere."""

from pathlib import Path


def expand_home(path: Path | str) -> Path:
    """Return a path in which `~` at the start, by itself or before a slash, is the user's home folder.

    A folder that is called `~` is written as `./~`, and returned from the root, so that a second call changes nothing.
    """
    written, named = str(path), Path(path)
    if written == "~" or written.startswith("~/"):
        return named.expanduser()
    return named.absolute() if str(named) == "~" or str(named).startswith("~/") else named
