"""The Batch API of an endpoint: upload requests, create a batch, look at it, find it again, download its results."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ragindex.errors import ServiceError
from ragindex.http import Trouble, TroubleError
from ragindex.llm.openai_chat import OpenAIChat

if TYPE_CHECKING:
    from openai import OpenAI

CHAT_PATH: Literal["/v1/chat/completions"] = "/v1/chat/completions"
"""The address that requests of a batch name, whatever the endpoint's own."""
NAME_KEY = "ragindex"
"""The key of our name of a batch in its metadata."""
_WINDOW: Literal["24h"] = "24h"
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_PAGE = 100
_MOST_PAGES = 50
_SLACK = 3600.0  # seconds by which the endpoint's clock may differ from ours
_MISSING_STATUSES = frozenset({404, 405, 501})
_LONGEST_SHOWN = 120
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class BatchState:
    """What the endpoint says of a batch. `total`, `completed` and `failed` count requests; -1 if it counts none.

    `files` are the ids of its result files. `seconds` is how long it took, 0 while it runs. `problems` are its errors
    as a whole, as (code, message).
    """

    id: str
    status: str
    total: int
    completed: int
    failed: int
    files: tuple[str, ...]
    seconds: float
    problems: tuple[tuple[str, str], ...]

    @property
    def ended(self) -> bool:
        """Whether the endpoint does nothing more for it."""
        return self.status in _ENDED


class BatchEndpoint:
    """The Batch API at the address of `chat`. Each method sends its requests once, and raises TroubleError."""

    def __init__(self, chat: OpenAIChat) -> None:
        self._chat = chat

    def require(self) -> None:
        """Raise ServiceError if the endpoint has no Batch API. Costs nothing."""
        self._call("/batches", lambda client: client.batches.with_raw_response.list(limit=1))

    def upload(self, name: str, lines: bytes) -> str:
        """Upload the requests of a batch, one JSON a line; return the id of the file."""
        file = (f"{NAME_KEY}-{name}.jsonl", lines, "application/jsonl")
        body = self._ask("/files", lambda client: client.files.with_raw_response.create(file=file, purpose="batch"))
        return _require_id(body)

    def create(self, name: str, file: str) -> str:
        """Create a batch of an uploaded file; return its id."""
        body = self._ask(
            "/batches",
            lambda client: client.batches.with_raw_response.create(
                input_file_id=file, endpoint=CHAT_PATH, completion_window=_WINDOW, metadata={NAME_KEY: name}
            ),
        )
        return _require_id(body)

    def look(self, id: str) -> BatchState:
        """Return the state of a batch."""
        body = self._chat.call(lambda client: client.batches.with_raw_response.retrieve(id).http_response.text)
        return parse_batch(_parse(body))

    def find(self, name: str, since: float) -> str | None:
        """Return the id of the batch of this name among those created since a Unix time; None if there is none."""
        return next((id for id, named in self._list(since - _SLACK) if named == name), None)

    def download(self, file: str) -> bytes:
        """Return the content of a result file."""
        return self._chat.call(lambda client: client.files.with_raw_response.content(file).http_response.content)

    def _list(self, since: float) -> Iterator[tuple[str, str]]:
        """Yield (id, our name) of all batches of the account, newest first, down to those created before `since`."""
        after: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            body = self._ask(
                "/batches",
                lambda client: client.batches.with_raw_response.list(limit=_PAGE, **after),  # type: ignore[arg-type]  # noqa: B023
            )
            found = [one for one in body.get("data") or [] if isinstance(one, Mapping)]
            for one in found:
                metadata = one.get("metadata")
                named = metadata.get(NAME_KEY) if isinstance(metadata, Mapping) else None
                yield str(one.get("id")), str(named or "")
            oldest = _number(found[-1].get("created_at"), 0.0) if found else 0.0
            if not body.get("has_more") or oldest < since:
                return
            after = {"after": str(found[-1].get("id"))}

    def _ask(self, path: str, ask: "Callable[[OpenAI], Any]") -> Mapping[str, Any]:
        return _parse(self._call(path, ask).http_response.text)

    def _call(self, path: str, ask: "Callable[[OpenAI], _Result]") -> _Result:
        try:
            return self._chat.call(ask)
        except TroubleError as error:
            if error.trouble.status not in _MISSING_STATUSES:
                raise
            trouble = error.trouble
        raise ServiceError(
            f"openai:{self._chat.model} at {self._chat.base_url} has no Batch API: {path} answers {trouble}. "
            "Set batch=false."
        )


def parse_batch(said: Mapping[str, Any]) -> BatchState:
    """Return what the endpoint's JSON says of a batch. Raises TroubleError if it is none."""
    if not isinstance(said.get("status"), str):
        raise TroubleError(Trouble(f"expected a batch, got {json.dumps(said)[:_LONGEST_SHOWN]}"))
    counts = said.get("request_counts")
    counted = counts if isinstance(counts, Mapping) else {}
    total, completed, failed = (int(_number(counted.get(name), -1)) for name in ("total", "completed", "failed"))
    files = (said.get("output_file_id"), said.get("error_file_id"))
    ends = (said.get(f"{name}_at") for name in ("completed", "expired", "cancelled"))
    began = _number(said.get("created_at"), 0.0)
    end = next((_number(one, began) for one in ends if one is not None), began)
    return BatchState(
        str(said.get("id") or ""),
        said["status"],
        total,
        completed,
        failed,
        tuple(str(one) for one in files if one),
        max(0.0, end - began),
        tuple(_list_problems(said.get("errors"))),
    )


def _list_problems(errors: Any) -> Iterator[tuple[str, str]]:
    found = errors.get("data") if isinstance(errors, Mapping) else None
    for one in found if isinstance(found, list) else ():
        if isinstance(one, Mapping):
            yield str(one.get("code") or ""), str(one.get("message") or "")


def _parse(body: str) -> Mapping[str, Any]:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, Mapping):
        raise TroubleError(Trouble(f"expected a JSON object, got {body[:_LONGEST_SHOWN]!r}"))
    return parsed


def _require_id(body: Mapping[str, Any]) -> str:
    id = body.get("id")
    if not isinstance(id, str) or not id:
        raise TroubleError(Trouble(f"expected an id, got {json.dumps(body)[:_LONGEST_SHOWN]}"))
    return id


def _number(value: Any, default: float) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if good else default
