"""Results of a batch that are errors, in the forms of services."""

import json
from typing import Any

import pytest

from ragindex._util.http import Trouble
from ragindex.llm.batches.endpoint import read_results


@pytest.mark.parametrize(
    ("result", "trouble"),
    [
        ({"error": {"message": "expired", "code": "batch_expired"}}, Trouble("expired", None, "batch_expired")),
        (
            {"response": {"status_code": 400, "body": {"error": {"message": "no seed", "param": "seed"}}}},
            Trouble("no seed", 400, param="seed"),
        ),
        (
            {"response": {"status_code": 422, "body": {"detail": [{"loc": ["body", "seed"], "msg": "not allowed"}]}}},
            Trouble("body.seed: not allowed", 422),
        ),
        ({"response": {"status_code": 500, "body": None}}, Trouble("no answer", 500)),
    ],
)
def test_errors(result: dict[str, Any], trouble: Trouble) -> None:
    line = json.dumps({"custom_id": "a", **result}).encode()
    results = read_results([line], ["a"], lambda body: pytest.fail(body))
    assert results.troubles == {"a": trouble}
