"""The process that reads files: it may need too much of everything, or crash, and the process that asked goes on.

It imports the readers and little more, says that it is ready, and answers requests until its input ends. Messages
between the two are bytes, after their length.
"""

import json
import math
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from ragindex._util.ids import ROW_SUFFIXES
from ragindex.corpus.readers import OCR_READERS, READERS
from ragindex.corpus.readers.content import FileContent, ReadWords
from ragindex.corpus.readers.meter import LEAST_SHARE, describe_reading, measure
from ragindex.corpus.readers.pdf import PASSWORD_VARIABLE
from ragindex.corpus.readers.rows import Rows, read_rows, suggest_rows
from ragindex.errors import DataError, MissingExtraError, UsageError
from ragindex.types import Section

OUT_OF_MEMORY = 77
"""The exit code of a process that needed more memory than it may have."""
_LENGTH_BYTES = 8
_IDLE_SECONDS = 60
"""Seconds without a request after which the process ends."""
_SPARE_SECONDS = 5
_LEAST_SECONDS = 30.0
"""Seconds that must be left to count the words of a file: what was read must not be lost by that."""


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
        "sections": [[section.start, section.headings, section.page] for section in content.sections],
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
    inner = tuple((name, make_content(content)) for name, content in values["inner"])
    reading = None
    if words := values["reading"]:
        reading = ReadWords(**{**words, "lost": tuple(words["lost"]), "places": tuple(words["places"])})
    return FileContent(
        values["title"],
        values["text"],
        tuple(sections),
        values["metadata"],
        blocks,
        tuple(values["notes"]),
        inner,
        reading,
    )


def answer_requests() -> None:
    """Answer requests from standard input on standard output, where nothing else is written from now on."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.environ["RUST_BACKTRACE"] = "0"  # it takes seconds, and nobody could read it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the parent decides

    def answer_fault(kind: object, error: BaseException, trace: object) -> None:
        """Send what this process ends of."""
        if isinstance(error, MemoryError):
            os._exit(OUT_OF_MEMORY)  # what is left may not be enough to send it
        write_messages(answers, dump_json({"fault": f"{type(error).__name__}: {error}"}))

    sys.excepthook = answer_fault
    write_messages(answers, b"")
    while True:
        _set_alarm(_IDLE_SECONDS)
        request, raw = read_message(requests), read_message(requests)
        _set_alarm(0)
        if request is None or raw is None:
            return
        values = load_json(request)
        limits = ReadingLimits(**values.pop("limits"))
        os.environ[PASSWORD_VARIABLE] = values.pop("password")
        _limit_process(limits)
        answer = parse_file(raw, **values, limits=limits)
        if "expected" in answer and _find_peak() > limits.memory / 2:
            os._exit(OUT_OF_MEMORY)  # libraries call a file damaged when they get no memory for it
        write_messages(answers, dump_json(answer))


def parse_file(
    raw: bytes,
    path: str,
    suffix: str,
    encoding: str | None,
    limits: ReadingLimits,
    ocr: bool = False,
    rows: dict[str, Any] | None = None,
    measured: bool = True,
) -> dict[str, Any]:
    """Return the content of a file, or why there is none, as values of JSON; also which share of it that is.

    `rows` are the fields of `Rows`.
    """
    start = time.monotonic()
    try:
        content = _read_content(raw, Path(path), suffix, encoding, ocr, rows)
    except DataError as error:
        return {"expected": error.expected, "found": error.found, "line": error.line}
    except MissingExtraError as error:
        got = f"none: {error}".removesuffix(".")
        return {"expected": f"an installed reader of {suffix} files", "found": got, "line": None}
    except UsageError as error:
        return {"usage": str(error)}
    characters = _count_characters(content)
    if characters > limits.characters:
        return {"characters": characters}
    left = limits.seconds - (time.monotonic() - start)
    if measured and rows is None and left > _LEAST_SECONDS:
        reading = measure(raw, suffix, content)
        lost = [describe_reading(reading)] if reading is not None and reading.share < LEAST_SHARE else []
        content = replace(content, notes=(*content.notes, *lost), reading=reading)
    return list_content(content)


def _read_content(
    raw: bytes, path: Path, suffix: str, encoding: str | None, ocr: bool, rows: dict[str, Any] | None
) -> FileContent:
    if suffix not in ROW_SUFFIXES:
        return (OCR_READERS if ocr else READERS)[suffix](raw, path, encoding)
    if rows is not None:
        return read_rows(raw, path, suffix, encoding, Rows(**rows))
    content = READERS[suffix](raw, path, encoding)
    suggested = suggest_rows(raw, path, suffix, encoding)
    return replace(content, notes=(*content.notes, suggested)) if suggested else content


def _count_characters(content: FileContent) -> int:
    headings = sum(len(heading) for section in content.sections for heading in section.headings)
    return len(content.text) + headings + sum(_count_characters(inner) for _, inner in content.inner)


def _set_alarm(seconds: int) -> None:
    """Let the system end this process after so many seconds (0: never), where it can."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _limit_process(limits: ReadingLimits) -> None:
    """Limit memory and time of this process, where the system can.

    Time is the parent's to measure; a process that no parent ends any more has this limit too.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = math.ceil(time.process_time() + limits.seconds) + _SPARE_SECONDS
    _lower_limit(resource, resource.RLIMIT_CPU, seconds)
    if sys.platform == "linux":  # elsewhere it is not kept, or the libraries alone are above it
        _lower_limit(resource, resource.RLIMIT_AS, limits.memory)


def _find_peak() -> int:
    """Return the most bytes of address space that this process had; 0 where the system does not report it."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmPeak:")), "0")
    return 1024 * int(peak)


def _lower_limit(resource: Any, kind: int, limit: int) -> None:
    _, most = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))
