"""A service that charges for every answer that it worked on, whatever it then sends, and keeps the sum.

`Charging(server)` meters the chats, embeddings and rerankings of an `OpenAIServer`. `misbehave` says what is sent in
place of an answer, by the number of attempts at the same request; a `Misbehaviour` may be free of charge. `spoilt`
counts requests that were not answered as they should be.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from openai_server import Answer, Fault, OpenAIServer, Received, chat, drop, half, says, status

DOLLARS = {"/v1/chat/completions": (0.001, 0.003), "/v1/embeddings": (0.0005, 0.0), "/v1/rerank": (0.0002, 0.0)}
"""For a token that is read, and one that is written."""


@dataclass(frozen=True)
class Misbehaviour:
    """What is sent in place of an answer, whether the answer is charged, and seconds between its charge and the end."""

    fault: Fault
    charged: bool = True
    seconds: float = 0.0


def longer(times: int) -> Fault:
    """An answer of so many times the tokens that the request allows, with the finish reason of a whole one."""

    def spoil(answer: Answer) -> Answer:
        assert isinstance(answer.body, Mapping)
        return replace(
            answer, body={**answer.body, "usage": {**answer.body["usage"], "completion_tokens": times * 100}}
        )

    return spoil


def shown_error(code: int) -> Fault:
    """An error in an answer with status 200, as routers send it, without counts."""
    return says(json.dumps({"error": {"message": "upstream failed", "code": code}}))


LOST: Mapping[str, Misbehaviour] = {
    "closed": Misbehaviour(drop),
    "half a body": Misbehaviour(half),
    "no JSON": Misbehaviour(says("<html>gateway</html>")),
    "no choices": Misbehaviour(says('{"choices": []}')),
    "error in a 200": Misbehaviour(shown_error(502)),
    "500": Misbehaviour(status(500, "it failed after the work")),
    "503": Misbehaviour(status(503, "overloaded"), charged=False),
}
"""What may have been charged and gives no answer that can be read."""
TIMEOUT = Misbehaviour(drop, seconds=1.5)
"""At a client that waits for a second."""
FREE: Mapping[str, Misbehaviour] = {
    "429": Misbehaviour(status(429, "slow down"), charged=False),
    "408": Misbehaviour(status(408), charged=False),
    "409": Misbehaviour(status(409), charged=False),
}
"""What passes and is not charged."""
UNUSABLE: Mapping[str, tuple[Misbehaviour, str]] = {
    "truncated": (Misbehaviour(chat(content='{"text": "on', finish_reason="length")), "reasoning_tokens="),
    "malformed": (Misbehaviour(chat(content="I am sorry, that is no JSON.")), "structure=json or structure=text"),
    "empty": (Misbehaviour(chat(content="")), "structure=json or structure=text"),
    "refusal": (Misbehaviour(chat(content=None, refusal="I cannot help with this.")), "Use another model"),
}
"""Answers that are charged and cannot be used, and what the error suggests."""


class Charging:
    """See the module."""

    def __init__(self, server: OpenAIServer) -> None:
        self.server, self.charged, self.spoilt = server, 0.0, 0
        self.misbehave: Callable[[Received, int], Misbehaviour | None] = lambda received, attempt: None
        self._attempts: Counter[str] = Counter()
        self._lock = Lock()
        server.answer = self._answer  # type: ignore[method-assign]

    def _answer(self, received: Received) -> Answer | None:
        self.server.requests.append(received)
        right = self.server.routes[received.path](received.body)
        request = json.dumps(received.body, sort_keys=True)
        with self._lock:
            attempt = self._attempts[request]
            self._attempts[request] += 1
        misbehaviour = self.misbehave(received, attempt)
        sent = right if misbehaviour is None else misbehaviour.fault(right)
        if misbehaviour is None or misbehaviour.charged:
            counted = _usage(sent) or _usage(right)
            dollars = DOLLARS[received.path]
            with self._lock:
                self.charged += counted.get("prompt_tokens", counted.get("total_tokens", 0)) * dollars[0]
                self.charged += counted.get("completion_tokens", 0) * dollars[1]
        with self._lock:
            self.spoilt += misbehaviour is not None
        if misbehaviour is not None:
            time.sleep(misbehaviour.seconds)
        return sent


def _usage(answer: Answer | None) -> dict[str, Any]:
    body = answer.body if answer is not None and isinstance(answer.body, Mapping) else {}
    return dict(body.get("usage") or {})
