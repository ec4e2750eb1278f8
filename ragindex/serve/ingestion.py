"""Documents that clients post: accepted onto the disk, made visible by a sync process, with a state to ask for."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from ragindex._util.ids import find_spelling, spellings
from ragindex._util.redaction import hide_secrets
from ragindex.errors import RagindexError, StoreError
from ragindex.index.repair import find_documents_loss
from ragindex.llm.budget import Budget, find_daily_budget
from ragindex.serve.collections import ServedCollection
from ragindex.serve.config import RequestLimits
from ragindex.serve.keys import AccessKey, Keyring, passing_documents, require_own_id, require_writable_documents
from ragindex.serve.refusals import RefusalError, busy
from ragindex.serve.spool import ChangeState, Spool, SpoolTransaction, open_spool
from ragindex.serve.sync_money import Purse
from ragindex.serve.sync_process import count_passages, price_passage
from ragindex.serve.telemetry import ServerMetrics, log_event
from ragindex.types import Document

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_CHECK_SECONDS = 1.0
_DAY_SECONDS = 60.0
"""How often it is checked whether another day has begun, while documents wait for money."""


@dataclass(frozen=True, slots=True)
class SpendCap:
    """Why documents of a key wait for money. `day` is the one whose limit is reached, None for other budgets."""

    reason: str
    day: date | None


@dataclass(slots=True)
class SourceUpdates:
    """The last update of the sources of a collection: whether it was asked for, goes on or has ended, and its report.

    `request` is what the sync process has not got yet.
    """

    status: Literal["none", "accepted", "running", "done", "failed"] = "none"
    reason: str = ""
    requested_at: float | None = None
    finished_at: float | None = None
    report: Mapping[str, Any] | None = None
    request: Mapping[str, Any] | None = None

    def end(self, report: Mapping[str, Any] | None, reason: str) -> None:
        """Note how the update has ended: with a `reason`, it has failed."""
        self.status, self.reason = "failed" if reason else "done", reason
        self.report, self.request, self.finished_at = report, None, time.time()


def find_left_today() -> float:
    """Return what all runs may still pay today, in dollars."""
    daily = find_daily_budget()
    return float("inf") if daily is None else daily.limit - daily.spent


class Ingestion:
    """The documents of one collection on their way into its index."""

    def __init__(
        self,
        collection: ServedCollection,
        metrics: ServerMetrics,
        limits: RequestLimits,
        read_keys: Callable[[], Keyring],
        budget: Budget | None = None,
    ) -> None:
        """`read_keys` returns the keys of now, which share what `limits` allow. `budget` is that of the server."""
        self.collection, self.metrics, self.limits, self._read_keys = collection, metrics, limits, read_keys
        self.purse = Purse(read_keys, metrics, budget)
        self.caps: dict[str, SpendCap] = {}
        """Why documents wait, by the key that sent them."""
        self._lifts = 0
        """How often documents that waited were let go on; a process may report a cap from before."""
        self._process: asyncio.subprocess.Process | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.spool: Spool = open_spool(collection.spec.folder)
        self.failure = ""
        self.updates = SourceUpdates()
        self._wakes = asyncio.Event()

    # ------------------------------------------------------------ accepting

    def accept_documents(self, key: AccessKey, documents: Sequence[Document]) -> None:
        """Accept documents to add or change, all or none: they are on the disk when this returns.

        A key with a filter changes only what it may see, into what it may see. Raises RefusalError and RagindexError.
        """
        require_writable_documents(key, documents)
        self._require_intact()
        cost, rate = self._estimate_cost(key, documents)
        with self.spool.writing() as changes:  # what is checked stays so until it is written
            for id in self._find_hidden(changes, key, [document.id for document in documents]):
                raise RefusalError(
                    409, f"The id {id!r} is that of a document that the key may not change. Use another id.", "id_taken"
                )
            most = self.limits.pending // max(1, len(self._read_keys().writers(self.collection.name)))
            if changes.count_pending(key.name) + len(documents) > most:
                raise busy(f"{most} changes wait to be indexed. Try again later.", "backlog", seconds=30)
            self._require_money(changes, key, cost, rate)
            before = changes.metadata_keys(key.name)
            changes.accept([(document.id, document) for document in documents], key.name)
            self._require_free_keys(key, documents, before, changes.metadata_keys(key.name))

    def _estimate_cost(self, key: AccessKey, documents: Sequence[Document]) -> tuple[float, float]:
        """Return what indexing documents of a key is likely to cost, in dollars, and for each of their characters.

        It is 0 where nothing limits what is paid, or where it is not known what passages cost. Raises RefusalError
        (402) if documents of the key wait for money already.
        """
        cap = self.caps.get(key.name)
        if cap is not None:
            raise RefusalError(402, f"Documents of this key wait for money. {cap.reason}", "spend_cap")
        index = self.collection.state.index
        price = price_passage(index)
        if not price or min(self.purse.find_left(key.name), find_left_today()) == float("inf"):
            return 0.0, 0.0
        existing = {
            document.id: document for document in self._newest_documents([document.id for document in documents])
        }
        new = [document for document in documents if existing.get(document.id) != document]
        cost = price * count_passages(index, new)
        return cost, cost / max(1, sum(len(document.title) + len(document.text) for document in new))

    def _require_money(self, changes: SpoolTransaction, key: AccessKey, cost: float, rate: float) -> None:
        """Raise RefusalError (402) if too little money is left for documents, with those that are accepted already."""
        for left, owner in ((self.purse.find_left(key.name), key.name), (find_left_today(), None)):
            accepted = rate * changes.count_pending_characters(owner) if cost else 0.0
            if cost and cost + accepted > left:
                others = f" ${accepted:.6f} are needed for those accepted before." if accepted else ""
                raise RefusalError(
                    402,
                    f"Indexing these documents is likely to cost ${cost:.6f}, by what the passages of the index have "
                    f"cost.{others} ${max(0.0, left):.6f} are left to pay. Send fewer, or have the budget raised.",
                    "spend_cap",
                )

    def _require_free_keys(
        self, key: AccessKey, documents: Sequence[Document], before: set[str], after: set[str]
    ) -> None:
        """Raise RefusalError if documents add metadata keys beyond the share of the key. They are written already."""
        most = self._read_keys().share_metadata_keys(key, self.collection.name, self.limits.metadata_keys)
        known = before & after
        for document in documents:
            known |= after & document.metadata.keys()
            if len(known) > most and not known <= before:
                raise RefusalError(
                    403,
                    f"With the document {document.id!r}, the documents of the key would have more than {most} metadata "
                    "keys together. Use fewer keys, or put values that nothing filters by under one key, as a mapping.",
                    "metadata_keys",
                )

    def accept_deletion(self, key: AccessKey, id: str) -> str:
        """Accept the deletion of a document, and return its id as the index has it.

        Raises RefusalError (404) if there is none that the key may see.
        """
        require_own_id(key, id)
        self._require_intact()
        written_id, id = id, self._find_id(id)
        with self.spool.writing() as changes:
            state = changes.states([id]).get(id)
            if state is not None and state.status == "accepted":
                exists = state.document is not None
            else:
                exists = bool(self._newest_documents([id]))
            if not exists or self._find_hidden(changes, key, [id]):
                # the same for a document that does not exist and for one that the key may not see
                raise RefusalError(404, f"There is no document {written_id!r} that the key may change.", "document")
            changes.accept([(id, None)], key.name)
        self.lift_caps([key.name])  # the document may have waited
        return id

    def request_update(self, key: AccessKey, *, allow_removals: bool) -> None:
        """Have the sources of the collection read again; an update that has not ended stays the one that is requested.

        Raises RefusalError if the key may not change all documents.
        """
        if key.where is not None or key.id_prefix:
            raise RefusalError(403, f"The key {key.name!r} may not change all documents.", "right")
        self._require_intact()
        if self.updates.status not in ("accepted", "running"):
            request = {"owner": key.name, "allow_removals": allow_removals}
            self.updates = SourceUpdates("accepted", requested_at=time.time(), request=request)
        self._tell_update()
        self.wake()

    def _tell_update(self) -> None:
        """Tell the sync process, if there is one, that an update is requested. Any thread may call it."""

        def write() -> None:
            process = self._process
            if self.updates.request is not None and process is not None and process.stdin is not None:
                process.stdin.write(json.dumps({"update": self.updates.request}).encode() + b"\n")
                self.updates.status, self.updates.request = "running", None

        if self._loop is not None:
            self._loop.call_soon_threadsafe(write)

    def find_damage(self) -> str:
        """Return why no documents are accepted: those of the index are damaged; "" if they are not known to be."""
        index = self.collection.state.index
        loss = find_documents_loss(index.store, index.manifest)
        if loss is None:
            return ""
        return (
            f"The index accepts no documents: {loss}. Searches go on. To repair it, whoever runs the server stops it "
            "and runs: ragindex repair"
        )

    def _require_intact(self) -> None:
        damage = self.find_damage()
        if damage:
            raise RefusalError(503, damage, "damaged")

    def _newest_documents(self, ids: Sequence[str]) -> Sequence[Document]:
        """Return documents as the last applied change has left them, searched or not."""
        return self.collection.state.index.documents.read(ids)

    def _find_hidden(self, changes: SpoolTransaction, key: AccessKey, ids: Sequence[str]) -> list[str]:
        """Return the ids of those documents that exist or are accepted, and that the key's filter excludes."""
        if key.where is None:
            return []
        waiting = [state.document for state in changes.states(ids).values() if state.document is not None]
        hidden = list[str]()
        for documents in (self._newest_documents(ids), waiting):
            passing = passing_documents(key.where, {document.id: document.metadata for document in documents})
            hidden += [document.id for document in documents if document.id not in passing]
        return hidden

    def explain(self, key: AccessKey, change: ChangeState | None) -> str:
        """Return why a change waits or has failed, "" if it has not.

        To a key with a filter only that it does, because the reason may name documents of others.
        """
        waits = change is not None and change.status == "accepted"
        if change is not None and self.waits_for_money(change):
            return self.caps[change.owner].reason if change.owner == key.name or key.where is None else ""
        reason = "" if change is None else self.failure if waits else change.reason
        if not reason or key.where is None:
            return reason
        what = "The last sync failed and is repeated." if waits else "The document could not be indexed."
        return f"{what} Whoever runs the server can look up the reason."

    def waits_for_money(self, change: ChangeState) -> bool:
        """Return whether a change is not made because its key, or the server, may pay no more."""
        return change.status == "accepted" and change.owner in self.caps

    def _find_id(self, id: str) -> str:
        """Return the id of the document as it is spelled in the index or was accepted; `id` if there is none."""
        known = {document.id for document in self.collection.state.index.read([id])} | self.spool.states(
            spellings(id)
        ).keys()
        return find_spelling(id, known) or id

    # ------------------------------------------------------------ the state of a document

    def find_document(self, key: AccessKey, id: str) -> tuple[Document | None, ChangeState | None]:
        """Return a document as it is searched now, and the state of its last change; None where the key sees neither.

        A change counts as accepted until searches see it.
        """
        id = self._find_id(id)
        change = self.spool.states([id]).get(id)
        if change is not None and change.status != "accepted":
            self.collection.refresh()
        document = next(iter(self.collection.state.index.read([id])), None)
        versions = [version for version in (document, change.document if change else None) if version is not None]
        if any(not passing_documents(key.where, {id: version.metadata}) for version in versions):
            return None, None
        if key.where is not None and not versions:  # what was deleted has no metadata to judge by
            return None, None
        return document, change

    def describe(self) -> dict[str, int | str | None]:
        """Return how many changes are waiting, how many were damaged on the disk, and why changes are not made."""
        try:
            pending, damaged = self.spool.count_pending(), self.spool.count_damaged()
        except StoreError as error:
            return {"pending": None, "damaged": None, "sync_failure": str(error)}
        return {"pending": pending, "damaged": damaged, "sync_failure": self.failure}

    # ------------------------------------------------------------ the sync process

    def wake(self) -> None:
        """Tell the sync process that there is something to do; starts it if need be. Any thread may call it."""
        if self._loop is None:
            self._wakes.set()
        else:
            self._loop.call_soon_threadsafe(self._wakes.set)

    def lift_caps(self, owners: Iterable[str] | None = None) -> None:
        """Try again to make the changes of keys (None: of all) that wait for money."""
        for owner in list(self.caps if owners is None else owners):
            self.caps.pop(owner, None)
        self._lifts += 1
        self._tell_caps()
        self.wake()

    def _describe_caps(self) -> dict[str, Any]:
        return {"capped": list(self.caps), "lifts": self._lifts}

    def _tell_caps(self) -> None:
        """Tell the sync process, if there is one, which documents wait. Any thread may call it."""

        def write() -> None:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.write(json.dumps(self._describe_caps()).encode() + b"\n")

        if self._loop is not None:
            self._loop.call_soon_threadsafe(write)

    async def run(self) -> None:
        """Keep a sync process while changes are waiting, until cancelled. After a failure, wait longer each time."""
        wait, self._loop = _FIRST_WAIT, asyncio.get_running_loop()
        self.wake()  # what an earlier server has accepted
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wakes.wait(), _DAY_SECONDS if self.caps else None)
            self._wakes.clear()
            past = [owner for owner, cap in self.caps.items() if cap.day not in (None, date.today())]
            if past:
                self.lift_caps(past)
            if await self._sync_pending():
                wait, self.failure = _FIRST_WAIT, ""
            else:
                self._wakes.set()
                self.metrics.sync_failures.labels(self.collection.name).inc()
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)

    async def _sync_pending(self) -> bool:
        """Run sync processes until nothing is waiting; return whether that went well."""
        try:
            while await self._count() or self.updates.request is not None:
                if not await self._run_process():
                    return False
        except (RagindexError, OSError) as error:
            self.failure = f"{type(error).__name__}: {error}"
            log_event("sync_failed", collection=self.collection.name, message=self.failure)
            return False
        return True

    async def _count(self) -> int:
        """Return how many changes wait for the sync process, and not for money."""
        pending = await asyncio.to_thread(self.spool.count_by_owner)
        self.metrics.pending.labels(self.collection.name).set(sum(pending.values()))
        return sum(count for owner, count in pending.items() if owner not in self.caps)

    async def _run_process(self) -> bool:
        """Run a sync process until it ends; return whether it ended well. It is killed if this is cancelled."""
        pipe = asyncio.subprocess.PIPE
        settings = {"limited": self.purse.server is not None, **self._describe_caps()}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ragindex.serve.sync_process", str(self.collection.spec.folder.resolve())),
            json.dumps(settings),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,  # signals of a terminal, or to the server's group, are the server's to act on
        )
        self._process = process
        self._tell_update()
        talking = asyncio.create_task(self._pass_wakes(process))
        reading = asyncio.create_task(_read_errors(process))
        try:
            await self._follow(process)
            code = await process.wait()
            error = await reading
        finally:
            self._process = None
            self.purse.close()
            talking.cancel()
            reading.cancel()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self.updates.status == "running":
            self.updates.end(None, "The process that made the update has ended. Ask for it again.")
        if code != 0:
            last = error.strip().rpartition("\n")[2]
            self.failure = hide_secrets(last) or f"the sync process ended with code {code}"
            log_event("sync_failed", collection=self.collection.name, code=code, message=error[-1000:])
        return code == 0

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        """Read what the process reports, until it ends: after each sync, searches move on."""
        if process.stdout is None or process.stdin is None:
            return
        while line := await process.stdout.readline():
            message = json.loads(line)
            if message["event"] == "synced":
                await self._move_on()
            elif message["event"] == "updated":
                try:
                    await self._move_on()
                finally:  # an update is done once searches see it
                    self.updates.end(message["report"], message["failure"])
            elif message["event"] == "spend_cap":
                self._note_cap(message)
            elif (reply := self.purse.answer(message)) is not None:
                process.stdin.write(json.dumps(reply).encode() + b"\n")

    def _note_cap(self, message: Mapping[str, Any]) -> None:
        """Let the documents of a key wait, unless what they waited for has come meanwhile."""
        if message["lifts"] < self._lifts:
            self._tell_caps()
            return
        owner, reason = message["owner"], message["reason"]
        self.caps[owner] = SpendCap(reason, date.today() if message["daily"] else None)
        log_event("spend_cap", collection=self.collection.name, key=owner, message=reason)

    async def _move_on(self) -> None:
        """Search the state that a sync has finished."""
        self.failure = ""
        self.purse.paid_since_sync.clear()
        if await asyncio.to_thread(self.collection.refresh):
            self.metrics.state_time.labels(self.collection.name).set(self.collection.state.opened_at)
        log_event("synced", collection=self.collection.name, pending=await self._count())

    async def _pass_wakes(self, process: asyncio.subprocess.Process) -> None:
        while process.stdin is not None:
            await self._wakes.wait()
            self._wakes.clear()
            with contextlib.suppress(ConnectionError):  # it has just ended; `run` looks for what is left
                process.stdin.write(b"\n")
                await process.stdin.drain()
            await asyncio.sleep(_CHECK_SECONDS / 10)


async def _read_errors(process: asyncio.subprocess.Process) -> str:
    """Return the end of what the process writes to standard error."""
    end = b""
    while process.stderr is not None and (piece := await process.stderr.read(4096)):
        end = (end + piece)[-8192:]
    return end.decode("utf-8", "replace")
