"""The command `ragindex`, from its first moment: imports take a second, and Ctrl-C may come before they are done."""

import os
import signal
from typing import NoReturn


def main() -> None:
    """Import the command line and run it. Ctrl-C meanwhile ends the process in one line, with exit code 130."""
    signal.signal(signal.SIGINT, _stop)  # a KeyboardInterrupt can get lost in a library that is being imported
    from ragindex.cli import main as cli

    cli.main()


def _stop(*signal: object) -> NoReturn:
    """There is nothing yet to be kept or cleaned up."""
    os.write(2, b"Stopped.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
