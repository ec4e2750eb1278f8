"""An encoder whose cosines can be worked out by hand: how often each letter from a to z stands in a text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ragindex.interfaces import Encoder, EncoderPlugin, Floats
from ragindex.interfaces.llm import LLMSettings

ENCODED: list[str] = []
"""The texts of the index that were encoded, in order."""


class Letters(EncoderPlugin):
    """Registered nowhere: handed over as it is."""

    argument: ClassVar[str] = "name"
    name: str = "letters"

    def open(self, setting: LLMSettings | None = None) -> "LettersEncoder":
        return LettersEncoder()


@dataclass(frozen=True)
class LettersEncoder(Encoder):
    id: str = "letters"
    dimensions: int = 26
    encoded: list[str] = field(default_factory=lambda: ENCODED)

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        self.encoded.extend(texts)
        return self.encode_queries(texts)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        counts = [[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
        vectors = np.array(counts, np.float32).reshape(len(texts), 26)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
