"""Which records of a collection pass a question's filter, for methods that search by more than records."""

from dataclasses import dataclass, field

from ragindex.filters import Filter
from ragindex.interfaces import Collection
from ragindex.kept_results import KeptResults

_KEPT_FILTERS = 4
"""The number of filters whose results are kept: applications ask many questions with the filter of one user."""


@dataclass(frozen=True, slots=True)
class PassingRecords:
    """The records of `collection` that pass a filter, kept for the filters that were used last. Thread-safe."""

    collection: Collection
    kept: KeptResults[Filter, frozenset[str]] = field(default_factory=lambda: KeptResults(_KEPT_FILTERS))

    def find(self, where: Filter) -> frozenset[str]:
        """Return the ids of the records that pass."""
        return self.kept.find(where, lambda: self._scan(where))

    def _scan(self, where: Filter) -> frozenset[str]:
        return frozenset(id for batch in self.collection.scan((), where) for id in batch.column("id").to_pylist())
