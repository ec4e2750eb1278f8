"""An index whose files are to be damaged, the ways to damage them, and what came of it."""

import re
import shlex
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from command_line import ragindex
from made_extractions import openie, spelt

from ragindex._util.durable_files import RepairWarning
from ragindex.errors import RagindexError
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Query

DOCUMENTS = (
    spelt("star", "The North Star|published by|Frederick Douglass", "The North Star|is an|abolitionist newspaper"),
    spelt("helen", "Frederick Douglass|spouse|Helen Pitts Douglass", "Helen Pitts Douglass|born in|Honeoye"),
    spelt("rose", "Rosetta Sprague|married|Nathan Sprague"),
    spelt("press", "The Liberator|is an|abolitionist newspaper"),
    spelt("sky", "Polaris|also known as|The North Star", "Polaris|lies in|Ursa Minor"),
)
MORE = spelt("honeoye", "Honeoye|lies in|Ursa Minor")  # of words that the fit knows, so that it stays
QUESTION = Query("q", "Who married the publisher of The North Star?")
Answers: TypeAlias = list[list[tuple[str, float]]]

HARMS: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped": lambda path: path.write_bytes(_flipped(path.read_bytes())),
}


def _flipped(content: bytes) -> bytes:
    at = len(content) * 2 // 3
    return content[:at] + bytes([content[at] ^ 0x15]) + content[at + 1 :]


@dataclass
class PristineIndex:
    """An index that is never touched, with a copy to be harmed; what it answers, and after one more document."""

    folder: Path
    methods: tuple[str, ...]

    def __post_init__(self) -> None:
        self.untouched, self.copy = self.folder / "w", self.folder / "copy"
        self.file = openie(self.folder / "triples.json", (*DOCUMENTS, MORE))
        with Index.open(self.untouched, encoder="lsa", chunking=None, create=True) as workspace:
            workspace.import_part("extractions", self.file)
            workspace.add(DOCUMENTS)
        self.before = self.synced(self.untouched)
        self.after = self.added(self.fresh())

    def fresh(self) -> Path:
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.untouched, self.copy)
        return self.copy

    def files(self, *patterns: str) -> Iterator[Path]:
        """Relative to the index; what is there to be locked holds nothing."""
        paths = {path for pattern in patterns for path in self.untouched.glob(pattern) if path.is_file()}
        return (path.relative_to(self.untouched) for path in sorted(paths) if path.stat().st_size)

    def read(self, folder: Path, *methods: str) -> Answers:
        with Index.open(folder, create=True) as workspace:
            schemes = [registry.scheme(method) for method in methods or self.methods]
            rankings = [scheme.open(workspace).retrieve([QUESTION], 3)[0].hits for scheme in schemes]
        return [[(hit.id, round(hit.score, 5)) for hit in hits] for hits in rankings]

    def synced(self, folder: Path, *methods: str) -> Answers:
        with Index.open(folder, create=True) as workspace:
            workspace.build(*[registry.scheme(method) for method in methods or self.methods])
        return self.read(folder, *methods)

    def added(self, folder: Path) -> Answers:
        with Index.open(folder, create=True) as workspace:
            workspace.add([MORE])
        return self.synced(folder)

    def follow(self, error: RagindexError) -> None:
        """Run the command that the error names."""
        match = re.search(r"Run: (ragindex .*)$", str(error))
        assert match is not None, str(error)
        _, *arguments = shlex.split(match[1])
        done = ragindex(*[{"FILE": str(self.file)}.get(argument, argument) for argument in arguments])
        assert done.code == 0, done


@dataclass(frozen=True)
class Attempt:
    """What came of it: answers, or the error; and the warnings."""

    answers: Answers | None
    error: RagindexError | None
    warnings: list[str]


def tried(work: Callable[[Path], Answers], folder: Path) -> Attempt:
    """Anything but our own errors is a traceback for whoever runs it, and fails the test."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        try:
            answers, error = work(folder), None
        except RagindexError as raised:
            answers, error = None, raised
    return Attempt(answers, error, [str(warning.message) for warning in caught if warning.category is RepairWarning])
