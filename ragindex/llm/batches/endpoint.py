"""The Batch API of an endpoint: upload requests, create a batch, look at it, find it again, download its results.

A batch on its way is recorded in the file of the cache before it is sent, and its id as soon as it is known, until all
its answers are in the cache. So a process that dies at any moment leaves either a batch whose name can be looked for at
the endpoint, or none that costs anything.
"""

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from uuid import uuid4

from ragindex._util.error_bodies import ErrorDetails, read_error
from ragindex._util.http import RequestProblem, RequestProblemError, as_mapping, retry
from ragindex.errors import ServiceError
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.openai_chat import ChatRequest, OpenAIChat, Reply, Structure
from ragindex.llm.rate_limits import Clock
from ragindex.llm.tasks import Task

if TYPE_CHECKING:
    from openai import OpenAI

CHAT_PATH: Literal["/v1/chat/completions"] = "/v1/chat/completions"
"""The address that requests of a batch name, whatever the endpoint's own."""
_NAME_KEY = "ragindex"  # of our name of a batch in its metadata
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_PAGE = 100
_MOST_PAGES = 50
_SLACK = 3600.0  # seconds by which the endpoint's clock may differ from ours
_OK = 200
_MISSING_STATUSES = frozenset({404, 405, 501})
_LONGEST_SHOWN = 120
_LONGEST_MESSAGE = 500
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class BatchState:
    """What the endpoint reports of a batch. `completed` and `failed` count requests; -1 if it counts none.

    `files` are the ids of its result files. `seconds` is how long it took, 0 while it runs. `problems` are its errors
    as a whole, as (code, message).
    """

    status: str
    completed: int
    failed: int
    files: tuple[str, ...]
    seconds: float
    problems: tuple[tuple[str, str], ...]

    @property
    def ended(self) -> bool:
        """Whether the endpoint does nothing more for it."""
        return self.status in _ENDED


def _parse_state(body: Mapping[str, Any]) -> BatchState:
    if not isinstance(body.get("status"), str):
        raise RequestProblemError(RequestProblem(f"expected a batch, got {json.dumps(body)[:_LONGEST_SHOWN]}"))
    counts, errors = as_mapping(body.get("request_counts")), as_mapping(body.get("errors")).get("data")
    began = _read_number(body.get("created_at"), 0.0)
    ends = (body.get(f"{name}_at") for name in ("completed", "expired", "cancelled"))
    end = next((_read_number(end, began) for end in ends if end is not None), began)
    problems = [problem for problem in errors if isinstance(problem, Mapping)] if isinstance(errors, list) else []
    return BatchState(
        status=body["status"],
        completed=int(_read_number(counts.get("completed"), -1)),
        failed=int(_read_number(counts.get("failed"), -1)),
        files=tuple(str(id) for id in (body.get("output_file_id"), body.get("error_file_id")) if id),
        seconds=max(0.0, end - began),
        problems=tuple((str(each.get("code") or ""), str(each.get("message") or "")) for each in problems),
    )


def _parse(body: str) -> Mapping[str, Any]:
    parsed = _load(body)
    if parsed is None:
        raise RequestProblemError(RequestProblem(f"expected a JSON object, got {body[:_LONGEST_SHOWN]!r}"))
    return parsed


def _load(text: str | bytes) -> Mapping[str, Any] | None:
    """Return a JSON object; None if the text is anything else."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        return None
    return parsed if isinstance(parsed, Mapping) else None


def _require_id(body: Mapping[str, Any]) -> str:
    id = body.get("id")
    if not isinstance(id, str) or not id:
        raise RequestProblemError(RequestProblem(f"expected an id, got {json.dumps(body)[:_LONGEST_SHOWN]}"))
    return id


def _read_number(value: Any, default: float) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if good else default


# ---------------------------------------------------------------- results


@dataclass(slots=True)
class BatchResults:
    """The results of a batch by key: `replies`, and `problems` of requests that got none.

    `answered` counts lines with an answer of the model, usable or not. `failures` are the problems of requests that the
    endpoint came to: those may have been charged.
    """

    replies: dict[str, Reply] = field(default_factory=dict)
    problems: dict[str, RequestProblem] = field(default_factory=dict)
    failures: dict[str, RequestProblemError] = field(default_factory=dict)
    answered: int = 0


def read_results(files: Iterable[bytes], keys: Collection[str], read: Callable[[str], Reply]) -> BatchResults:
    """Read result files: one JSON a line, in any order, perhaps damaged, repeated or of a request not in `keys`.

    `read` parses a chat completion and raises RequestProblemError. The first reply to a request is kept; a reply takes
    the place of a problem.
    """
    results = BatchResults()
    for line in (line for content in files for line in content.splitlines()):
        result = _load(line) or {}
        response, key = as_mapping(result.get("response")), result.get("custom_id")
        results.answered += response.get("status_code") == _OK
        if not isinstance(key, str) or key not in keys or key in results.replies:
            continue
        try:
            results.replies[key] = _read_reply(response, result.get("error"), read)
            results.problems.pop(key, None)
            results.failures.pop(key, None)
        except RequestProblemError as error:
            results.problems[key] = error.problem
            if response:
                results.failures[key] = error
    return results


def _read_reply(response: Mapping[str, Any], error: Any, read: Callable[[str], Reply]) -> Reply:
    """Return the reply in a line. Raises RequestProblemError with the status and error of a request that got none."""
    status, body = response.get("status_code"), response.get("body")
    if status == _OK and isinstance(body, Mapping):
        return read(json.dumps(body))
    details = next((read for read in map(read_error, (body, error)) if read.message), ErrorDetails("no answer"))
    code = status if isinstance(status, int) else None
    raise RequestProblemError(RequestProblem(details.message[:_LONGEST_MESSAGE], code, details.code, details.param))


# ---------------------------------------------------------------- batches on their way

MOST_REQUESTS = 50_000
"""Requests in a batch; also the limit of the endpoint."""
_MOST_BYTES = 200_000_000
_LOOKS = (0.0, 2.0, 5.0)  # seconds before each look for a batch whose creation was not answered
_TABLES = (
    "CREATE TABLE IF NOT EXISTS batches (name TEXT PRIMARY KEY, id TEXT NOT NULL, file TEXT NOT NULL, "
    "task TEXT NOT NULL, version INTEGER NOT NULL, model TEXT NOT NULL, base_url TEXT NOT NULL, "
    "structure TEXT NOT NULL, at REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS batch_keys (batch TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (batch, key))",
)
_COLUMNS = "name, id, file, task, version, model, base_url, structure, at"


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch: `name` is ours, written into its metadata; `id` and `file` are the endpoint's, "" until known.

    `structure` is how its requests ask for JSON, `at` the Unix time before it was sent. The `keys` of its calls are the
    custom ids of its requests.
    """

    name: str
    id: str
    file: str
    task: str
    version: int
    model: str
    base_url: str
    structure: Structure
    at: float
    keys: frozenset[str]


def read_batches(cache: SQLiteCache) -> list[BatchRecord]:
    """Return the batches whose answers are not all in the cache, oldest first. Raises StoreError."""
    with cache.connection() as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'batches'").fetchone():
            return []
        rows = connection.execute(f"SELECT {_COLUMNS} FROM batches ORDER BY at, name").fetchall()  # noqa: S608
        keys = [connection.execute("SELECT key FROM batch_keys WHERE batch = ?", row[:1]).fetchall() for row in rows]
    return [BatchRecord(*(*row, frozenset(key for (key,) in own))) for row, own in zip(rows, keys, strict=True)]


def drop_batches(cache: SQLiteCache, names: Iterable[str]) -> None:
    """Forget batches. Raises StoreError."""
    rows = [(name,) for name in names]
    with cache.connection() as connection, connection:
        connection.executemany("DELETE FROM batches WHERE name = ?", rows)
        connection.executemany("DELETE FROM batch_keys WHERE batch = ?", rows)


def _record_batch(cache: SQLiteCache, batch: BatchRecord) -> BatchRecord:
    """Record a new batch, or the file and id of one; it is on disk when this returns. Raises StoreError."""
    with cache.connection() as connection, connection:
        if batch.file:
            update = "UPDATE batches SET file = ?, id = ? WHERE name = ?"
            connection.execute(update, (batch.file, batch.id, batch.name))
            return batch
        for table in _TABLES:
            connection.execute(table)
        row = (batch.name, batch.id, batch.file, batch.task, batch.version, batch.model, batch.base_url)
        values = (*row, batch.structure, batch.at)
        connection.execute(f"INSERT INTO batches ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)  # noqa: S608
        connection.executemany("INSERT INTO batch_keys VALUES (?, ?)", ((batch.name, key) for key in batch.keys))
    return batch


# ---------------------------------------------------------------- the endpoint


class BatchEndpoint:
    """The Batch API at the address of `chat`, and the records of the batches that were sent to it.

    Methods raise RequestProblemError and StoreError; those without retries of their own send their requests once, and
    `retry` repeats them.
    """

    def __init__(self, cache: SQLiteCache, chat: OpenAIChat, retries: int, seed: int, clock: Clock) -> None:
        self._cache, self._chat, self._retries, self._clock = cache, chat, retries, clock
        self._rng = Random(seed)  # noqa: S311  # jitter of waits

    def retry(self, ask: Callable[[], _Result]) -> _Result:
        """Call `ask`, again while its failure may pass. Raises the last RequestProblemError."""
        return retry(ask, self._retries, self._rng, lambda _, seconds: self._clock.sleep(seconds))

    def require(self) -> None:
        """Raise ServiceError if the endpoint has no Batch API. Costs nothing."""
        self._ask("/batches", lambda client: client.batches.with_raw_response.list(limit=1))

    def look(self, id: str) -> BatchState:
        """Return the state of a batch."""
        body = self._chat.call(lambda client: client.batches.with_raw_response.retrieve(id).http_response.text)
        return _parse_state(_parse(body))

    def download(self, file: str) -> bytes:
        """Return the content of a result file."""
        return self._chat.call(lambda client: client.files.with_raw_response.content(file).http_response.content)

    # ------------------------------------------------------------ what is sent

    def send(self, task: Task[Any], requests: Mapping[str, ChatRequest], most: int) -> list[BatchRecord]:
        """Send requests, by key, in batches of at most `most` and of 200 MB. Retries what fails."""
        return [self._send(task, lines, structure) for lines, structure in self._split(requests, most)]

    def find_sent(self, keys: Set[str]) -> list[BatchRecord]:
        """Return the batches on their way that hold any of `keys`.

        A batch that is not known to have been created is looked for at the endpoint, and forgotten if it is not there:
        it costs nothing.
        """
        origin = (self._chat.model, self._chat.base_url)
        batches = [batch for batch in read_batches(self._cache) if (batch.model, batch.base_url) == origin]
        matching = [batch for batch in batches if not batch.keys.isdisjoint(keys)]
        named_batches = (batch if batch.id else self._find_again(batch) for batch in matching)
        return [batch for batch in named_batches if batch is not None]

    def _find_again(self, batch: BatchRecord) -> BatchRecord | None:
        """Return a batch that was recorded, if it was created; otherwise forget it."""
        for seconds in _LOOKS if batch.file else ():  # nothing is created before its file is known
            self._clock.sleep(seconds)
            id = self.retry(lambda: self._find(batch.name, batch.at))
            if id is not None:
                return _record_batch(self._cache, replace(batch, id=id))
        drop_batches(self._cache, [batch.name])
        return None

    def _split(self, requests: Mapping[str, ChatRequest], most: int) -> Iterator[tuple[Mapping[str, bytes], Structure]]:
        """Yield the lines of each batch by key: at most `most`, at most 200 MB, and of one structure."""
        lines, size, structure = dict[str, bytes](), 0, None
        for key, request in requests.items():
            body, asks_by = self._chat.write(request)
            call = {"custom_id": key, "method": "POST", "url": CHAT_PATH, "body": body}
            line = json.dumps(call, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
            full = len(lines) >= most or size + len(line) > _MOST_BYTES
            if structure is not None and (full or asks_by != structure):
                yield lines, structure
                lines, size = {}, 0
            lines[key], size, structure = line, size + len(line), asks_by
        if structure is not None:
            yield lines, structure

    def _send(self, task: Task[Any], lines: Mapping[str, bytes], structure: Structure) -> BatchRecord:
        name, origin, tried = uuid4().hex, (self._chat.model, self._chat.base_url), False
        batch = BatchRecord(name, "", "", task.name, task.version, *origin, structure, time.time(), frozenset(lines))
        _record_batch(self._cache, batch)

        def create() -> str:
            nonlocal tried
            id = self._find(name, batch.at) if tried else None  # the first attempt may have succeeded unseen
            tried = True
            return id or self._create(name, batch.file)

        try:
            file = self.retry(lambda: self._upload(name, b"".join(lines.values())))
            batch = _record_batch(self._cache, replace(batch, file=file))
            id = self.retry(create)
        except RequestProblemError as error:
            if not error.problem.passes:  # otherwise it may have been created: the next run looks for it
                drop_batches(self._cache, [name])
            raise
        return _record_batch(self._cache, replace(batch, id=id))

    def _upload(self, name: str, lines: bytes) -> str:
        """Upload the requests of a batch, one JSON a line; return the id of the file."""
        file = (f"{_NAME_KEY}-{name}.jsonl", lines, "application/jsonl")
        body = self._ask("/files", lambda client: client.files.with_raw_response.create(file=file, purpose="batch"))
        return _require_id(body)

    def _create(self, name: str, file: str) -> str:
        """Create a batch of an uploaded file; return its id."""
        body = self._ask(
            "/batches",
            lambda client: client.batches.with_raw_response.create(
                input_file_id=file, endpoint=CHAT_PATH, completion_window="24h", metadata={_NAME_KEY: name}
            ),
        )
        return _require_id(body)

    def _find(self, name: str, since: float) -> str | None:
        """Return the id of the batch of this name among the account's, newest first, down to a Unix time."""
        after: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            body = self._ask(
                "/batches",
                lambda client: client.batches.with_raw_response.list(limit=_PAGE, **after),  # type: ignore[arg-type]  # noqa: B023
            )
            page = [batch for batch in body.get("data") or [] if isinstance(batch, Mapping)]
            for batch in page:
                if as_mapping(batch.get("metadata")).get(_NAME_KEY) == name:
                    return str(batch.get("id"))
            oldest = _read_number(page[-1].get("created_at"), 0.0) if page else 0.0
            if not body.get("has_more") or oldest < since - _SLACK:
                return None
            after = {"after": str(page[-1].get("id"))}
        return None

    def _ask(self, path: str, ask: "Callable[[OpenAI], Any]") -> Mapping[str, Any]:
        try:
            return _parse(self._chat.call(ask).http_response.text)
        except RequestProblemError as error:
            if error.problem.status not in _MISSING_STATUSES:
                raise
            problem = error.problem
        raise ServiceError(
            f"openai:{self._chat.model} at {self._chat.base_url} has no Batch API: {path} answers {problem}. "
            "Set batch=false."
        )
