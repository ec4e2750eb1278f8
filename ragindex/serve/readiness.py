"""Whether collections can be searched: found by a search with every method, at most once in some seconds."""

import asyncio
import time
from functools import partial

from ragindex.serve.collections import ServedCollection, ServedState, search_once
from ragindex.serve.refusals import RefusalError
from ragindex.serve.service import Service

_KEPT_SECONDS = 5.0


class SearchCheck:
    """The last check of a collection. Requests that come meanwhile wait for the one that is made."""

    def __init__(self) -> None:
        self._checking = asyncio.Lock()
        self._state: ServedState | None = None
        self._until = 0.0
        self._reason = ""

    async def find_reason(self, service: Service, collection: ServedCollection) -> str:
        """Return why the collection cannot be searched; "" if it can."""
        async with self._checking:
            if self._state is not collection.state or time.monotonic() > self._until:
                self._state = collection.state
                self._reason = await _search(service, self._state)
                self._until = time.monotonic() + _KEPT_SECONDS
            return self._reason


async def _search(service: Service, state: ServedState) -> str:
    if state.broken:
        return f"Methods whose data are damaged: {', '.join(state.broken)}. Stop the server and run: ragindex repair"
    try:
        await service.work(partial(search_once, state))
    except RefusalError as refusal:
        return "" if refusal.code == "overloaded" else refusal.message  # busy is not broken
    return ""
