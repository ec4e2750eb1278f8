"""Passages of made-up words with Zipf's frequencies, and random unit vectors: for measuring time, never quality."""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from ragindex.interfaces import Encoder, EncoderPlugin, Floats
from ragindex.interfaces.llm import LLMSettings
from ragindex.types import Document

_VOCABULARY, _LENGTH, _HASHES = 30_000, 80, 1 << 16


def documents(count: int, seed: int = 0) -> list[Document]:
    """`count` passages of 80 words each."""
    rng = np.random.default_rng(seed)
    words = _words(rng)
    picks = _zipf(rng, (count, _LENGTH))
    return [Document(f"d{n:08d}", f"Title {n}", " ".join(words[row])) for n, row in enumerate(picks)]


def questions(count: int, seed: int = 1) -> list[str]:
    """`count` questions of 10 words of the same vocabulary."""
    words = _words(np.random.default_rng(0))
    return [" ".join(words[row]) for row in _zipf(np.random.default_rng(seed), (count, 10))]


def _words(rng: np.random.Generator) -> "np.ndarray[tuple[int], np.dtype[np.object_]]":
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    return np.array(["".join(rng.choice(letters, rng.integers(3, 9))) for _ in range(_VOCABULARY)], dtype=object)


def _zipf(rng: np.random.Generator, shape: tuple[int, int]) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    weights = 1 / np.arange(1, _VOCABULARY + 1) ** 0.8
    return rng.choice(_VOCABULARY, shape, p=weights / weights.sum())


class RandomVectors(EncoderPlugin):
    """A stand-in for an encoder: a text's vector is drawn with the text's hash as seed. It costs next to nothing."""

    argument: ClassVar[str] = "size"
    size: int = 384

    def open(self, setting: LLMSettings | None = None) -> "RandomEncoder":
        return RandomEncoder(self.size)


@dataclass(frozen=True)
class RandomEncoder(Encoder):
    size: int

    @property
    def id(self) -> str:
        return f"random-{self.size}"

    @property
    def dimensions(self) -> int:
        return self.size

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
            vectors[row] = np.random.default_rng(seed).standard_normal(self.dimensions, np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        return self.encode_documents(texts)


class WordVectors(EncoderPlugin):
    """A stand-in for an encoder: a text's vector is the sum of random vectors of its words, by their hashes."""

    argument: ClassVar[str] = "size"
    size: int = 384

    def open(self, setting: LLMSettings | None = None) -> "WordEncoder":
        return WordEncoder(self.size)


class WordEncoder(RandomEncoder):
    """Texts that share words are near each other. Words of up to three letters count for nothing."""

    @property
    def id(self) -> str:
        return f"words-{self.size}"

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        vectors = np.zeros((len(texts), self.size), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            np.add.reduce(
                _of_words(self.size)[[zlib.crc32(w.encode()) % _HASHES for w in text.split() if len(w) > 3]], out=row
            )
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


@cache
def _of_words(size: int) -> "np.ndarray[tuple[int, int], np.dtype[np.float32]]":
    return np.random.default_rng(0).standard_normal((_HASHES, size), np.float32)
