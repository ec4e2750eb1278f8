"""Texts of an index encoded by the workers of an executor, ahead of the process that writes.

A worker opens a model once, and refuses to encode if its encoder has another id: other weights, or other prompts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from time import perf_counter

import numpy as np

from ragindex._util.executors import MOST_ITEMS, Batch, ExecutorWorkers, name_worker
from ragindex.accounting import ledger
from ragindex.errors import RagindexError, UsageError
from ragindex.interfaces import Encoder, EncoderPlugin, FittedEncoderPlugin, Floats
from ragindex.plugins.base import asks_service
from ragindex.plugins.plugin_errors import check_opened
from ragindex.plugins.registry import label

_MOST_BYTES = 2 << 20
_SHOWN = 40  # characters of a text in an error
_FLOAT = 4  # bytes of a number in a vector


@dataclass(frozen=True, slots=True)
class EncodingRequest:
    """Texts of the index, and the encoder, whose id must be that on the worker."""

    plugin: EncoderPlugin
    id: str
    texts: tuple[str, ...]


def encode_request(request: EncodingRequest) -> Floats:
    """Return the vectors of texts, on a worker. Raises UsageError if it has no such model, or another one."""
    encoder = _open_encoder(request.plugin)
    if encoder.id != request.id:
        raise UsageError(
            f"The encoder {label(request.plugin)} of {name_worker()} is another than that of the index: its id is "
            f"{encoder.id}, where {request.id} is expected. Copy the model's files to the worker, and start it again."
        )
    return encoder.encode_documents(request.texts)


_opening = Lock()


def _open_encoder(plugin: EncoderPlugin) -> Encoder:
    with _opening:  # threads of one worker share a model
        try:
            return _open_once(plugin)
        except (RagindexError, OSError) as error:
            raise UsageError(
                f"The encoder {label(plugin)} cannot be opened on {name_worker()}, which needs its files and packages: "
                f"{error}"
            ) from error


@lru_cache(maxsize=2)
def _open_once(plugin: EncoderPlugin) -> Encoder:
    return check_opened(plugin, plugin.open(), Encoder)


class _SentTexts:
    """A batch of texts that was sent, whose vectors are asked for one by one."""

    def __init__(self, batch: Batch[Floats], texts: Sequence[str]) -> None:
        self.batch, self._texts = batch, texts
        self._rows: dict[str, Floats] | None = None
        self._seconds = 0.0

    @property
    def is_taken(self) -> bool:
        """Whether the worker's vectors are here."""
        return self._rows is not None

    def take(self, text: str) -> tuple[Floats, float]:
        """Return a vector, and its share of the seconds that the worker took. Raises as `Batch.take`."""
        if self._rows is None:
            (vectors,), seconds = self.batch.take()
            if vectors.shape[:1] != (len(self._texts),):
                raise UsageError(f"A worker gave an array of {vectors.shape} for {len(self._texts)} texts.")
            self._rows, self._seconds = dict(zip(self._texts, vectors, strict=True)), seconds / len(self._texts)
        return self._rows[text], self._seconds


class WorkerEncoder:
    """An encoder on workers: texts are sent before their vectors are needed, and each is encoded once."""

    def __init__(self, plugin: EncoderPlugin, id: str, dimensions: int) -> None:
        self._plugin, self._id, self._dimensions = plugin, id, dimensions
        self._sent: dict[str, _SentTexts] = {}
        self._numbers = 0

    def is_full(self, workers: ExecutorWorkers) -> bool:
        """Whether as many batches are under way as may be."""
        return len({id(texts) for texts in self._sent.values() if not texts.is_taken}) >= workers.batches

    def send(self, texts: Iterable[str], workers: ExecutorWorkers) -> None:
        """Send those texts that are not under way, in as many batches as may be."""
        self._send_batches(self._divide(texts), workers)

    def _send_batches(self, batches: Iterator[tuple[str, ...]], workers: ExecutorWorkers) -> None:
        while not self.is_full(workers) and (batch := next(batches, None)):
            self._send_batch(batch, workers)

    def _divide(self, texts: Iterable[str]) -> Iterator[tuple[str, ...]]:
        left, size = [text for text in dict.fromkeys(texts) if text not in self._sent], 0
        most = max(1, min(MOST_ITEMS, _MOST_BYTES // (_FLOAT * self._dimensions)))
        batch = list[str]()
        for text in left:
            if batch and (len(batch) == most or size + len(text) > _MOST_BYTES):
                yield tuple(batch)
                batch, size = [], 0
            batch.append(text)
            size += len(text)
        if batch:
            yield tuple(batch)

    def _send_batch(self, texts: tuple[str, ...], workers: ExecutorWorkers) -> None:
        self._numbers += 1
        what = f"Batch {self._numbers} of encoding ({len(texts)} texts from {texts[0][:_SHOWN]!r})"
        batch = workers.submit(encode_request, [EncodingRequest(self._plugin, self._id, texts)], what)
        self._sent.update(dict.fromkeys(texts, _SentTexts(batch, texts)))

    def encode(self, texts: Sequence[str], workers: ExecutorWorkers) -> Floats:
        """Return the vectors of distinct texts in order; those that are not under way are sent.

        The ledger gets the workers' seconds, in place of those that this process has waited.
        """
        start, taken, batches = perf_counter(), list[tuple[Floats, float]](), self._divide(texts)
        for text in texts:
            if text not in self._sent or not self._sent[text].is_taken:
                self._send_batches(batches, workers)
            if text not in self._sent:  # all that is under way comes later
                self._send_batch(next(batches), workers)
            taken.append(self._sent[text].take(text))
        for text in texts:
            del self._sent[text]
        ledger.add_time(sum(seconds for _, seconds in taken), perf_counter() - start)
        return np.stack([vector for vector, _ in taken])

    def drop(self, texts: Iterable[str]) -> None:
        """Forget texts that nobody has asked for."""
        for text in texts:
            self._sent.pop(text, None)

    def close(self) -> dict[str, tuple[Floats, float]]:
        """Take back what no worker has begun; return vectors that nobody has asked for, with their seconds."""
        sent, self._sent = self._sent, {}
        for texts in sent.values():
            texts.batch.cancel()
        finished = dict[str, tuple[Floats, float]]()
        for text, texts in sent.items():
            if texts.batch.succeeded:
                finished[text] = texts.take(text)
        return finished


def make_worker_encoder(plugin: EncoderPlugin | FittedEncoderPlugin, encoder: Encoder) -> WorkerEncoder | None:
    """Return the encoder on workers; None if it asks a service, costs money, or is fitted to the corpus."""
    if not isinstance(plugin, EncoderPlugin) or encoder.texts_a_request is not None or asks_service(plugin):
        return None
    return WorkerEncoder(plugin, encoder.id, encoder.dimensions)
