"""Reader of this package's text files: a line at the margin is a head, the indented lines below it are its block."""

from collections.abc import Iterator
from pathlib import Path


def read_blocks(file: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each head with the lines of its block; empty lines and lines that begin with # are skipped."""
    head, lines = "", list[str]()
    for line in (Path(__file__).parent / file).read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            lines.append(line.strip())
        elif line and not line.startswith("#"):
            if head:
                yield head, lines
            head, lines = line, []
    yield head, lines
