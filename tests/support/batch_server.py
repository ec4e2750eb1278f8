"""A real HTTP server that speaks OpenAI's Batch API besides its chats, and counts what it bills.

`server.plans` says what happens to the batches that are created, in order; without a plan, a batch is completed at the
third look at it. Requests of a batch are answered as those of chats, and billed as `batched`; those of chats are billed
as `single`. A request of which `server.before` says True is dropped before the server acts on it. Other faults of HTTP
requests are those of `OpenAIServer`: `faults` and `choose`.
"""

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from openai_server import Answer, OpenAIServer, Received

ENDED = ("completed", "failed", "expired", "cancelled")


@dataclass(frozen=True)
class BatchPlan:
    """What happens to a batch, by the places of its requests in the file.

    It ends with `status` at look number `looks`. `errors` are the requests that get an error of a status in place of an
    answer, `unanswered` those that get nothing at all (an expired batch). `repeated` are answered twice. `lines` are
    further lines of the result file. The first `cuts` downloads of it end in the middle.
    """

    status: str = "completed"
    looks: int = 3
    errors: Mapping[int, int] = field(default_factory=dict)
    unanswered: frozenset[int] = frozenset()
    repeated: frozenset[int] = frozenset()
    lines: tuple[str, ...] = ()
    cuts: int = 0
    problem: tuple[str, str] | None = None
    seconds: int = 100


@dataclass
class Bill:
    """Tokens that were billed."""

    requests: int = 0
    read: int = 0
    cached: int = 0
    written: int = 0

    def add(self, usage: Mapping[str, Any]) -> None:
        self.requests += 1
        self.read += usage["prompt_tokens"]
        self.cached += usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
        self.written += usage["completion_tokens"]

    def money(self, read: float, cached: float, written: float) -> float:
        """Dollars, by prices of a million tokens."""
        return ((self.read - self.cached) * read + self.cached * cached + self.written * written) / 1e6


class BatchServer(OpenAIServer):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.plans: list[BatchPlan] = []
        self.files: dict[str, str] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.single, self.batched = Bill(), Bill()
        self.cached_tokens = 0
        self.before: Callable[[Received], bool] = lambda received: False
        self.page = 2  # batches in one answer to a list
        self._looks: dict[str, int] = {}
        self._plans: dict[str, BatchPlan] = {}
        self._downloads: dict[str, int] = {}
        self.routes["/v1/chat/completions"] = self._single_chat

    def answer(self, received: Received) -> Answer | None:
        if self.before(received):
            return None
        path = urlsplit(received.path).path
        self.routes.setdefault(received.path, lambda body: self._serve(received, path, body))
        return super().answer(received)

    def paths(self) -> list[str]:
        """The paths asked for, in order, with ids replaced by `ID`."""
        names = [*self.batches, *self.files]
        paths = [urlsplit(request.path).path for request in self.requests]
        return ["/".join("ID" if part in names else part for part in path.split("/")) for path in paths]

    def _serve(self, received: Received, path: str, body: Mapping[str, Any]) -> Answer:
        parts = path.removeprefix("/v1/").split("/")
        with self._lock:
            if parts == ["files"]:
                return self._upload(body)
            if parts == ["batches"]:
                return self._create(body) if body else self._list(parse_qs(urlsplit(received.path).query))
            if len(parts) == 2 and parts[0] == "batches" and parts[1] in self.batches:
                return self._look(parts[1])
            if len(parts) == 3 and parts[0] == "files" and parts[1] in self.files:
                return self._download(parts[1])
        return Answer(404, {"error": {"message": f"no such path {path}"}})

    def _upload(self, body: Mapping[str, Any]) -> Answer:
        assert body["purpose"] == "batch"
        return Answer(200, {"id": self._keep(body["file"]), "object": "file", "purpose": "batch"})

    def _keep(self, text: str) -> str:
        id = f"file-{len(self.files)}"
        self.files[id] = text
        return id

    def _create(self, body: Mapping[str, Any]) -> Answer:
        assert (body["endpoint"], body["completion_window"]) == ("/v1/chat/completions", "24h")
        id = f"batch_{len(self.batches)}"
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        ids = [line["custom_id"] for line in lines]
        assert len(set(ids)) == len(ids) <= 50_000
        self._plans[id] = self.plans.pop(0) if self.plans else BatchPlan()
        self.batches[id] = {
            "id": id,
            "object": "batch",
            "status": "validating",
            "input_file_id": body["input_file_id"],
            "metadata": body["metadata"],
            "created_at": int(time.time()),
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
        }
        return Answer(200, self.batches[id])

    def _list(self, query: Mapping[str, list[str]]) -> Answer:
        newest = list(reversed(self.batches.values()))
        after = query.get("after", [""])[0]
        start = next((place + 1 for place, batch in enumerate(newest) if batch["id"] == after), 0)
        end = start + min(self.page, int(query["limit"][0]))
        return Answer(200, {"object": "list", "data": newest[start:end], "has_more": end < len(newest)})

    def _look(self, id: str) -> Answer:
        plan, batch = self._plans[id], self.batches[id]
        self._looks[id] = self._looks.get(id, 0) + 1
        if batch["status"] not in ENDED:
            batch["status"] = "in_progress"
            if self._looks[id] >= plan.looks:
                self._end(batch, plan)
        return Answer(200, dict(batch))

    def _end(self, batch: dict[str, Any], plan: BatchPlan) -> None:
        batch["status"] = plan.status
        batch[f"{plan.status}_at"] = batch["created_at"] + plan.seconds
        if plan.problem:
            batch["errors"] = {"data": [{"code": plan.problem[0], "message": plan.problem[1]}]}
        if plan.status == "failed":
            return
        answers, errors = list(plan.lines), list[str]()
        for place, line in enumerate(json.loads(text) for text in self.files[batch["input_file_id"]].splitlines()):
            if place in plan.errors or place in plan.unanswered:
                errors.append(self._refuse(line["custom_id"], plan.errors.get(place)))
                continue
            result = self._answer_line(line)
            answers += [result] * (2 if place in plan.repeated else 1)
        random.Random(len(answers)).shuffle(answers)
        batch["request_counts"] |= {
            "completed": len(answers) - len(plan.lines) - len(plan.repeated),
            "failed": len(errors),
        }
        batch["output_file_id"] = self._keep("\n".join(answers) + "\n") if answers else None
        batch["error_file_id"] = self._keep("\n".join(errors) + "\n") if errors else None

    def _answer_line(self, line: Mapping[str, Any]) -> str:
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        body = self._with_cached(self._chat(line["body"]).body)
        if "usage" in body:
            self.batched.add(body["usage"])
            return json.dumps({"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}})
        return json.dumps({"custom_id": line["custom_id"], "response": {"status_code": 400, "body": body}})

    def _refuse(self, key: str, status: int | None) -> str:
        if status is None:
            error = {"code": "batch_expired", "message": "This request could not be executed before it expired."}
            return json.dumps({"custom_id": key, "response": None, "error": error})
        body = {"error": {"message": f"refused with {status}", "type": "test", "code": None}}
        return json.dumps({"custom_id": key, "response": {"status_code": status, "body": body}, "error": None})

    def _download(self, id: str) -> Answer:
        plan = next(
            (
                self._plans[batch["id"]]
                for batch in self.batches.values()
                if id in (batch.get("output_file_id"), batch.get("error_file_id"))
            ),
            BatchPlan(),
        )
        self._downloads[id] = self._downloads.get(id, 0) + 1
        text = self.files[id]
        return Answer(200, text[: len(text) // 2] if self._downloads[id] <= plan.cuts else text)

    def _single_chat(self, body: Mapping[str, Any]) -> Answer:
        answer = self._chat(body)
        if answer.status != 200:
            return answer
        given = self._with_cached(answer.body)
        with self._lock:
            self.single.add(given["usage"])
        return Answer(200, given)

    def _with_cached(self, body: Mapping[str, Any] | str) -> Mapping[str, Any]:
        assert isinstance(body, Mapping)
        if "usage" not in body or not self.cached_tokens:
            return body
        cached = min(self.cached_tokens, body["usage"]["prompt_tokens"])
        return {**body, "usage": {**body["usage"], "prompt_tokens_details": {"cached_tokens": cached}}}
