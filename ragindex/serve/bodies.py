"""Bodies of requests: bounded in bytes, in time and all together; large ones are parsed beside the event loop."""

import asyncio
import json
import json.decoder
import json.scanner
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from ragindex.serve.refusals import RefusalError, busy

_Scan: TypeAlias = Callable[[str, int], tuple[Any, int]]
_CLOSE = {"Connection": "close"}
MOST_VALUES = 1_000_000


class BodyBudget:
    """The bytes of bodies that are held at once. Used on the event loop only."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0

    def require(self, size: int) -> None:
        """Raise RefusalError (503 with Retry-After) if so many bytes more do not fit."""
        if self.taken + size > self.most:
            raise busy(f"Bodies of {self.taken} bytes are held, of {self.most} at most. Try again.", "bodies")


@asynccontextmanager
async def receive_body(
    headers: Headers, receive: Receive, budget: BodyBudget, most: int, seconds: float
) -> AsyncIterator[bytes]:
    """Give the body of a request, which counts against `budget` until the context ends.

    Raises RefusalError (413, 408, 503), and ClientDisconnect if the client leaves.
    """
    stated = _stated_length(headers)
    _require_size(stated, most)
    budget.require(stated)
    pieces, size = list[bytes](), 0
    try:
        try:
            async with asyncio.timeout(seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    piece = message.get("body", b"")
                    _require_size(size + len(piece), most)
                    budget.require(len(piece))
                    budget.taken, size = budget.taken + len(piece), size + len(piece)
                    pieces.append(piece)
                    more = message.get("more_body", False)
        except TimeoutError:
            text = f"The body did not arrive within {seconds:g} seconds."
            raise RefusalError(408, text, "body_time", _CLOSE) from None
        yield pieces[0] if len(pieces) == 1 else b"".join(pieces)
    finally:
        budget.taken -= size


def _require_size(size: int, most: int) -> None:
    if size > most:
        raise RefusalError(413, f"The body has more than {most} bytes.", "body_size", _CLOSE)


def _stated_length(headers: Headers) -> int:
    stated = headers.get("content-length", "")
    return int(stated) if stated.isdecimal() and len(stated) < 19 else 0


# ---------------------------------------------------------------- parsing


class _SteppingDecoder(json.JSONDecoder):
    """A decoder that parses in steps of Python, between which other threads run, and bounds the number of values.

    The usual one, in C, keeps the interpreter's lock to the end. Strings are read in C here, too.
    """

    def __init__(self, most_values: int) -> None:
        super().__init__()
        self._left = most_values
        parts: Any = self  # the stubs leave out what a decoder is made of
        parts.parse_array, parts.parse_object = self._parse_array, self._parse_object
        scanner: Any = json.scanner
        parts.scan_once = scanner.py_make_scanner(self)

    def _parse_array(self, state: Any, scan_once: _Scan) -> Any:
        decoder: Any = json.decoder
        return decoder.JSONArray(state, self._count(scan_once))

    def _parse_object(self, state: Any, strict: bool, scan_once: _Scan, *hooks: Any) -> Any:
        decoder: Any = json.decoder
        return decoder.JSONObject(state, strict, self._count(scan_once), *hooks)

    def _count(self, scan_once: _Scan) -> _Scan:
        def scan_counted(text: str, start: int) -> tuple[Any, int]:
            self._left -= 1
            if self._left < 0:
                raise RefusalError(413, f"The body has more than {MOST_VALUES} values.", "body_values")
            return scan_once(text, start)

        return scan_counted


def parse_large(body: bytes, model: type[BaseModel]) -> BaseModel:
    """Parse and validate a body, for a thread. Raises RequestValidationError, and RefusalError (400, 413)."""
    try:
        value = _SteppingDecoder(MOST_VALUES).decode(body.decode(json.detect_encoding(body), "surrogatepass"))
        return model.model_validate(value)
    except json.JSONDecodeError as error:
        details = [{"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error"}]
        raise RequestValidationError(details) from None
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError([{**error, "loc": ("body", *error["loc"])} for error in errors]) from None
    except (ValueError, RecursionError):  # no text, an endless number, or a depth that no document needs
        raise RefusalError(400, "There was an error parsing the body.", "invalid_body") from None
