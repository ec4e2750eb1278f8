"""How many questions of a comparison are asked together, and how many at the same time."""

from dataclasses import dataclass

from ragindex._util.cores import available_cores
from ragindex.index.index import Index
from ragindex.index.parts import tasks_of
from ragindex.interfaces import Scheme
from ragindex.llm.client import threads_for
from ragindex.plugins.base import asks_service

_THREADS = min(4, available_cores())


@dataclass(frozen=True, slots=True)
class Batching:
    """How questions are asked: `size` of them together, and `at_once` such batches at the same time."""

    size: int = 32
    at_once: int = _THREADS


IN_BATCHES = Batching()


def batching_for(index: Index, scheme: Scheme) -> Batching:
    """Return how to ask a scheme: one question at a time per thread if it asks a model or a service, else in batches.

    The costs of a batch are shared, so that only questions asked one by one have costs of their own. A question that
    waits for a model uses no core: as many are asked at once as keep the model's requests in flight.
    """
    if not tasks_of(scheme):
        return Batching(1) if asks_service(scheme) else IN_BATCHES
    return Batching(1, max(_THREADS, threads_for(index.model.plugin.requests_at_once())))
