"""Export a method, and die by SIGKILL before the file operation with a number, of those beside the export.

Run as: export_child.py INDEX METHOD OUT pack|folder NUMBER
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import ragindex

OPERATIONS = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "shutil.rmtree", "shutil.copytree")


def die_before(number: int, beside: Path) -> None:
    """Count operations below `beside` that change something, and die before the one with this number."""
    count = 0

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (writes or event in OPERATIONS) and any(str(beside) in str(one) for one in args[:2]):
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


if __name__ == "__main__":
    index_folder, method, out, form, number = sys.argv[1:]
    with ragindex.open(index_folder, read_only=True) as index:
        die_before(int(number), Path(out).parent)
        index.export(method, out, pack=form == "pack")
