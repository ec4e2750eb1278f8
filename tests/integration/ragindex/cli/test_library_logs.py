"""What libraries log while a command reads files is not among its own words; our own warnings are."""

import logging

from ragindex._util.library_logs import show_own_logs


def warn(number: int) -> int:
    logging.getLogger("pypdf._reader").warning("a library's words")
    logging.getLogger("ragindex.corpus").warning("our words")
    return number


def test_our_warnings_are_shown_and_those_of_libraries_are_not() -> None:
    shown = list[str]()
    with show_own_logs(shown.append):
        warn(1)
    assert shown == ["our words"]
    warn(1)
    assert shown == ["our words"]
