"""The process that makes accepted changes visible: `python -m ragindex.serve.sync_process INDEX`, started by a server.

It is a process of its own, so that searches never wait for Python's interpreter lock. A line on standard input wakes
it; the end of standard input, as when the server is killed, ends it at once, which a sync survives at any moment.
"""

import os
import sys
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

from ragindex.errors import DataError, RagindexError, UsageError, WorkspaceError, WriterBusyError
from ragindex.index import Index, open_index
from ragindex.serve.spool import Spool, open_spool
from ragindex.types import Document

SOURCE = "served"
"""The source that documents posted to a server belong to."""
_BATCH = 1000
_IDLE_SECONDS = 30.0
_BUSY_SECONDS = 0.5
_NICENESS = 5


def sync_accepted(index: Index, spool: Spool) -> int:
    """Make the first accepted changes and build; return how many there were. Raises RagindexError, also as busy."""
    changes = spool.pending(_BATCH)
    if changes:
        last = OrderedDict((one.id, one) for one in changes)  # the last change of a document counts
        gone = [one.id for one in last.values() if one.document is None]
        failed = _add_documents(index, [one.document for one in last.values() if one.document is not None])
        existing = index.workspace.documents.sources(gone)
        if existing:
            index.remove(list(existing))
        index.build()
        spool.finish(changes, {**failed, **_failed_passages(index, [one.id for one in last.values()])})
    return len(changes)


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
    document_of, wanted = index.workspace.finished_documents().document_of, set(ids)
    return {
        document_of(failed): f"{record.name}: {reason}"
        for record in index.workspace.manifest.parts.values()
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
