"""The files of a folder that others may have filled: regular ones inside it, and what is passed over."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from ragindex.corpus.json_reader import Problems, unreadable_error

PassedOver: TypeAlias = Literal["links", "outside", "special", "generated"]
"""Why a walk passes over a link to a folder, a link out of the folder, a file without content, a generated folder."""
_GENERATED_FOLDERS = frozenset(("__pycache__", "node_modules", "site-packages"))


def walk_files(
    top: Path, problems: Problems, pass_over: Callable[[Path, PassedOver], None] = lambda path, why: None
) -> Iterator[Path]:
    """Yield the regular files of a folder and its subfolders, sorted by name, without hidden ones.

    `pass_over` is called with other files and with folders that are not entered. A folder that cannot be read is one of
    the problems.
    """

    def note(error: OSError) -> None:
        problems.note(unreadable_error(Path(error.filename), error))

    root = os.path.realpath(top)
    for current, folders, names in os.walk(top, onerror=note):
        entered = []
        for folder in (Path(current, name) for name in sorted(folders) if not name.startswith(".")):
            if why := _judge_folder(folder):
                pass_over(folder, why)
            else:
                entered.append(folder.name)
        folders[:] = entered
        for file in (Path(current, name) for name in sorted(names) if not name.startswith(".")):
            if why := _judge_file(file, root):
                pass_over(file, why)
            else:
                yield file


def is_file_within(file: Path, folder: Path) -> bool:
    """Return whether `file` is a regular file, and no link out of the folder."""
    return os.path.isfile(file) and _judge_file(file, os.path.realpath(folder)) is None


def _judge_folder(folder: Path) -> PassedOver | None:
    if folder.is_symlink():
        return "links"
    if folder.name in _GENERATED_FOLDERS or os.path.isfile(folder / "pyvenv.cfg"):
        return "generated"
    if folder.name == "_sources" and os.path.isdir(folder.parent / "_static"):
        return "generated"  # of HTML that Sphinx made: each page once more, as it was written
    if folder.name == "_static" and os.path.isfile(folder.parent / "search.html"):
        return "generated"  # of the same: scripts and styles of its theme
    return None


def _judge_file(file: Path, root: str) -> PassedOver | None:
    """Return why a file is passed over; None too if it is not there, which is reported when it is read."""
    try:
        mode = file.lstat().st_mode
        if stat.S_ISLNK(mode):
            target = Path(os.path.realpath(file))
            if not target.is_relative_to(root):
                return "outside"
            mode = target.stat().st_mode
    except OSError:
        return None
    return None if stat.S_ISREG(mode) else "special"
