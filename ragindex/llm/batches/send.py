"""Sending a batch so that no crash loses it: written down, uploaded, created, and looked for where in doubt."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, TypeVar
from uuid import uuid4

from ragindex.http import Trouble, TroubleError, retry
from ragindex.llm.batches import records
from ragindex.llm.batches.endpoint import CHAT_PATH, BatchEndpoint
from ragindex.llm.batches.records import BatchRecord
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.openai_chat import ChatRequest, OpenAIChat, Structure
from ragindex.llm.rate_limits import Limits
from ragindex.llm.tasks import Task

MOST_REQUESTS = 50_000
"""Requests in a batch; also the limit of the endpoint."""
_MOST_BYTES = 200_000_000
_LOOKS = (0.0, 2.0, 5.0)  # seconds before each look for a batch whose creation was not answered
_Result = TypeVar("_Result")


class BatchSender:
    """Sends batches of one model, and finds those again that an earlier run sent."""

    def __init__(self, chat: OpenAIChat, endpoint: BatchEndpoint, limits: Limits, retries: int, seed: int) -> None:
        self._chat, self._endpoint, self._limits, self._retries = chat, endpoint, limits, retries
        self._rng = Random(seed)  # noqa: S311  # jitter of waits

    def send(
        self, cache: SQLiteCache, task: Task[Any], requests: Mapping[str, ChatRequest], most: int
    ) -> list[BatchRecord]:
        """Send requests, by key, in batches of at most `most` and of 200 MB. Raises TroubleError."""
        return [self._send(cache, task, lines, how) for lines, how in _split(self._write(requests), most)]

    def find_sent(self, cache: SQLiteCache, keys: "set[str]") -> list[BatchRecord]:
        """Return the batches on their way that hold any of `keys`.

        A batch that is not known to have been created is looked for at the endpoint, and forgotten if it is not there:
        it costs nothing. Raises TroubleError.
        """
        found = []
        for batch in records.read_batches(cache):
            ours = (batch.model, batch.base_url) == (self._chat.model, self._chat.base_url)
            if ours and not batch.keys.isdisjoint(keys):
                sent = batch if batch.id else self._find_again(cache, batch)
                found += [] if sent is None else [sent]
        return found

    def retry(self, ask: Callable[[], _Result]) -> _Result:
        """Call `ask`, again while its failure may pass. Raises the last TroubleError."""

        def wait(trouble: Trouble, seconds: float) -> None:
            self._limits.wait(seconds)

        return retry(ask, self._retries, self._rng, wait)

    def _write(self, requests: Mapping[str, ChatRequest]) -> Iterator[tuple[str, bytes, Structure]]:
        for key, request in requests.items():
            body, structure = self._chat.write(request)
            line = {"custom_id": key, "method": "POST", "url": CHAT_PATH, "body": body}
            yield key, json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n", structure

    def _send(
        self, cache: SQLiteCache, task: Task[Any], lines: Mapping[str, bytes], structure: Structure
    ) -> BatchRecord:
        name, origin = uuid4().hex, (self._chat.model, self._chat.base_url)
        batch = BatchRecord(
            name, "", "", task.name, task.version, *origin, structure, time.time(), keys=frozenset(lines)
        )
        records.add_batch(cache, batch)
        try:
            file = self.retry(lambda: self._endpoint.upload(name, b"".join(lines.values())))
            records.update_batch(cache, name, file=file)
            id = self._create(batch, file)
        except TroubleError as error:
            if not error.trouble.passes:  # otherwise it may have been created: the next run looks for it
                records.drop_batches(cache, [name])
            raise
        records.update_batch(cache, name, id=id)
        return BatchRecord(name, id, file, task.name, task.version, *origin, structure, batch.at, keys=batch.keys)

    def _create(self, batch: BatchRecord, file: str) -> str:
        """Create a batch; where an earlier attempt may have succeeded unseen, look for it first."""
        tried = False

        def attempt() -> str:
            nonlocal tried
            found = self._endpoint.find(batch.name, batch.at) if tried else None
            tried = True
            return found or self._endpoint.create(batch.name, file)

        return self.retry(attempt)

    def _find_again(self, cache: SQLiteCache, batch: BatchRecord) -> BatchRecord | None:
        """Return a batch that was written down, if it was created; otherwise forget it."""
        for seconds in _LOOKS if batch.file else ():  # nothing is created before its file is known
            self._limits.wait(seconds)
            id = self.retry(lambda: self._endpoint.find(batch.name, batch.at))
            if id is not None:
                records.update_batch(cache, batch.name, id=id)
                return next(one for one in records.read_batches(cache) if one.name == batch.name)
        records.drop_batches(cache, [batch.name])
        return None


def _split(lines: Iterator[tuple[str, bytes, Structure]], most: int) -> Iterator[tuple[dict[str, bytes], Structure]]:
    """Group lines into files of one structure, at most `most` lines and at most 200 MB."""
    held, size, of = dict[str, bytes](), 0, None
    for key, line, structure in lines:
        if of is not None and (len(held) >= most or size + len(line) > _MOST_BYTES or structure != of):
            yield held, of
            held, size = {}, 0
        held[key], size, of = line, size + len(line), structure
    if of is not None:
        yield held, of
