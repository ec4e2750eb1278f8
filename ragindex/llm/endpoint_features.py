"""Request features that an endpoint accepts, learned from its responses and remembered by address and model."""

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Literal, TypeAlias

from ragindex.http import Trouble

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
_MOST_UNENFORCED = 3  # answers beside the schema, after which the schema is also told in the prompt
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


def step_down(accepted: EndpointFeatures, trouble: Trouble, fixed: bool, proven: bool) -> EndpointFeatures | None:
    """Return the features to try after a refusal, without the one it names; None if the refusal has another cause.

    If the refusal names no feature, the structure is assumed to be the cause, unless it is `proven` to be accepted. A
    `fixed` structure is never changed.
    """
    if trouble.status not in _REFUSAL_STATUSES or trouble.out_of_quota:
        return None
    said = f"{trouble.param} {trouble.code} {trouble.message}".lower()
    if trouble.status != 500:  # the message of an internal error may contain any of the words
        lighter = _drop_named_feature(accepted, said)
        if lighter is not None:
            return lighter
    blamed = any(words in said for words in _STRUCTURE_WORDS)
    if fixed or not (blamed or _is_unspecific(trouble, said, proven)):
        return None
    lower = _NEXT_STRUCTURE.get(accepted.structure)
    return None if lower is None else replace(accepted, structure=lower)


def _drop_named_feature(accepted: EndpointFeatures, said: str) -> EndpointFeatures | None:
    no_such = any(words in said for words in _UNSUPPORTED_WORDS)
    other = _OTHER_LIMIT[accepted.limit]
    if accepted.limit in said and no_such and other not in accepted.left_out:
        return replace(accepted, limit=other, left_out=accepted.left_out | {accepted.limit})
    for name in ("seed", "temperature"):
        if name in said and name not in accepted.left_out:
            return replace(accepted, left_out=accepted.left_out | {name})
    if any(word in said for word in _LENGTHS_OF_LISTS) and "lengths" not in accepted.left_out:
        return replace(accepted, left_out=accepted.left_out | {"lengths"})
    if "system" in said and ("role" in said or "message" in said) and "system" not in accepted.left_out:
        return replace(accepted, left_out=accepted.left_out | {"system"})
    return None


def _is_unspecific(trouble: Trouble, said: str, proven: bool) -> bool:
    return not proven and trouble.status in (400, 415, 422) and not any(words in said for words in _LENGTH_WORDS)


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
            news = self._by_schema.get(schema, self.usual) != accepted
            exception = _NEXT_STRUCTURE.get(self.usual.structure) is not None and self.usual.structure in self.proven
            if exception and accepted.structure != self.usual.structure:
                self._by_schema[schema] = accepted
            else:
                self.usual = accepted
            self.proven.add(accepted.structure)
            return news

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
