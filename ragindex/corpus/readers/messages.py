"""The messages between the process that parses files and the one that asks it: bytes, after their length."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from ragindex.corpus.readers.content import FileContent, ReadWords
from ragindex.types import Section

OUT_OF_MEMORY = 77
"""The exit code of a process that needed more memory than it may have."""
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """What reading one file may take: seconds, bytes of memory, and characters of what is read.

    Memory is limited on Linux, the only system that keeps such a limit.
    """

    seconds: float = 60.0
    memory: int = 2_000_000_000
    characters: int = 100_000_000


def write_messages(stream: BinaryIO, *messages: bytes) -> None:
    """Write messages. Raises OSError."""
    for message in messages:
        stream.write(len(message).to_bytes(_LENGTH_BYTES))
        stream.write(message)
    stream.flush()


def read_message(stream: BinaryIO, most_bytes: int | None = None) -> bytes | None:
    """Return the next message; None at the end, and where a message is cut off or longer than `most_bytes`."""
    head = stream.read(_LENGTH_BYTES)
    length = int.from_bytes(head)
    if len(head) < _LENGTH_BYTES or (most_bytes is not None and length > most_bytes):
        return None
    message = stream.read(length)
    return message if len(message) == length else None


def dump_json(values: Any) -> bytes:
    """Return a value as JSON, in which any string of Python can be, also one that no encoding of texts can hold."""
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass")


def load_json(message: bytes) -> Any:
    """Return the value that `dump_json` wrote."""
    return json.loads(message.decode("utf-8", "surrogatepass"))


def list_content(content: FileContent) -> dict[str, Any]:
    """Return the content of a file as values of JSON."""
    return {
        "title": content.title,
        "text": content.text,
        "sections": [[one.start, one.headings, one.page] for one in content.sections],
        "metadata": dict(content.metadata),
        "blocks": content.blocks,
        "notes": content.notes,
        "inner": [[name, list_content(inner)] for name, inner in content.inner],
        "reading": None if content.reading is None else asdict(content.reading),
    }


def make_content(values: Mapping[str, Any]) -> FileContent:
    """Return the content of a file from its values."""
    sections = (Section(start, tuple(headings), page) for start, headings, page in values["sections"])
    blocks = tuple((start, end) for start, end in values["blocks"])
    inner = tuple((name, make_content(one)) for name, one in values["inner"])
    return FileContent(
        values["title"],
        values["text"],
        tuple(sections),
        values["metadata"],
        blocks,
        tuple(values["notes"]),
        inner,
        None if values["reading"] is None else _make_reading(values["reading"]),
    )


def _make_reading(values: Mapping[str, Any]) -> ReadWords:
    return ReadWords(**{**values, "lost": tuple(values["lost"]), "places": tuple(values["places"])})
