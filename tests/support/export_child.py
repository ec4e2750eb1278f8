"""Export methods, each in a fork that dies by SIGKILL before the file operation with a number, beside the export.

Run as export_child.py INDEX, it reads lines of JSON, [METHOD, OUT, "pack" or "folder", NUMBER], and prints the exit
code of each fork. Forks import nothing again; nothing that is imported here starts a thread.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import ragindex
import ragindex.export.export_retriever  # imported before the forks

OPERATIONS = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "shutil.rmtree", "shutil.copytree")


def die_before(number: int, beside: Path) -> None:
    """Count operations below `beside` that change something, and die before the one with this number.

    The files of an index that is copied into the folder of unfinished work count as one.
    """
    count = 0

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        places = [str(argument) for argument in args[:2]]
        copied = any(".partial/index/" in place for place in places)
        if (writes or event in OPERATIONS) and not copied and any(str(beside) in place for place in places):
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def export(folder: str, method: str, out: str, form: str, number: int) -> None:
    with ragindex.open(folder, read_only=True) as index:
        die_before(number, Path(out).parent)
        index.export(method, out, pack=form == "pack")


if __name__ == "__main__":
    with ragindex.open(sys.argv[1], read_only=True):
        """Imports what opens it."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            export(sys.argv[1], *json.loads(line))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
