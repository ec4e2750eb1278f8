"""Cache of recent look-ups: names and partial triples recur in the next iteration and in other questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Generic, TypeVar

CachedValue = TypeVar("CachedValue")


@dataclass(slots=True)
class RecentValues(Generic[CachedValue]):
    """Cache of values by key that holds the `most` added last. Thread-safe."""

    most: int
    values: dict[str, CachedValue] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def split(self, keys: Sequence[str]) -> tuple[dict[str, CachedValue], list[str]]:
        """Return the cached values of these keys, and the other keys in order without duplicates."""
        with self.lock:
            held = {key: self.values[key] for key in keys if key in self.values}
        return held, [key for key in dict.fromkeys(keys) if key not in held]

    def completed(self, held: Mapping[str, CachedValue], new: Mapping[str, CachedValue]) -> dict[str, CachedValue]:
        """Cache the new values, evict those added first, and return `held` and `new` together."""
        with self.lock:
            self.values |= new
            for key in list(islice(self.values, max(0, len(self.values) - self.most))):
                del self.values[key]
        return {**held, **new}
