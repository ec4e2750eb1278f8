"""Waiting for batches, and a line on standard error whenever there is news of one."""

import sys
import time
from collections.abc import Callable, Sequence

from ragindex.errors import ServiceError
from ragindex.http import Trouble, TroubleError
from ragindex.llm.batches.endpoint import BatchEndpoint, BatchState
from ragindex.llm.batches.records import BatchRecord
from ragindex.llm.rate_limits import Limits

_SILENCE = 600.0  # seconds without news, after which the same line is shown again
_LONGEST_PAUSE = 3600.0  # seconds; a longer Retry-After is not waited for at once
_TOO_MANY = 429
_UNKNOWN = 404


class BatchWatch:
    """Looks at batches every `poll` seconds until each has ended."""

    def __init__(self, endpoint: BatchEndpoint, limits: Limits, poll: float, retries: int) -> None:
        self._endpoint, self._limits, self._poll, self._retries = endpoint, limits, poll, retries
        self._shown: dict[str, tuple[tuple[object, ...], float]] = {}

    def wait(self, batches: Sequence[BatchRecord], collect: Callable[[BatchRecord, BatchState], None]) -> None:
        """Call `collect` with each batch that has ended. Whatever ends the wait, the batches go on.

        Raises TroubleError if the endpoint cannot be asked, ServiceError if it does not know a batch.
        """
        waiting = list(batches)
        try:
            while waiting:
                for batch in list(waiting):
                    state = self._look(batch)
                    self._show(batch, state)
                    if state.ended:
                        waiting.remove(batch)
                        collect(batch, state)
                if waiting:
                    self._limits.wait(self._poll)
        except BaseException as error:
            if waiting and not isinstance(error, Exception):  # Ctrl-C
                names = ", ".join(one.id for one in waiting)
                print_line(
                    f"Not ended: {names}. The endpoint goes on, and so does the same command, with no new request."
                )
            raise

    def _look(self, batch: BatchRecord) -> BatchState:
        """Return the state of a batch, asking again after failures that pass, and after any Retry-After."""
        failures = 0
        while True:
            try:
                return self._endpoint.look(batch.id)
            except TroubleError as error:
                trouble = error.trouble
            if trouble.status == _TOO_MANY and trouble.retry_after is not None:
                self._limits.wait(min(trouble.retry_after, _LONGEST_PAUSE))
                continue
            failures += 1
            if trouble.status == _UNKNOWN:
                raise ServiceError(_describe_unknown(batch, trouble))
            if not trouble.passes or failures > self._retries:
                raise TroubleError(trouble)
            self._limits.wait(self._poll)

    def _show(self, batch: BatchRecord, state: BatchState) -> None:
        news = (state.status, state.completed, state.failed)
        now = time.monotonic()
        before, at = self._shown.get(batch.name, ((), 0.0))
        if news == before and now < at + _SILENCE:
            return
        self._shown[batch.name] = news, now
        print_line(f"{batch.task}: {describe_batch(batch, state)}")
        if not before and not state.ended:
            print_line("A batch may take a day. Ctrl-C leaves it running, and the same command goes on with it.")


def describe_batch(batch: BatchRecord, state: BatchState) -> str:
    """Return a batch's id, status, counts, and how long ago it was sent."""
    done = max(state.completed, 0)
    failed = f", {state.failed:,} failed" if state.failed > 0 else ""
    waited = _format_duration(time.time() - batch.at)
    return f"batch {batch.id} {state.status}, {done:,} of {len(batch.keys):,} answered{failed}, sent {waited} ago"


def _describe_unknown(batch: BatchRecord, trouble: Trouble) -> str:
    return (
        f"The endpoint {batch.base_url} knows no batch {batch.id} ({trouble}), which holds {len(batch.keys):,} "
        "requests that are paid for. Set the key of the account that sent it. To give its answers up, run: "
        "ragindex cache --index DIR --forget-batches"
    )


def _format_duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def print_line(line: str) -> None:
    """Write a line; while a progress bar is shown, it appears above the bar."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
