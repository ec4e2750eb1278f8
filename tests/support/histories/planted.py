"""Defects that were there, put back: whoever plays histories must find them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import pytest

from ragindex.index import sync
from ragindex.index.coverage import PartCoverage
from ragindex.index.state import IndexState


@contextmanager
def coverage_alone() -> Iterator[None]:
    """What is removed is what is covered: records of a sync that died before it covered them stay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartCoverage, "begin", lambda coverage, ids: None)
        yield


@contextmanager
def all_finished_again() -> Iterator[None]:
    """With another memory budget readers are pinned to whatever the parts hold, half made or not."""
    real = sync._finish_again

    def finish_again(session: IndexState) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(sync, "unfinished_parts", lambda folder: set[str]())
            real(session)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sync, "_finish_again", finish_again)
        yield


PLANTED: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "coverage alone": coverage_alone,
    "all finished again": all_finished_again,
}
