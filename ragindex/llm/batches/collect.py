"""Reading the results of a batch that has ended into the cache, whole or not at all forgotten."""

from collections.abc import Mapping

from ragindex.errors import ServiceError
from ragindex.http import Trouble, TroubleError
from ragindex.llm.batches import records
from ragindex.llm.batches.endpoint import BatchEndpoint, BatchState
from ragindex.llm.batches.records import BatchRecord
from ragindex.llm.batches.results import BatchResults, read_results
from ragindex.llm.batches.send import BatchSender
from ragindex.llm.budget import Booking
from ragindex.llm.cache import CachedResponse, CallSource, SQLiteCache
from ragindex.llm.cached_calls import CachedCalls
from ragindex.llm.openai_chat import ChatRequest, OpenAIChat

_ROWS = 1_000  # answers committed at once


class BatchCollector:
    """Puts the answers of batches into the cache of `calls`, as if they had been asked for one by one."""

    def __init__(
        self, chat: OpenAIChat, calls: CachedCalls, endpoint: BatchEndpoint, sender: BatchSender, concurrency: int
    ) -> None:
        self._chat, self._calls, self._endpoint, self._sender = chat, calls, endpoint, sender
        self._concurrency = concurrency

    def collect(
        self,
        cache: SQLiteCache,
        batch: BatchRecord,
        state: BatchState,
        requests: Mapping[str, ChatRequest],
        booking: Booking,
    ) -> BatchResults | None:
        """Put the answers of a batch into the cache and forget it; None if another process has.

        Raises ServiceError if the result file lacks answers that the endpoint says it has; those that came are kept.
        """
        with cache.claimed(batch.name):
            if all(one.name != batch.name for one in records.read_batches(cache)):
                return None
            results = self._download(batch, state)
            answers = self._price(cache, batch, results, requests)
            for at in range(0, len(answers), _ROWS):
                some = answers[at : at + _ROWS]
                cache.put_many(some)
                self._calls.add_arrived(key for key, _, _ in some)
                booking.pay(sum(answer.money or 0.0 for _, _, answer in some))
            if results.answered < state.completed:
                raise ServiceError(
                    f"{state.completed - results.answered:,} answers are missing in the result file of batch "
                    f"{batch.id}, and are paid for. The others are kept. Run the same command to read it again."
                )
            records.drop_batches(cache, [batch.name])
        return results

    def _download(self, batch: BatchRecord, state: BatchState) -> BatchResults:
        """Read the result files, again if they are shorter than the endpoint says."""
        count = max(len(batch.keys), 1)
        seconds = state.seconds * min(self._concurrency, count) / count  # so that all took `state.seconds`

        def read() -> BatchResults:
            results = BatchResults()
            for file in state.files:
                content = self._endpoint.download(file)
                read_results(content, batch.keys, lambda body: self._chat.read(body, batch.structure, seconds), results)
            if results.answered < state.completed:
                raise _ShortError(results)
            return results

        try:
            return self._sender.retry(read)
        except _ShortError as error:
            return error.results

    def _price(
        self,
        cache: SQLiteCache,
        batch: BatchRecord,
        results: BatchResults,
        requests: Mapping[str, ChatRequest],
    ) -> list[tuple[str, CallSource, CachedResponse]]:
        """Return the rows of the cache for the replies, without those that a crashed run has put there."""
        source = CallSource(batch.task, batch.version, self._chat.provider, batch.model, batch.base_url)
        rows = []
        for key, reply in results.replies.items():
            held = cache.get(key)
            if held is None or held.at < batch.at:
                rows.append((key, source, self._calls.count_batched(reply, requests.get(key))))
        return rows


class _ShortError(TroubleError):
    """A result file that lacks answers; reading it again may help."""

    def __init__(self, results: BatchResults) -> None:
        super().__init__(Trouble("the result file is short"))
        self.results = results
