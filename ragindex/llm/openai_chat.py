"""Client for LLMs at any endpoint with OpenAI's chat protocol."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from pydantic import JsonValue

from ragindex._util.http import (
    Billed,
    RequestProblem,
    RequestProblemError,
    as_mapping,
    make_http_client,
    read_count,
    read_error_answer,
    redact_account,
    send_request,
    strip_credentials,
)
from ragindex.llm.openai_parameters import ChatParameters
from ragindex.llm.output import drop_lengths, is_closed
from ragindex.llm.tasks import Message

if TYPE_CHECKING:
    from openai import OpenAI

_Result = TypeVar("_Result")
_LONGEST_NAME = 64
_LONGEST_SHOWN = 120
_log = logging.getLogger(__name__)
SCHEMA_HINT = "Answer with one JSON object, and nothing else, that fits this JSON schema:\n"
Structure: TypeAlias = Literal["schema", "json", "text"]
_NEXT_STRUCTURE: dict[Structure, Structure] = {"schema": "json", "json": "text"}
_REFUSAL_STATUSES = frozenset({400, 404, 415, 422, 500, 501})
_OTHER_LIMIT = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_UNSUPPORTED_WORDS = (
    "unsupported",
    "not support",
    "unknown",
    "unrecognized",
    "unexpected",
    "not permitted",
    "extra",
    "instead",
)
_STRUCTURE_WORDS = ("response_format", "json_schema", "json_object", "json mode", "schema", "structured", "grammar")
_LENGTHS_OF_LISTS = ("minitems", "maxitems")
_MOST_UNENFORCED = 3  # answers beside the schema, after which the prompt also has the schema
_LENGTH_WORDS = ("context length", "context_length", "too long", "too many tokens", "maximum context")


@dataclass(frozen=True, slots=True)
class EndpointFeatures:
    """Form of requests to an endpoint: output structure, name of the token limit, and omitted parameters.

    `left_out` may contain temperature, seed, system (the role; its text is then put before the user's message), lengths
    (of the lists in a schema) and the name of the token limit that was refused.
    """

    structure: Structure = "schema"
    limit: str = "max_tokens"
    left_out: frozenset[str] = frozenset()

    def __str__(self) -> str:
        names = {"schema": "a JSON schema", "json": "JSON mode", "text": "plain text"}
        without = f", without {', '.join(sorted(self.left_out))}" if self.left_out else ""
        return f"by {names[self.structure]}{without}"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request: messages, the JSON schema of the answer, and the maximum number of answer tokens.

    If `plain`, the answer need not be JSON at endpoints without JSON output. If `hinted`, the messages already contain
    the schema. The request is sent `again` in a later run, after a refusal. `question` is a hash of what is asked,
    whatever the prompt and the settings.
    """

    task: str
    messages: tuple[Message, ...]
    schema: str
    max_tokens: int
    plain: bool = False
    hinted: bool = False
    repeat: int = 0
    again: bool = False
    question: str = ""


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


class OpenAIChat:
    """Client of one model at one address. Sends each request once, in a form that it accepts. Thread-safe.

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
        """The parameters that answers depend on; the reasoning effort only where one is given."""
        field_names = {"temperature", "seed", "structure", "extra"}
        effort = set() if self._parameters.reasoning_effort is None else {"reasoning_effort"}
        return self._parameters.model_dump(mode="json", include=field_names | effort)

    @cached_property
    def _key(self) -> str:
        return self._parameters.read_key(self._workspace)

    @property
    def _client(self) -> "OpenAI":
        with self._lock:  # opening one is slow, and many threads may request it at once
            if self._opened is None:
                self._opened = make_http_client(self._address, self._key, self._parameters.timeout)
            return self._opened

    def form(self, request: ChatRequest) -> EndpointFeatures:
        """Return the form of a request that the endpoint is known, or expected, to accept."""
        return self._memory.of(request.schema)

    def send(self, request: ChatRequest, form: EndpointFeatures) -> Reply:
        """Send a request once. Raises RequestProblemError, UsageError."""
        start = time.perf_counter()
        body = self.call(lambda client: _post(client, self._write(request, form)))
        reply = self.read(body, form.structure, time.perf_counter() - start)
        if self._memory.learn(request.schema, form):
            _log.warning("openai:%s at %s is asked %s, as it accepts no more", self.model, self.base_url, form)
        return reply

    def simplify(self, form: EndpointFeatures, problem: RequestProblem) -> EndpointFeatures | None:
        """Return a simpler form to send a refused request in; None if the refusal has another cause."""
        proven = form.structure in self._memory.proven
        return step_down(form, problem, fixed=self._parameters.structure != "auto", proven=proven)

    def call(self, ask: "Callable[[OpenAI], _Result]") -> _Result:
        """Run a request of the openai package, once. Raises RequestProblemError, UsageError."""
        return send_request(lambda: ask(self._client), self._key)

    def write(self, request: ChatRequest) -> tuple[dict[str, Any], Structure]:
        """Return the JSON of a request in the form that the endpoint is known to accept, and how it asks for JSON."""
        form = self.form(request)
        return self._write(request, form), form.structure

    def read(self, body: str, structure: Structure, seconds: float) -> Reply:
        """Parse a chat completion, without secrets in its texts. Raises RequestProblemError if it is none."""
        try:
            parsed = as_mapping(json.loads(body))
        except (ValueError, RecursionError):
            raise RequestProblemError(
                RequestProblem(f"expected JSON, got {self.hide(body)[:_LONGEST_SHOWN]!r}")
            ) from None
        counts, choices = as_mapping(parsed.get("usage")), parsed.get("choices")
        read = read_count(counts.get("prompt_tokens"))
        cached = read_count(as_mapping(counts.get("prompt_tokens_details")).get("cached_tokens")) or 0
        cached = min(cached, read or 0)
        choice = as_mapping(choices[0]) if isinstance(choices, list) and choices else {}
        message = choice.get("message")
        if not isinstance(message, Mapping):
            unexpected = RequestProblem(f"expected choices with a message, got {self.hide(body)[:_LONGEST_SHOWN]!r}")
            billed = Billed(read, cached, read_count(counts.get("completion_tokens")) or 0) if read else None
            raise RequestProblemError(read_error_answer(parsed, self.hide) or unexpected, billed)
        text = self.hide(_join_text(message.get("content")))
        return Reply(
            text=text,
            finish=self.hide(str(choice.get("finish_reason") or "")),
            refusal=self.hide(_join_text(message.get("refusal"))),
            structure=structure,
            input_tokens=read,
            cached_tokens=cached,
            output_tokens=read_count(counts.get("completion_tokens"), 1 if text else 0),
            seconds=seconds,
        )

    def record_fit(self, *, fits: bool) -> None:
        """Learn whether an answer fits its schema. After a few that do not, the messages also have the schemas."""
        if self._memory.record_fit(fits=fits):
            _log.warning(
                "openai:%s at %s accepts JSON schemas and ignores them: the prompt has them from now on",
                *(self.model, self.base_url),
            )

    def hide(self, text: str) -> str:
        """Return a text of the endpoint without keys and passwords."""
        return redact_account(text, self._key, self._address)

    def _write(self, request: ChatRequest, accepted: EndpointFeatures) -> dict[str, Any]:
        parameters = self._parameters
        seed = None if parameters.seed is None else parameters.seed + request.repeat
        optional = {
            "temperature": parameters.temperature,
            "seed": seed,
            "reasoning_effort": parameters.reasoning_effort,
        }
        optional_fields = {
            key: value for key, value in optional.items() if value is not None and key not in accepted.left_out
        }
        in_prompt = accepted.structure != "schema" or self._memory.ignores_schemas()
        messages = [asdict(message) for message in _build_messages(request, accepted, in_prompt)]
        limit, structure = {accepted.limit: request.max_tokens}, _build_response_format(request, accepted)
        return {"model": self.model, "messages": messages, **limit, **optional_fields, **structure, **parameters.extra}


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
    json_schema = {"name": name[:_LONGEST_NAME], "schema": schema, "strict": is_closed(request.schema)}
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def _build_messages(request: ChatRequest, accepted: EndpointFeatures, in_prompt: bool) -> list[Message]:
    messages = list(request.messages)
    if in_prompt and not request.hinted and not (request.plain and accepted.structure == "text"):
        messages[-1] = replace(messages[-1], content=f"{messages[-1].content}\n\n{SCHEMA_HINT}{request.schema}")
    if "system" in accepted.left_out and messages[0].role == "system" and len(messages) > 1:
        system, first, *rest = messages
        messages = [replace(first, content=f"{system.content}\n\n{first.content}"), *rest]
    return messages


def _join_text(content: Any) -> str:
    """Return the text of a message, joined if it comes in parts, of which some may be thoughts."""
    parts = content if isinstance(content, list) else [content]
    answers = [part for part in parts if as_mapping(part).get("type") not in ("thinking", "reasoning")]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in answers]
    return "".join(text for text in texts if isinstance(text, str))


# ---------------------------------------------------------------- what an endpoint accepts


def step_down(
    accepted: EndpointFeatures, problem: RequestProblem, fixed: bool, proven: bool
) -> EndpointFeatures | None:
    """Return the features to try after a refusal, without the one it names; None if the refusal has another cause.

    It is named by the error's `param` (OpenAI, Azure), else by words of its message, of which
    tests/unit/ragindex/test_error_bodies.py has examples. If the refusal names none, the structure is assumed to be the
    cause, unless it is `proven` to be accepted. A `fixed` structure is never changed.
    """
    if problem.status not in _REFUSAL_STATUSES or problem.out_of_quota:
        return None
    message = f"{problem.param} {problem.code} {problem.message}".lower()
    parameter = problem.param.lower() or message
    if problem.status != 500:  # the message of an internal error may contain any of the words
        lighter = _drop_named_feature(accepted, parameter, message)
        if lighter is not None:
            return lighter
    blamed = any(words in parameter for words in _STRUCTURE_WORDS)
    may_be_blamed = not (proven or problem.param) and problem.status in (400, 415, 422)
    if fixed or not (blamed or (may_be_blamed and not any(words in message for words in _LENGTH_WORDS))):
        return None
    lower = _NEXT_STRUCTURE.get(accepted.structure)
    return None if lower is None else replace(accepted, structure=lower)


def _drop_named_feature(accepted: EndpointFeatures, parameter: str, message: str) -> EndpointFeatures | None:
    """Return the features without the one in `parameter`, the `param` of an error or all words of one without it."""
    no_such = any(words in message for words in _UNSUPPORTED_WORDS)
    other = _OTHER_LIMIT[accepted.limit]
    if accepted.limit in parameter and no_such and other not in accepted.left_out:
        return replace(accepted, limit=other, left_out=accepted.left_out | {accepted.limit})
    for name in ("seed", "temperature"):
        if name in parameter and name not in accepted.left_out:
            return replace(accepted, left_out=accepted.left_out | {name})
    if any(word in message for word in _LENGTHS_OF_LISTS) and "lengths" not in accepted.left_out:
        return replace(accepted, left_out=accepted.left_out | {"lengths"})
    if "system" in message and ("role" in parameter or "message" in parameter) and "system" not in accepted.left_out:
        return replace(accepted, left_out=accepted.left_out | {"system"})
    return None


@dataclass(slots=True)
class EndpointMemory:
    """Features that one model at one address is known to accept. Thread-safe.

    `unenforced` counts answers that did not fit the schema that was sent with the request.
    """

    usual: EndpointFeatures
    proven: set[Structure] = field(default_factory=set)
    unenforced: int = 0
    _by_schema: dict[str, EndpointFeatures] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, schema: str) -> EndpointFeatures:
        """Return the features to use for requests with this schema."""
        with self._lock:
            return self._by_schema.get(schema, self.usual)

    def learn(self, schema: str, accepted: EndpointFeatures) -> bool:
        """Remember that a request in this form was answered; return whether the form is new for the schema.

        If the usual structure is proven for another schema, a lower structure is remembered for this schema only.
        """
        with self._lock:
            is_new = self._by_schema.get(schema, self.usual) != accepted
            exception = _NEXT_STRUCTURE.get(self.usual.structure) is not None and self.usual.structure in self.proven
            if exception and accepted.structure != self.usual.structure:
                self._by_schema[schema] = accepted
            else:
                self.usual = accepted
            self.proven.add(accepted.structure)
            return is_new

    def ignores_schemas(self) -> bool:
        """Return whether the endpoint accepts schemas and does not enforce them."""
        with self._lock:
            return self.unenforced >= _MOST_UNENFORCED

    def record_fit(self, *, fits: bool) -> bool:
        """Count answers in a row that did not fit their schema; return whether `ignores_schemas` has become true.

        It stays true. One answer that fits starts the count anew before.
        """
        with self._lock:
            if self.unenforced < _MOST_UNENFORCED:
                self.unenforced = 0 if fits else self.unenforced + 1
                return self.unenforced == _MOST_UNENFORCED
            return False


_memories: dict[tuple[str, str, Structure], EndpointMemory] = {}
_lock = Lock()


def endpoint_memory(base_url: str, model: str, first: Structure) -> EndpointMemory:
    """Return the process-wide memory of a model at an address; requests begin with the structure `first`."""
    with _lock:
        return _memories.setdefault((base_url, model, first), EndpointMemory(EndpointFeatures(first)))
