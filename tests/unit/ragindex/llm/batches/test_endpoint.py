"""Results of a batch that are errors, in the forms of services."""

import json
from typing import Any

import pytest

from ragindex._util.http import RequestProblem
from ragindex.llm.batches.endpoint import read_results


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({"error": {"message": "expired", "code": "batch_expired"}}, RequestProblem("expired", None, "batch_expired")),
        (
            {"response": {"status_code": 400, "body": {"error": {"message": "no seed", "param": "seed"}}}},
            RequestProblem("no seed", 400, param="seed"),
        ),
        (
            {"response": {"status_code": 422, "body": {"detail": [{"loc": ["body", "seed"], "msg": "not allowed"}]}}},
            RequestProblem("body.seed: not allowed", 422),
        ),
        ({"response": {"status_code": 500, "body": None}}, RequestProblem("no answer", 500)),
    ],
)
def test_errors(result: dict[str, Any], problem: RequestProblem) -> None:
    line = json.dumps({"custom_id": "a", **result}).encode()
    results = read_results([line], ["a"], lambda body: pytest.fail(body))
    assert results.problems == {"a": problem}
