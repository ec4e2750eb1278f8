"""The command `ragindex`. It handles Ctrl-C while the command line is still being imported."""

import os
import signal
from typing import NoReturn


def main() -> None:
    """Import and run the command line. Ctrl-C during the import exits with code 130 and one line."""
    signal.signal(signal.SIGINT, _stop)  # a KeyboardInterrupt can get lost in a library that is being imported
    from ragindex.cli import main as cli

    cli.run_cli()


def _stop(*signal: object) -> NoReturn:
    """Exit immediately; nothing is open yet that needs closing."""
    os.write(2, b"Stopped.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
