"""Defects that were there, put back: whoever plays histories must find them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import pytest

from ragindex.workspace import journal, sync
from ragindex.workspace.coverage import PartCoverage
from ragindex.workspace.session import Session


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

    def finish_again(session: Session) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(journal, "unfinished", lambda folder: set[str]())
            real(session)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sync, "_finish_again", finish_again)
        yield


PLANTED: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "coverage alone": coverage_alone,
    "all finished again": all_finished_again,
}
