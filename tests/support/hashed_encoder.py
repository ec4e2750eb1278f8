"""An encoder of four numbers, without a model."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ragindex.errors import ServiceError
from ragindex.interfaces import Encoder, Floats


@dataclass
class Plain(Encoder):
    """Four numbers of a hash; remembers what it was asked."""

    id: str = "plain"
    dimensions: int = 4
    seen: list[list[str]] = field(default_factory=list)
    fails_at: str | None = None

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        if self.fails_at in texts:
            raise ServiceError("out of order")
        self.seen.append(list(texts))
        digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:4] for text in texts]
        rows = np.array([list(digest) for digest in digests], dtype=np.float32).reshape(len(texts), 4) + 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    encode_queries = encode_documents


def numbered_texts(count: int) -> list[str]:
    """Texts of unlike lengths."""
    return [f"text {i} {'x' * (i % 7)}" for i in range(count)]
