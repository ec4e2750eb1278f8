"""What the readers of PDF and Office files share: the faults and the texts of the libraries that they call."""

import regex

from ragindex.corpus.readers.content import clean_text

FAULTS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError)
"""What the libraries may raise for a damaged file, in addition to their own errors."""
_IN_MEMORY = regex.compile(r"'?<_io\.BytesIO object at 0x[0-9a-f]+>'? ?")


def describe_fault(error: Exception) -> str:
    """Return a library's message on one line, without the address of the file in memory, which differs each time."""
    return " ".join(_IN_MEMORY.sub("", str(error)).split())[:200].rstrip(".") or type(error).__name__


def clean_library_text(text: str) -> str:
    r"""Return a text with \n as newline, as UTF-8 can hold it."""
    return clean_text(text).replace("\v", "\n").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
