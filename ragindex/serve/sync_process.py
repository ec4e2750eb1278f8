"""The process that makes accepted changes visible: `python -m ragindex.serve.sync_process INDEX`, started by a server.

It is a process of its own, so that searches never wait for Python's interpreter lock. A line on standard input wakes
it; the end of standard input, as when the server is killed, ends it at once, which a sync survives at any moment.
"""

import errno
import os
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

from ragindex.errors import (
    BrokenPluginError,
    DataError,
    MissingExtraError,
    NameTakenError,
    RagindexError,
    StoreError,
    UnknownNameError,
    UsageError,
    WorkspaceError,
    WriterBusyError,
)
from ragindex.index.index import Index, open_index
from ragindex.serve.spool import Spool, open_spool
from ragindex.types import Document

SOURCE = "served"
"""The source that documents posted to a server belong to."""
_BATCH = 1000
_IDLE_SECONDS = 30.0
_BUSY_SECONDS = 0.5
_NICENESS = 5
_OF_A_DOCUMENT = (UsageError, DataError, StoreError, MemoryError, ValueError, TypeError, LookupError, RuntimeError)
"""Errors that the content of one document can cause in a build."""
_OF_THE_SETUP = (UnknownNameError, NameTakenError, MissingExtraError, BrokenPluginError)
_MACHINE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EIO)


def sync_accepted(index: Index, spool: Spool) -> int:
    """Make the first accepted changes and build; return how many there were. Raises RagindexError, also as busy.

    A document that the build fails on fails alone: it is found by halving, and the others are indexed.
    """
    changes = spool.pending(_BATCH)
    if changes:
        last = {change.id: change for change in changes}  # the last change of a document counts
        gone = [one.id for one in last.values() if one.document is None]
        existing = index.documents.sources(gone)
        if existing:
            index.remove(list(existing))
        failed = _index_documents(index, [one.document for one in last.values() if one.document is not None])
        spool.finish(changes, {**failed, **_failed_passages(index, list(last))})
    return len(changes)


def _index_documents(index: Index, documents: Sequence[Document]) -> dict[str, str]:
    """Add documents and build; return the reasons of those that fail. Raises RagindexError if it is none of theirs."""
    before = {one.id: one for one in index.read([document.id for document in documents])}
    try:
        failed = _add_documents(index, documents)
        index.build()
        return failed
    except _OF_A_DOCUMENT as error:
        if not documents or isinstance(error, _OF_THE_SETUP) or _is_of_the_machine(error):
            raise
        reason = str(error) or type(error).__name__
    _put_back(index, documents, before)
    index.build()  # if this fails too, the fault is none of these documents
    if len(documents) == 1:
        return {documents[0].id: reason}
    middle = len(documents) // 2
    return _index_documents(index, documents[:middle]) | _index_documents(index, documents[middle:])


def _put_back(index: Index, documents: Sequence[Document], before: Mapping[str, Document]) -> None:
    """Put documents into the state from before they were added: away, or with the earlier content."""
    _add_documents(
        index, [before[document.id] for document in documents if before.get(document.id, document) != document]
    )
    existing = index.documents.sources([document.id for document in documents if document.id not in before])
    if existing:
        index.remove(list(existing))


def _is_of_the_machine(error: BaseException | None) -> bool:
    """Return whether an error comes from a full disk or a lack of descriptors, which no document is to blame for."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _MACHINE_ERRORS:
            return True
        if any(os.strerror(number) in str(error) for number in _MACHINE_ERRORS):  # of an engine in another language
            return True
        error = error.__cause__ or error.__context__
    return False


def _add_documents(index: Index, documents: Sequence[Document]) -> dict[str, str]:
    """Add documents; return the reasons of those that the index refuses, found by halving the batch."""
    if not documents:
        return {}
    try:
        index.add(documents, source=SOURCE)
        return {}
    except WriterBusyError:
        raise
    except (UsageError, DataError, WorkspaceError) as error:
        if len(documents) == 1:
            return {documents[0].id: str(error)}
        middle = len(documents) // 2
        return _add_documents(index, documents[:middle]) | _add_documents(index, documents[middle:])


def _failed_passages(index: Index, ids: Sequence[str]) -> Mapping[str, str]:
    """Return why a part could not be made of a passage of these documents, by document."""
    document_of, wanted = index.finished_documents().document_of, set(ids)
    return {
        document_of(failed): f"{record.name}: {reason}"
        for record in index.manifest.parts.values()
        for failed, reason in record.failed.items()
        if document_of(failed) in wanted
    }


def run_syncs(folder: Path, wakes: "SimpleQueue[bool]") -> None:
    """Sync whenever woken, until nothing has come for a while. Raises RagindexError."""
    spool = open_spool(folder)
    with open_index(folder) as index:
        while True:
            while _sync_once(index, spool):
                sys.stdout.write("synced\n")
                sys.stdout.flush()
            try:
                wakes.get(timeout=_IDLE_SECONDS)
            except Empty:
                return


def _sync_once(index: Index, spool: Spool) -> int:
    """Wait for other writers of the index, then sync."""
    while True:
        try:
            return sync_accepted(index, spool)
        except WriterBusyError:
            time.sleep(_BUSY_SECONDS)


def _listen(wakes: "SimpleQueue[bool]") -> None:
    """Pass wakes on; die with the server, so that the next one finds the writer's lease free."""
    for _ in sys.stdin:
        wakes.put(True)
    os._exit(0)


def run_process() -> None:
    """Run as a process. An error is written to standard error, and the exit code is 1."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)  # searches come first
    warnings.simplefilter("ignore")
    wakes: SimpleQueue[bool] = SimpleQueue()
    threading.Thread(target=_listen, args=[wakes], daemon=True).start()
    try:
        run_syncs(Path(sys.argv[1]), wakes)
    except RagindexError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    run_process()
