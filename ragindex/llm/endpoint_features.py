"""What an endpoint accepts: found out by asking, remembered by address and model."""

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Literal, TypeAlias

from ragindex.http import Trouble

Structure: TypeAlias = Literal["schema", "json", "text"]
_LOWER: dict[Structure, Structure] = {"schema": "json", "json": "text"}
_REFUSING = frozenset({400, 404, 415, 422, 500, 501})
_OTHER_LIMIT = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_NO_SUCH = ("unsupported", "not support", "unknown", "unrecognized", "unexpected", "not permitted", "extra", "instead")
_STRUCTURE_WORDS = ("response_format", "json_schema", "json_object", "json mode", "schema", "structured", "grammar")
_TOO_LONG = ("context length", "context_length", "too long", "too many tokens", "maximum context")


@dataclass(frozen=True, slots=True)
class EndpointFeatures:
    """How requests are written: the structure asked for, the name of the limit, and what is left out.

    `left_out` holds some of temperature, seed, system (the role, whose text then goes before the user's) and the name
    of the limit that was refused first.
    """

    structure: Structure = "schema"
    limit: str = "max_tokens"
    left_out: frozenset[str] = frozenset()

    def __str__(self) -> str:
        names = {"schema": "a JSON schema", "json": "JSON mode", "text": "plain text"}
        without = f", without {', '.join(sorted(self.left_out))}" if self.left_out else ""
        return f"by {names[self.structure]}{without}"


def step_down(accepted: EndpointFeatures, trouble: Trouble, fixed: bool, proven: bool) -> EndpointFeatures | None:
    """What to try after a refusal: without what it blames; None where it is about something else.

    A refusal that names nothing is blamed on the structure, unless that is `proven` to be accepted. A `fixed`
    structure is never given up.
    """
    if trouble.status not in _REFUSING or trouble.out_of_quota:
        return None
    said = f"{trouble.param} {trouble.code} {trouble.message}".lower()
    if trouble.status != 500:  # a broken server says many words
        lighter = _without_what_is_named(accepted, said)
        if lighter is not None:
            return lighter
    blamed = any(words in said for words in _STRUCTURE_WORDS)
    if fixed or not (blamed or _says_nothing(trouble, said, proven)):
        return None
    lower = _LOWER.get(accepted.structure)
    return None if lower is None else replace(accepted, structure=lower)


def _without_what_is_named(accepted: EndpointFeatures, said: str) -> EndpointFeatures | None:
    no_such = any(words in said for words in _NO_SUCH)
    other = _OTHER_LIMIT[accepted.limit]
    if accepted.limit in said and no_such and other not in accepted.left_out:
        return replace(accepted, limit=other, left_out=accepted.left_out | {accepted.limit})
    for name in ("seed", "temperature"):
        if name in said and name not in accepted.left_out:
            return replace(accepted, left_out=accepted.left_out | {name})
    if "system" in said and ("role" in said or "message" in said) and "system" not in accepted.left_out:
        return replace(accepted, left_out=accepted.left_out | {"system"})
    return None


def _says_nothing(trouble: Trouble, said: str, proven: bool) -> bool:
    return not proven and trouble.status in (400, 415, 422) and not any(words in said for words in _TOO_LONG)


@dataclass(slots=True)
class EndpointMemory:
    """What one model at one address accepts, as far as answers have shown. Thread-safe."""

    usual: EndpointFeatures
    proven: set[Structure] = field(default_factory=set)
    _by_schema: dict[str, EndpointFeatures] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, schema: str) -> EndpointFeatures:
        """How to ask for this schema."""
        with self._lock:
            return self._by_schema.get(schema, self.usual)

    def learn(self, schema: str, accepted: EndpointFeatures) -> bool:
        """A request written so was answered; whether that is news.

        One schema's refusal is no other's where another was accepted.
        """
        with self._lock:
            news = self._by_schema.get(schema, self.usual) != accepted
            exception = _LOWER.get(self.usual.structure) is not None and self.usual.structure in self.proven
            if exception and accepted.structure != self.usual.structure:
                self._by_schema[schema] = accepted
            else:
                self.usual = accepted
            self.proven.add(accepted.structure)
            return news


_memories: dict[tuple[str, str, Structure], EndpointMemory] = {}
_lock = Lock()


def endpoint_memory(base_url: str, model: str, first: Structure) -> EndpointMemory:
    """This process's memory of a model at an address, whose requests begin with the structure `first`."""
    with _lock:
        return _memories.setdefault((base_url, model, first), EndpointMemory(EndpointFeatures(first)))
