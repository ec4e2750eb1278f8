"""Log messages of libraries kept off standard error, where commands print their own."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ragindex.plugins.code_fingerprint import OURS


class _Show(logging.Handler):
    """Handler that passes the text of a message on."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.show = show

    def emit(self, record: logging.LogRecord) -> None:
        """Show the message."""
        self.show(record.getMessage())


@contextmanager
def show_own_logs(show: Callable[[str], None]) -> Iterator[None]:
    """Call `show` with our warnings that are logged in the block; print none of a library.

    Where the root logger has no handler, Python prints every library's warnings on standard error: a PDF's reader says
    "EOF marker not found" and not of which file, which our own message names. Handlers that the program has set up are
    called as before.
    """
    none, own = logging.NullHandler(), _Show(show)
    handlers = [(logging.getLogger(), none), *((logging.getLogger(name), own) for name in OURS)]
    for logger, handler in handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, handler in handlers:
            logger.removeHandler(handler)
