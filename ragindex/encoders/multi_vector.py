"""Late-interaction models of sentence-transformers: several vectors a text, questions and documents encoded apart."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, Protocol

import numpy as np

from ragindex._util.canonical import encodable
from ragindex.accounting import timing
from ragindex.encoders.local_models import load_local_model
from ragindex.interfaces import Floats


class TokenCoding(Protocol):
    """How texts become token vectors. Thread-safe."""

    def documents(self, texts: Sequence[str]) -> list[Floats]:
        """(tokens, dimensions) for each text of the index."""
        ...

    def question(self, text: str) -> Floats:
        """(tokens, dimensions) of a question."""
        ...


@dataclass(frozen=True, slots=True)
class MultiVectorModel:
    """A MultiVectorEncoder at work, one text at a time; which tokens have vectors is the model's to say."""

    model: Any
    lock: Lock = field(default_factory=Lock)

    def documents(self, texts: Sequence[str]) -> list[Floats]:
        """See Coding. A blank text has none."""
        return [self._encoded(self.model.encode_document, text) for text in texts]

    def question(self, text: str) -> Floats:
        """See Coding."""
        start = time.perf_counter()
        vectors = self._encoded(self.model.encode_query, text)
        timing.add_seconds("encoder", time.perf_counter() - start)
        return vectors

    def _encoded(self, encode: Any, text: str) -> Floats:
        if not text.strip():
            return np.empty((0, 0), np.float32)
        with self.lock:  # tokenizers cannot be shared
            (vectors,) = encode([encodable(text)], convert_to_numpy=True, show_progress_bar=False)
        return np.asarray(vectors, np.float32)


@lru_cache(maxsize=2)
def load_multi_vector_model(model: str, revision: str, device: str) -> MultiVectorModel:
    """The model, loaded. Raises as `load_local_model` does."""
    return MultiVectorModel(
        load_local_model("MultiVectorEncoder", model, revision, f"multi_vectors(model={model})", device=device)
    )
