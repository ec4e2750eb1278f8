"""Reader of the result files of a batch: one JSON a line, in any order, perhaps damaged."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ragindex.error_bodies import ErrorDetails, read_error
from ragindex.http import Trouble, TroubleError
from ragindex.llm.openai_chat import Reply

_OK = 200
_LONGEST_MESSAGE = 500


@dataclass(slots=True)
class BatchResults:
    """The results of a batch by key: `replies`, and `troubles` of requests that got none.

    `answered` counts lines with an answer of the model, usable or not; `damaged` those that are no result, `foreign`
    those of requests that the batch does not have, `repeated` further replies to the same request.
    """

    replies: dict[str, Reply] = field(default_factory=dict)
    troubles: dict[str, Trouble] = field(default_factory=dict)
    answered: int = 0
    damaged: int = 0
    foreign: int = 0
    repeated: int = 0


def read_results(content: bytes, keys: Collection[str], read: Callable[[str], Reply], into: BatchResults) -> None:
    """Add the results in a file to `into`. `read` parses a chat completion and raises TroubleError.

    The first reply to a request is kept; a reply takes the place of a trouble.
    """
    for line in content.splitlines():
        if not line.strip():
            continue
        said = _parse_line(line)
        into.answered += said is not None and _read_status(said) == _OK
        key = None if said is None else said.get("custom_id")
        if said is None or not isinstance(key, str):
            into.damaged += 1
        elif key not in keys:
            into.foreign += 1
        else:
            _add_result(key, said, read, into)


def _add_result(key: str, said: Mapping[str, Any], read: Callable[[str], Reply], into: BatchResults) -> None:
    try:
        reply = _read_reply(said, read)
    except TroubleError as error:
        if key not in into.replies:
            into.troubles[key] = error.trouble
        return
    if key in into.replies:
        into.repeated += 1
        return
    into.replies[key] = reply
    into.troubles.pop(key, None)


def _parse_line(line: bytes) -> Mapping[str, Any] | None:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        return None
    return said if isinstance(said, Mapping) else None


def _read_reply(said: Mapping[str, Any], read: Callable[[str], Reply]) -> Reply:
    """Return the reply in a line. Raises TroubleError with the status and error of a request that got none."""
    response, status = said.get("response"), _read_status(said)
    body = response.get("body") if isinstance(response, Mapping) else None
    if status == _OK and isinstance(body, Mapping):
        return read(json.dumps(body))
    raise TroubleError(_read_trouble(said.get("error"), body, status))


def _read_status(said: Mapping[str, Any]) -> int | None:
    response = said.get("response")
    status = response.get("status_code") if isinstance(response, Mapping) else None
    return status if isinstance(status, int) else None


def _read_trouble(error: Any, body: Any, status: int | None) -> Trouble:
    read = map(read_error, (body, error))
    details = next((one for one in read if one.message), ErrorDetails("no answer"))
    return Trouble(details.message[:_LONGEST_MESSAGE], status, details.code, details.param)
