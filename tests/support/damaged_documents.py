"""Files of documents that are damaged at random, and whether reading them keeps what it promises.

    PYTHONPATH=tests/support python -m damaged_documents FOLDER [--minutes 60] [--seed 0] [--files 100]

reads damaged copies of the files of a folder, at any depth, one of each format in turn, until the time is over. It
prints each fault with the seed that makes the copy again (`damage(raw, suffix, seed)`), then how the copies of each
format ended. A fault is a crash, a hang, an error that no reader expects, or a place that is not in the text.
"""

import argparse
import io
import os
import resource
import struct
import sys
import time
import warnings
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TypeAlias

from ragindex.corpus.readers import READERS, FileContent
from ragindex.corpus.readers.process import ReadingLimits, parse_file
from ragindex.corpus.reading_processes import ReadingProcesses
from ragindex.errors import DataError

Damage: TypeAlias = Callable[[bytes, Random], bytes]
ARCHIVES = (
    *(".docx", ".docm", ".pptx", ".pptm", ".ppsx", ".xlsx", ".xlsm", ".xlsb"),
    *(".odt", ".odp", ".ods", ".epub"),
)
SLOW_SECONDS = 10.0
"""Seconds after which a copy is reported, although reading it has a limit."""
_MOST_BYTES = 10_000_000  # of what is repeated
_MANY = (30, 300, 3_000, 30_000)  # how often hostile markup is repeated
_NESTED = (
    *("<div>", "<b>", "<table><tr><td>", "<ul><li>", "<blockquote>", "<select>", "<svg>", "<a href=x>", "<!--"),
    *("[", "![", "[a](", "> ", "- ", "*", "_a_*", "`", "~~", "<a ", "| ", "((", "\n  ", "\n> 1. ", "|a\n|-\n"),
    *(":a:`", "``", "\n.. note::\n\n  ", "\n* ", "\n| ", "*|", "{{", "\\begin{tabular}", "\\section{", "=" * 7 + "\n"),
    *("[[", '{"a":', '"', ",", ";", "\t", "--B\n", "Content-Type: multipart/mixed; boundary=B\n\n--B\n", "From a\n"),
    *(
        "=?utf-8?q?",
        "<<",
        "0 0 obj ",
        "\x1b[1m",
        "\r",
        "\x00",
        "&amp;",
        "&#x110000;",
        "]]>",
        "<x:y>",
        "\ufdd0",
        "\u202e",
    ),
)


def _repeat(part: bytes, count: int) -> bytes:
    return part * max(1, min(count, _MOST_BYTES // max(1, len(part))))


def flip_bytes(raw: bytes, random: Random) -> bytes:
    """Change some bytes, a few or one in a hundred."""
    content = bytearray(raw)
    for _ in range(random.choice((1, 3, 10, 1 + len(raw) // 100))):
        if content:
            content[random.randrange(len(content))] = random.randrange(256)
    return bytes(content)


def truncate(raw: bytes, random: Random) -> bytes:
    """Keep the first bytes."""
    return raw[: random.randrange(len(raw) + 1)]


def move_part(raw: bytes, random: Random) -> bytes:
    """Remove, repeat or move a part."""
    start, end, place = sorted(random.randrange(len(raw) + 1) for _ in range(3))
    part = raw[start:end]
    return random.choice(
        (
            raw[:start] + raw[end:],
            raw[:end] + _repeat(part, random.choice(_MANY[:2])) + raw[end:place],
            raw[end:] + part,
        )
    )


def insert_markup(raw: bytes, random: Random) -> bytes:
    """Insert markup that is nested or repeated and never closed, or an attribute that is huge."""
    place, count = random.randrange(len(raw) + 1), random.choice(_MANY)
    nested = random.choice(_NESTED) * count
    if random.random() < 0.2:
        nested = f'<p {random.choice(("id", "class", "style", "href"))}="{nested.replace(chr(34), "")}'
    return raw[:place] + nested.encode() + raw[place:]


def change_numbers(raw: bytes, random: Random) -> bytes:
    """Replace digits by others, which are sizes and references in PDF and XML."""
    content = bytearray(raw)
    places = [place for place, byte in enumerate(raw[:2_000_000]) if byte in b"0123456789"]
    for place in random.sample(places, min(len(places), random.choice((1, 5, 50)))):
        content[place] = random.choice(b"0123456789-")
    return bytes(content)


def nest_element(raw: bytes, random: Random) -> bytes:
    """Let an element of XML stand inside of itself many times."""
    start = raw.find(b"<", random.randrange(len(raw) + 1))
    end = raw.find(b">", start)
    if start < 0 or end < 0 or raw[start + 1 : start + 2] in (b"/", b"?", b"!"):
        return insert_markup(raw, random)
    count, tag = random.choice(_MANY), raw[start : end + 1]
    name = tag[1:-1].split()[0].rstrip(b"/") if tag[1:-1].split() else b"a"
    return raw[:start] + _repeat(tag.replace(b"/>", b">"), count) + b"a" + _repeat(b"</%s>" % name, count) + raw[start:]


FLAT: Sequence[Damage] = (flip_bytes, truncate, move_part, insert_markup, change_numbers, nest_element)


def damage_archive(raw: bytes, random: Random) -> bytes:
    """Damage what is in an archive: entries are swapped, repeated, removed, damaged themselves, or of false size."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, RuntimeError, NotImplementedError):
        return flip_bytes(raw, random)
    texts = [at for at, (name, _) in enumerate(entries) if name.endswith((".xml", ".rels", ".html", ".xhtml", ".opf"))]
    at, other = (random.choice(texts) if texts else 0 for _ in range(2))
    if not texts:
        return flip_bytes(raw, random)
    kind = random.choice(("damage", "damage", "damage", "swap", "repeat", "remove", "size"))
    (name, content), (other_name, other_content) = entries[at], entries[other]
    if kind == "damage":
        entries[at] = name, random.choice(FLAT)(content, random)
    elif kind == "swap":
        entries[at], entries[other] = (name, other_content), (other_name, content)
    elif kind == "repeat":
        entries += [(name, random.choice(FLAT)(content, random))] * random.choice((1, 3))
    elif kind == "remove":
        del entries[at]
    written = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # entries of one name are the damage
        for entry, data in entries:
            info = zipfile.ZipInfo(entry)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return _falsify_size(written.getvalue(), random) if kind == "size" else written.getvalue()


def _falsify_size(archive: bytes, random: Random) -> bytes:
    """Write another size of what is packed into an entry of the directory, and another checksum."""
    content, places = bytearray(archive), [-1]
    while (place := archive.find(b"PK\x01\x02", places[-1] + 1)) >= 0:
        places.append(place)
    for place in random.sample(places[1:], min(3, len(places) - 1)):
        size = random.choice((0, 1, 2**16, 2**31, 2**32 - 1, random.randrange(2**32)))
        struct.pack_into("<I", content, place + random.choice((16, 20, 24)), size)
    return bytes(content)


def damage(raw: bytes, suffix: str, seed: str) -> bytes:
    """Return a damaged copy of a file, the same one for the same seed."""
    random = Random(seed)
    if suffix in ARCHIVES and random.random() < 0.7:
        return damage_archive(raw, random)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        raw = random.choice(FLAT)(raw, random)
    return raw


def find_false_places(content: FileContent) -> str:
    """Return which places are not in the text or not in order; "" if all are as they should be."""
    size, starts = len(content.text), [section.start for section in content.sections]
    if starts != sorted(starts) or any(not 0 <= start <= size for start in starts):
        return f"sections at {starts[:20]} in {size} characters"
    if any(not 0 <= start < end <= size for start, end in content.blocks):
        return f"blocks {content.blocks[:20]} in {size} characters"
    if any(end > start for (_, end), (start, _) in pairwise(content.blocks)):
        return f"blocks that overlap: {content.blocks[:20]}"
    return next(filter(None, (find_false_places(inner) for _, inner in content.inner)), "")


def read_damaged(raw: bytes, suffix: str, processes: ReadingProcesses, limits: ReadingLimits) -> tuple[str, str]:
    """Return how reading ended (`read`, `refused` or the kind of fault), and what is to be said of it."""
    start = time.monotonic()
    try:
        fault = find_false_places(processes.read(raw, Path(f"file{suffix}"), suffix, None, limits))
        outcome, detail = ("place", fault) if fault else ("read", "")
    except DataError as error:
        detail = f"expected {error.expected}, found {error.found}"
        outcome = next((kind for kind, words in FAULTS.items() if any(word in detail for word in words)), "refused")
    if outcome == "hang" or (outcome in ENDS and time.monotonic() - start > SLOW_SECONDS):  # or others were busy
        seconds = measure_processor_time(raw, suffix, limits)
        outcome = "hang" if seconds >= limits.seconds else "slow" if seconds > SLOW_SECONDS else "read"
        detail = f"{seconds:.1f} s of the processor"
    return outcome, detail


def measure_processor_time(raw: bytes, suffix: str, limits: ReadingLimits) -> float:
    """Return the seconds of the processor that reading a file takes in a process of its own, within the limits."""
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (int(limits.seconds), int(limits.seconds)))
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
        with suppress(BaseException):
            parse_file(raw, f"file{suffix}", suffix, None, limits)
        os._exit(0)
    usage = os.wait4(child, 0)[2]
    return usage.ru_utime + usage.ru_stime


ENDS = ("read", "refused")
"""How reading a damaged file may end."""
FAULTS: Mapping[str, Sequence[str]] = {
    "crash": ("crashes it (",),
    "memory": ("of memory",),
    "hang": ("one that takes longer",),
    "error": ("one on which it fails",),
}
"""Words of the errors that name a fault of a reader, which the process around it bounds."""


def run(folder: Path, seed: int, minutes: float, most_files: int) -> int:
    """Read damaged copies until the time is over, print what came of it, and return the number of faults."""
    files = defaultdict[str, list[Path]](list)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix.lower() in READERS:
            files[path.suffix.lower()].append(path)
    for paths in files.values():
        Random(seed).shuffle(paths)
    outcomes, seconds = defaultdict[str, Counter[str]](Counter), Counter[str]()
    end, turn = time.monotonic() + 60 * minutes, 0
    with ReadingProcesses() as processes:
        while time.monotonic() < end:
            for suffix, paths in files.items():
                path = paths[turn % min(len(paths), most_files)]
                copy_seed, start = f"{seed}/{turn}", time.monotonic()
                copy = damage(path.read_bytes(), suffix, copy_seed)
                outcome, detail = read_damaged(copy, suffix, processes, ReadingLimits())
                outcomes[suffix][outcome] += 1
                seconds[suffix] += time.monotonic() - start
                if outcome not in ENDS:
                    print(f"{outcome}\t{path.relative_to(folder)}\t{copy_seed}\t{detail}", flush=True)
            turn += 1
    names = (*ENDS, "slow", "place", *FAULTS)
    print(f"| format | files | copies | {' | '.join(names)} | ms a copy |\n|{'---|' * (len(names) + 4)}")
    for suffix, counts in outcomes.items():
        cells = [suffix, min(len(files[suffix]), most_files), counts.total(), *(counts[name] for name in names)]
        print(f"| {' | '.join(map(str, cells))} | {1000 * seconds[suffix] / counts.total():.0f} |")
    return sum(count for counts in outcomes.values() for name, count in counts.items() if name not in ENDS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=int, default=100)
    options = parser.parse_args()
    sys.exit(run(options.folder, options.seed, options.minutes, options.files) > 0)
