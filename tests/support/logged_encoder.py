"""An encoder whose workers write down what they encode, wait while they do, and die of a text that says so."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from letters import LettersEncoder

from ragindex.interfaces import EncoderPlugin, Floats
from ragindex.interfaces.llm import LLMSettings


class Logged(EncoderPlugin):
    """Writes into `folder`. Waits for `seconds` a text. A text with "deadly" kills the process, unless `spared` exists.

    Its weights are the file `weights` of the folder that the variable WEIGHTS names, if there is one.
    """

    folder: str
    seconds: float = 0.0

    def open(self, setting: LLMSettings | None = None) -> "LoggedEncoder":
        weights = os.environ.get("WEIGHTS")
        return LoggedEncoder(
            id=f"logged {Path(weights, 'weights').read_text() if weights else ''}",
            folder=Path(self.folder),
            seconds=self.seconds,
        )


@dataclass(frozen=True)
class LoggedEncoder(LettersEncoder):
    folder: Path = Path()
    seconds: float = 0.0

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        with (self.folder / f"started-{os.getpid()}").open("a") as file:
            file.writelines(f"{text!r}\n" for text in texts)
        time.sleep(self.seconds * len(texts))
        if any("deadly" in text for text in texts) and not (self.folder / "spared").exists():
            os._exit(9)
        with (self.folder / f"encoded-{os.getpid()}").open("a") as file:
            file.writelines(f"{text!r}\n" for text in texts)
        return self.encode_queries(texts)


def list_encoded(folder: Path, what: str = "encoded") -> list[str]:
    """The texts that processes have encoded, or have started to."""
    return [line for file in sorted(folder.glob(f"{what}-*")) for line in file.read_text().splitlines()]
