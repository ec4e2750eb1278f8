"""The process that makes accepted changes visible: `python -m ragindex.serve.sync_process INDEX`, started by a server.

It is a process of its own, so that searches never wait for Python's interpreter lock. A line on standard input wakes
it; the end of standard input, as when the server is killed, ends it at once, which a sync survives at any moment.
"""

import errno
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

from ragindex.accounting.spending_log import name_command, subscribe
from ragindex.corpus.chunking import chunk
from ragindex.errors import (
    BrokenPluginError,
    BudgetError,
    DailyBudgetError,
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
from ragindex.index.updating import update_to_json
from ragindex.interfaces.llm import PaidPlugin
from ragindex.serve.spool import AcceptedChange, Spool, open_spool
from ragindex.serve.sync_money import LinkedBudget, ServerLink
from ragindex.types import Document

SOURCE = "served"
"""The source that documents posted to a server belong to."""
_BATCH = 1000
_IDLE_SECONDS = 30.0
_BUSY_SECONDS = 0.5
_NICENESS = 5
_FIRST_SHARE, _NEXT_SHARE = 0.05, 0.5
"""Of the money left, what a batch may cost by an estimate from other documents, and by one from these."""
_FIRST_CHANGES = 8
"""The first batch where nothing is known of what passages cost."""
_OF_A_DOCUMENT = (UsageError, DataError, StoreError, MemoryError, ValueError, TypeError, LookupError, RuntimeError)
"""Errors that the content of one document can cause in a build."""
_OF_THE_SETUP = (UnknownNameError, NameTakenError, MissingExtraError, BrokenPluginError)
_MACHINE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EIO)


def sync_accepted(index: Index, spool: Spool, link: ServerLink | None = None) -> int:
    """Make the first accepted changes and build; return how many there were. Raises RagindexError, also as busy.

    A document that the build fails on fails alone: it is found by halving, and the others are indexed. Where building
    costs money, the changes of each key are made by themselves and paid by it, as far as its budget goes.
    """
    if link is None or not _is_paid(index):
        return _make_changes(index, spool, spool.pending(_BATCH))
    owners, count = sorted(spool.count_by_owner().keys() - link.capped), 0
    for owner in owners:
        with link.paying(owner):
            try:
                for batch in _divide(index, spool.pending(max(1, _BATCH // len(owners)), owner), link):
                    count += _make_changes(index, spool, batch)
            except BudgetError as error:
                link.cap(error, daily=isinstance(error, DailyBudgetError))
    return count


def _is_paid(index: Index) -> bool:
    """Return whether building may cost money."""
    return isinstance(index.encoders.plugin, PaidPlugin) or isinstance(index.model.plugin, PaidPlugin)


def _divide(index: Index, changes: Sequence[AcceptedChange], link: ServerLink) -> Iterator[Sequence[AcceptedChange]]:
    """Yield changes in batches that the money left is likely to be enough for: all at once where there is no limit.

    A build that stops in the middle has paid for documents that cannot be searched. So the first batch may cost a
    small share of what is left, by what passages have cost before, and the next ones half of it, by what it has cost.
    """
    last = {change.id: change.document for change in changes}
    deletions = [change for change in changes if last[change.id] is None]
    if deletions:  # first, for they cost nothing, and what they delete need not be paid
        yield deletions
    changes = [change for change in changes if last[change.id] is not None]
    rate, share = price_passage(index), _FIRST_SHARE
    while changes:
        left = link.find_left()
        batch, passages = list[AcceptedChange](), 0
        for change in changes if left < float("inf") else ():
            size = count_passages(index, [change.document] if change.document else [])
            if (batch and (passages + size) * rate > share * left) or (len(batch) == _FIRST_CHANGES and not rate):
                break
            batch.append(change)
            passages += size
        batch = batch or list(changes)
        before = link.paid
        yield batch
        changes, share = changes[len(batch) :], _NEXT_SHARE
        rate = (link.paid - before) / max(1, passages) or rate


def price_passage(index: Index) -> float:
    """Return what a passage of an index has cost on average, in dollars; 0 if that is unknown."""
    cost = sum(record.money or 0.0 for record in index.manifest.parts.values())
    return cost / max(1, index.manifest.passages)


def count_passages(index: Index, documents: Iterable[Document]) -> int:
    """Return how many passages documents would have in an index."""
    return sum(len(chunk(document, index.chunking)) for document in documents)


def _make_changes(index: Index, spool: Spool, changes: Sequence[AcceptedChange]) -> int:
    """Make changes and build; return how many there were. Raises BudgetError, and the documents are as before then."""
    if not changes:
        return 0
    last = {change.id: change for change in changes}  # the last change of a document counts
    removed = [change.id for change in last.values() if change.document is None]
    existing = index.documents.sources(removed)
    if existing:
        index.remove(list(existing))
    documents = [change.document for change in last.values() if change.document is not None]
    before = {document.id: document for document in index.read([document.id for document in documents])}
    try:
        failed = _index_documents(index, documents)
    except BudgetError:
        if documents:  # what was paid for stays in the caches of the index
            _put_back(index, documents, before)
            index.build()
        raise
    spool.finish(changes, {**failed, **_failed_passages(index, list(last))})
    return len(changes)


def _index_documents(index: Index, documents: Sequence[Document]) -> dict[str, str]:
    """Add documents and build; return the reasons of those that fail. Raises RagindexError if it is none of theirs."""
    before = {document.id: document for document in index.read([document.id for document in documents])}
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
    document_of, failed_ids = index.finished_documents().document_of, set(ids)
    return {
        document_of(failed): f"{record.name}: {reason}"
        for record in index.manifest.parts.values()
        for failed, reason in record.failed.items()
        if document_of(failed) in failed_ids
    }


def run_syncs(folder: Path, wakes: "SimpleQueue[bool]", link: ServerLink) -> None:
    """Sync whenever woken, until nothing has come for a while. Raises RagindexError."""
    spool = open_spool(folder)
    with open_index(folder, budget=LinkedBudget(link) if link.limited else None) as index:
        while True:
            while _sync_once(index, spool, link):
                link.send("synced")
            if link.updates:
                _update_once(index, link)
                continue
            try:
                wakes.get(timeout=_IDLE_SECONDS)
            except Empty:
                return


def _sync_once(index: Index, spool: Spool, link: ServerLink) -> int:
    """Wait for other writers of the index, then sync."""
    while True:
        try:
            return sync_accepted(index, spool, link)
        except WriterBusyError:
            time.sleep(_BUSY_SECONDS)


def _update_once(index: Index, link: ServerLink) -> None:
    """Read the sources of the index again and update it, paid by the key that asked; report how it went."""
    request = link.updates.popleft()
    report, failure = None, ""
    while report is None and not failure:
        try:
            with link.paying(request["owner"]):
                report = index.update(allow_removals=request["allow_removals"])
        except WriterBusyError:
            time.sleep(_BUSY_SECONDS)
        except RagindexError as error:
            failure = str(error)
    link.send("updated", failure=failure, report=None if report is None else update_to_json(report))


def _listen(wakes: "SimpleQueue[bool]", link: ServerLink) -> None:
    """Pass wakes and replies on; die with the server, so that the next one finds the writer's lease free."""
    for line in sys.stdin:
        if link.receive(line):
            wakes.put(True)
    os._exit(0)


def run_process() -> None:
    """Run as a process. An error is written to standard error, and the exit code is 1.

    Its arguments are the folder of the index, and as JSON whether calls are `limited`, which keys are `capped`, and the
    `lifts` of caps before.
    """
    if hasattr(os, "nice"):
        os.nice(_NICENESS)  # searches come first
    warnings.simplefilter("ignore")
    wakes: SimpleQueue[bool] = SimpleQueue()
    settings = json.loads(sys.argv[2])
    descriptor = os.dup(sys.stdout.fileno())  # for the link alone; what else is printed goes to standard error
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    link = ServerLink(partial(os.write, descriptor))
    link.limited, link.capped, link.lifts = settings["limited"], set(settings["capped"]), settings["lifts"]
    name_command("serve")
    subscribe(link.report)
    threading.Thread(target=_listen, args=[wakes, link], daemon=True).start()
    try:
        run_syncs(Path(sys.argv[1]), wakes, link)
    except RagindexError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    run_process()
