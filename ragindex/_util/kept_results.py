"""A small cache of results that are costly to compute and wanted again soon, such as what passes a user's filter."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

KeptKey = TypeVar("KeptKey", bound=Hashable)
KeptResult = TypeVar("KeptResult")


@dataclass(slots=True)
class KeptResults(Generic[KeptKey, KeptResult]):
    """The results for the `most` keys that were asked for last. Thread-safe."""

    most: int
    results: OrderedDict[KeptKey, KeptResult] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def find(self, key: KeptKey, compute: Callable[[], KeptResult]) -> KeptResult:
        """Return the kept result for `key`, or compute and keep it. Two threads may compute the same one at once."""
        with self.lock:
            if key in self.results:
                self.results.move_to_end(key)
                return self.results[key]
        result = compute()  # outside of the lock, so that other keys do not wait
        with self.lock:
            self.results[key] = result
            while len(self.results) > self.most:
                self.results.popitem(last=False)
        return result
