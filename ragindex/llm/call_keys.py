"""The keys that answers are cached under, and how a question is known again when it is asked with other settings.

A key holds what an answer depends on: messages, schema, model, address and parameters. It does not hold how an address
of this machine is spelt, nor the version of a task, whose prompt is in the messages. The token limit is in the keys of
answers that it has cut, and in no others: a higher limit would not have made a complete answer longer.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ragindex._util.canonical import digest
from ragindex.llm.cache import CachedResponse, CallSource
from ragindex.llm.openai_chat import SCHEMA_HINT, ChatRequest, OpenAIChat
from ragindex.llm.tasks import Task

_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")
_SHOWN = ("temperature", "seed", "structure", "reasoning_effort")
_HASHED = {"prompt": "another prompt", "schema": "another form of answers", "extra": "other extra parameters"}


_LIMIT_DIGITS = 16  # last digits of a key: a hash of the token limit, or zeros


@dataclass(frozen=True, slots=True)
class CallKeys:
    """The keys that an answer to one request can be under.

    `request` holds the token limit: cut answers are under it, and batches name requests so. Earlier versions stored all
    answers under the first of `earlier`; the others spell the address of this machine in another way.
    """

    request: str
    complete: str
    earlier: tuple[str, ...]

    def candidates(self) -> tuple[str, ...]:
        """Return the keys in the order to look them up: a cut answer is part of a conversation that goes on."""
        return (self.earlier[0], self.request, self.complete, *self.earlier[1:])

    def names(self) -> tuple[str, str]:
        """Return the names that a batch of this or of an earlier version can have given to the request."""
        return (self.request, self.earlier[0])

    def choose(self, answer: CachedResponse, replaced: str | None = None) -> str:
        """Return the key to store an answer under; it must hide the one under the key `replaced`."""
        own = self.request if answer.is_cut else self.complete
        candidates = self.candidates()
        return own if replaced is None or candidates.index(own) <= candidates.index(replaced) else replaced


def complete_key(request_key: str) -> str:
    """Return the key of a complete answer to the request that a batch of this version names so."""
    return request_key[:-_LIMIT_DIGITS] + "0" * _LIMIT_DIGITS


def make_keys(chat: OpenAIChat, task: Task[Any], request: ChatRequest) -> CallKeys:
    """Return the keys of an answer to a request."""
    fields = asdict(request)
    del fields["question"]
    if not request.again:
        del fields["again"]
    parameters = dict(chat.parameters)
    earlier_form = {
        "task": [task.name, task.version, task.hash],
        "parameters": parameters,
        "request": fields,
        "hint": SCHEMA_HINT,
    }
    earlier = [
        _hash({**earlier_form, "model": [chat.provider, chat.model, address]}) for address in _spellings(chat.base_url)
    ]
    identity = _hash(
        {
            "model": [chat.provider, chat.model, spell_address(chat.base_url)],
            "parameters": parameters,
            "request": {name: value for name, value in fields.items() if name != "max_tokens"},
        }
    )
    key = identity[:-_LIMIT_DIGITS] + _hash(request.max_tokens)[:_LIMIT_DIGITS]
    return CallKeys(key, complete_key(key), tuple(earlier))


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# ---------------------------------------------------------------- addresses of this machine


def spell_address(base_url: str) -> str:
    """Return an address with one spelling for this machine, whichever of its names is written."""
    return _spell(base_url, _THIS_MACHINE[0]) if _names_this_machine(base_url) else base_url


def _spellings(base_url: str) -> list[str]:
    """Return an address as it is written, and as it could have been written if it is of this machine."""
    others = [_spell(base_url, host) for host in _THIS_MACHINE] if _names_this_machine(base_url) else []
    return list(dict.fromkeys([base_url, *others]))


def _names_this_machine(base_url: str) -> bool:
    return _split_host(base_url)[0] in _THIS_MACHINE


def _split_host(base_url: str) -> tuple[str, str]:
    """Return host and port of an address without a user; an IPv6 address has its brackets."""
    network = urlsplit(base_url).netloc
    host, colon, port = network.rpartition(":")
    return (host, f":{port}") if colon and not port.endswith("]") else (network, "")


def _spell(base_url: str, host: str) -> str:
    parts = urlsplit(base_url)
    return urlunsplit(parts._replace(netloc=f"{host}{_split_host(base_url)[1]}"))


# ---------------------------------------------------------------- one question under several settings


@dataclass(frozen=True, slots=True)
class PaidBefore:
    """What it takes to ask a question again to which the cache has an answer under other settings.

    `change` says what differs, as "temperature 0 → 0.2", and `reusable` whether `LLMSettings.reuse_answers` keeps the
    answer. The tokens are those of the answer, the money is for the model of today; None if it has no price.
    """

    change: str
    reusable: bool
    input_tokens: int
    output_tokens: int
    money: float | None


def hash_task_input(task: Task[Any], inputs: Mapping[str, Any], repeat: int) -> str:
    """Hash a task's inputs, whatever its prompt and the settings of the model."""
    text = json.dumps([task.name, dict(inputs), repeat], sort_keys=True, ensure_ascii=False, default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def hash_follow_up(question: str, reason: str) -> str:
    """Hash a question that follows an answer which cannot be used for a `reason`."""
    return hashlib.sha256(f"{question} {reason}".encode()).hexdigest()[:32]


def describe_source(chat: OpenAIChat, task: Task[Any], request: ChatRequest) -> CallSource:
    """Return what is stored of a request beside its answer; of long parameters a hash."""
    parameters = chat.parameters
    settings = {name: parameters[name] for name in _SHOWN if name in parameters}
    settings |= {"prompt": task.hash, "schema": digest(request.schema)}
    settings |= {"extra": digest(parameters["extra"])} if parameters.get("extra") else {}
    source = json.dumps(settings, separators=(",", ":"))
    return CallSource(task.name, task.version, chat.provider, chat.model, chat.base_url, request.question, source)


def describe_change(earlier: CallSource, now: CallSource) -> str:
    """Say in which settings two requests for one question differ."""
    pairs = [("model", earlier.model, now.model)]
    pairs += [("address", spell_address(earlier.base_url), spell_address(now.base_url))]
    before, after = json.loads(earlier.settings or "{}"), json.loads(now.settings or "{}")
    pairs += [(name, before.get(name), after.get(name)) for name in _SHOWN]
    changes = [f"{name} {_show(old)} → {_show(new)}" for name, old, new in pairs if old != new]
    changes += [words for name, words in _HASHED.items() if before.get(name) != after.get(name)]
    return ", ".join(changes) or "other inputs"


def _show(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def is_reusable(source: CallSource, answer: CachedResponse, model: str) -> bool:
    """Return whether an answer under other settings can be kept: a complete one of the same model, at any address.

    What stands before the last slash of a model's name is the maker's, which routers add.
    """
    same_model = source.model.rpartition("/")[2].casefold() == model.rpartition("/")[2].casefold()
    return same_model and not answer.is_cut and not answer.refusal
