"""Opening of regular files alone: a named pipe would be waited for, a device has no end, a link leads elsewhere."""

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, and no link, for reading. Raises OSError."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) or path.is_symlink():
        os.close(descriptor)
        raise OSError(None, "it is no regular file", str(path))
    return os.fdopen(descriptor, "rb")
