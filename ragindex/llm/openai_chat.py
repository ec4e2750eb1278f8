"""Client for LLMs at any endpoint with OpenAI's chat protocol."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import JsonValue

from ragindex.errors import UsageError
from ragindex.http import (
    Billed,
    Trouble,
    TroubleError,
    make_http_client,
    read_error_answer,
    read_secret,
    redact,
    send_request,
    strip_credentials,
)
from ragindex.llm.chat_parameters import ChatParameters
from ragindex.llm.endpoint_features import EndpointFeatures, Structure, endpoint_memory, step_down
from ragindex.llm.output import drop_lengths, is_closed
from ragindex.llm.tasks import Message
from ragindex.redaction import find_secrets

if TYPE_CHECKING:
    from openai import OpenAI

_Result = TypeVar("_Result")
_LONGEST_NAME = 64
_LONGEST_SHOWN = 120
_SHORTEST_SECRET = 16  # characters; a shorter one is a placeholder ("none") and may be a word of an answer
_log = logging.getLogger(__name__)
SCHEMA_HINT = "Answer with one JSON object, and nothing else, that fits this JSON schema:\n"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request: messages, the JSON schema of the answer, and the maximum number of answer tokens.

    If `plain`, the answer need not be JSON at endpoints without JSON output. If `hinted`, the messages already contain
    the schema.
    """

    task: str
    messages: tuple[Message, ...]
    schema: str
    max_tokens: int
    plain: bool = False
    hinted: bool = False
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """A response and its latency in `seconds`. Token counts are None if the server's are missing or implausible."""

    text: str
    finish: str
    refusal: str
    structure: Structure
    input_tokens: int | None
    cached_tokens: int
    output_tokens: int | None
    seconds: float


class ChatClient(Protocol):
    """Client of one model at one address. Thread-safe."""

    provider: str
    model: str
    base_url: str

    @property
    def parameters(self) -> Mapping[str, JsonValue]:
        """All other parameters that answers depend on."""
        ...

    def send(self, request: ChatRequest) -> Reply:
        """Send a request once. Raises TroubleError if it fails."""
        ...

    def record_fit(self, *, fits: bool) -> None:
        """Learn whether an answer fits the schema that was sent with its request."""
        ...


class OpenAIChat:
    """Client that sends each request once, in a form that the endpoint accepts.

    No key is needed before the first request, so cached calls are replayed without one.
    """

    provider = "openai"

    def __init__(self, parameters: ChatParameters, base_url: str, index: Path | None = None) -> None:
        self._parameters, self._address, self._workspace = parameters, base_url, index
        self.model, self.base_url = parameters.model, strip_credentials(base_url)
        first: Structure = "schema" if parameters.structure == "auto" else parameters.structure
        self._memory = endpoint_memory(self.base_url, self.model, first)
        self._opened: OpenAI | None = None
        self._lock = Lock()

    @property
    def parameters(self) -> Mapping[str, JsonValue]:
        """Temperature, seed, structure and extra parameters; the reasoning effort only where one is given."""
        named = {"temperature", "seed", "structure", "extra"}
        effort = set() if self._parameters.reasoning_effort is None else {"reasoning_effort"}
        return self._parameters.model_dump(mode="json", include=named | effort)

    @cached_property
    def _key(self) -> str:
        name = self._parameters.key_variable
        key = read_secret([name], self._workspace)
        if key is None:
            raise UsageError(
                f"openai:{self.model} needs a key: set {name}, or {name}_FILE to a file outside the index. "
                "For an endpoint without keys, any word will do."
            )
        return key

    @property
    def _client(self) -> "OpenAI":
        with self._lock:  # opening one is slow, and many threads may request it at once
            if self._opened is None:
                self._opened = make_http_client(self._address, self._key, self._parameters.timeout)
            return self._opened

    def send(self, request: ChatRequest) -> Reply:
        """Send a request, in simpler forms if the endpoint refuses the form. Raises TroubleError, UsageError."""
        accepted = self._memory.of(request.schema)
        while True:
            start = time.perf_counter()
            try:
                body = self.call(lambda client: _post(client, self._write(request, accepted)))  # noqa: B023  # at once
            except TroubleError as error:
                proven = accepted.structure in self._memory.proven
                fixed = self._parameters.structure != "auto"
                lower = step_down(accepted, error.trouble, fixed, proven)
                if lower is None:
                    raise
                accepted = lower
                continue
            seconds = time.perf_counter() - start
            reply = self.read(body, accepted.structure, seconds)
            if self._memory.learn(request.schema, accepted):
                _log.warning("openai:%s at %s is asked %s, as it accepts no more", self.model, self.base_url, accepted)
            return reply

    def call(self, ask: "Callable[[OpenAI], _Result]") -> _Result:
        """Run a request of the openai package, once. Raises TroubleError, UsageError."""
        return send_request(lambda: ask(self._client), self._key)

    def write(self, request: ChatRequest) -> tuple[dict[str, Any], Structure]:
        """Return the JSON of a request in the form that the endpoint is known to accept, and how it asks for JSON."""
        accepted = self._memory.of(request.schema)
        return self._write(request, accepted), accepted.structure

    def read(self, body: str, structure: Structure, seconds: float) -> Reply:
        """Parse a chat completion. Raises TroubleError if it is none."""
        return read_reply(body, structure, seconds, self.hide)

    def record_fit(self, *, fits: bool) -> None:
        """Learn whether an answer fits its schema. After a few that do not, schemas are also told in the messages."""
        if self._memory.record_fit(fits=fits):
            _log.warning(
                "openai:%s at %s accepts JSON schemas and ignores them: they are told in the prompt from now on",
                *(self.model, self.base_url),
            )

    def hide(self, text: str) -> str:
        """Return a text of the endpoint without keys and passwords."""
        secrets = (self._key, *find_secrets(self._address))
        return redact(text, *(secret for secret in secrets if len(secret) >= _SHORTEST_SECRET))

    def _write(self, request: ChatRequest, accepted: EndpointFeatures) -> dict[str, Any]:
        given = self._parameters
        seed = None if given.seed is None else given.seed + request.repeat
        optional = {"temperature": given.temperature, "seed": seed, "reasoning_effort": given.reasoning_effort}
        kept = {key: value for key, value in optional.items() if value is not None and key not in accepted.left_out}
        structure = _build_response_format(request, accepted)
        told = accepted.structure != "schema" or self._memory.ignores_schemas()
        messages = [
            {"role": message.role, "content": message.content} for message in _build_messages(request, accepted, told)
        ]
        limit = {accepted.limit: request.max_tokens}
        return {"model": self.model, "messages": messages, **limit, **kept, **structure, **given.extra}


def _post(client: "OpenAI", body: dict[str, Any]) -> str:
    response = client.chat.completions.with_raw_response.create(
        model=body["model"],
        messages=[],  # replaced by those of `extra_body`, which the openai package does not process first
        extra_body=body,
    )
    return response.http_response.text


def _build_response_format(request: ChatRequest, accepted: EndpointFeatures) -> dict[str, Any]:
    if accepted.structure == "text":
        return {}
    if accepted.structure == "json":
        return {"response_format": {"type": "json_object"}}
    name = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in request.task)
    schema = json.loads(request.schema)
    if "lengths" in accepted.left_out:
        schema = drop_lengths(schema)
    named = {"name": name[:_LONGEST_NAME], "schema": schema, "strict": is_closed(request.schema)}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _build_messages(request: ChatRequest, accepted: EndpointFeatures, told: bool) -> list[Message]:
    messages = list(request.messages)
    if told and not request.hinted and not (request.plain and accepted.structure == "text"):
        messages[-1] = replace(messages[-1], content=f"{messages[-1].content}\n\n{SCHEMA_HINT}{request.schema}")
    if "system" in accepted.left_out and messages[0].role == "system" and len(messages) > 1:
        system, first, *rest = messages
        messages = [replace(first, content=f"{system.content}\n\n{first.content}"), *rest]
    return messages


# ---------------------------------------------------------------- responses


def read_reply(body: str, structure: Structure, seconds: float, hidden: Callable[[str], str]) -> Reply:
    """Parse a chat completion, with secrets removed from its texts by `hidden`. Raises TroubleError if it is none."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        raise TroubleError(Trouble(f"expected JSON, got {hidden(body)[:_LONGEST_SHOWN]!r}")) from None
    said = parsed if isinstance(parsed, Mapping) else {}
    usage = said.get("usage")
    billed = _read_billed(usage if isinstance(usage, Mapping) else {})
    choices = said.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    message = choice.get("message")
    if not isinstance(message, Mapping):
        unexpected = Trouble(f"expected choices with a message, got {hidden(body)[:_LONGEST_SHOWN]!r}")
        trouble = read_error_answer(said, hidden) or unexpected
        raise TroubleError(trouble, billed if billed.input_tokens else None)
    text = hidden(_join_text(message.get("content")))
    counts = usage if isinstance(usage, Mapping) else {}
    return Reply(
        text=text,
        finish=hidden(str(choice.get("finish_reason") or "")),
        refusal=hidden(_join_text(message.get("refusal"))),
        structure=structure,
        input_tokens=billed.input_tokens or None,
        cached_tokens=billed.cached_tokens,
        output_tokens=_read_count(counts.get("completion_tokens"), 1 if text else 0),
        seconds=seconds,
    )


def _read_billed(counts: Mapping[str, Any]) -> Billed:
    """Return the token counts of the server, with 0 for those that are missing or implausible."""
    details = counts.get("prompt_tokens_details")
    read = _read_count(counts.get("prompt_tokens"), 1) or 0
    cached = _read_count(details.get("cached_tokens"), 0) if isinstance(details, Mapping) else None
    return Billed(read, min(cached or 0, read), _read_count(counts.get("completion_tokens"), 0) or 0)


def _join_text(content: Any) -> str:
    """Return the text of a message, joined if it comes in parts, of which some may be thoughts."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts if not _is_thought(part)]
    return "".join(text for text in texts if isinstance(text, str))


def _is_thought(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in ("thinking", "reasoning")


def _read_count(value: Any, least: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= least else None
