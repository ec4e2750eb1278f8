"""Error responses in the forms of real services and proxies: what they say, name and ask to wait."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex._util.error_bodies import ErrorDetails, find_wait, read_error_body
from ragindex._util.http import RequestProblem

EXTRA = [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 0}]
FORMS: dict[str, tuple[Any, ErrorDetails]] = {
    "OpenAI": (
        {
            "error": {
                "message": "Unknown argument: seed",
                "type": "invalid_request_error",
                "param": "seed",
                "code": None,
            }
        },
        ErrorDetails("Unknown argument: seed", "invalid_request_error", "seed"),
    ),
    "Azure OpenAI": (
        {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}},
        ErrorDetails("The API deployment does not exist.", "DeploymentNotFound"),
    ),
    "Gemini, a list": (
        [{"error": {"code": 400, "message": 'Unknown name "seed": Cannot find field.', "status": "INVALID_ARGUMENT"}}],
        ErrorDetails('Unknown name "seed": Cannot find field.', "INVALID_ARGUMENT"),
    ),
    "Mistral, an object": (
        {"object": "error", "message": {"detail": EXTRA}, "type": "invalid_request_error"},
        ErrorDetails("body.seed: Extra inputs are not permitted", "extra_forbidden"),
    ),
    "FastAPI and Azure AI": (
        {"detail": EXTRA},
        ErrorDetails("body.seed: Extra inputs are not permitted", "extra_forbidden"),
    ),
    "FastAPI, a text": ({"detail": "seed is not supported"}, ErrorDetails("seed is not supported")),
    "vLLM": (
        {"object": "error", "message": "seed: not permitted", "type": "BadRequestError", "code": 400},
        ErrorDetails("seed: not permitted", "BadRequestError"),
    ),
    "Ollama": ({"error": "unknown field seed"}, ErrorDetails("unknown field seed")),
    "Hugging Face, a list": ({"error": ["no seed", "no top_k"]}, ErrorDetails("no seed; no top_k")),
    "TEI": (
        {"error": "batch size 64 > maximum allowed batch size 32", "error_type": "Validation"},
        ErrorDetails("batch size 64 > maximum allowed batch size 32", "Validation"),
    ),
    "errors": ({"errors": [{"message": "no seed"}, {"message": "no top_k"}]}, ErrorDetails("no seed; no top_k")),
    "Cloudflare": (
        {"success": False, "errors": [{"code": 5006, "message": "unexpected seed"}], "result": None},
        ErrorDetails("unexpected seed"),
    ),
    "error.detail": ({"error": {"detail": "no seed"}}, ErrorDetails("no seed")),
    "SiliconFlow": ({"code": 20015, "msg": "no seed", "data": None}, ErrorDetails("no seed")),
    "Baidu": ({"error_code": 336003, "error_msg": "seed is unknown"}, ErrorDetails("seed is unknown")),
    "Databricks": ({"error_code": "BAD_REQUEST", "message": "no seed"}, ErrorDetails("no seed", "BAD_REQUEST")),
    "Anthropic": (
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ErrorDetails("Overloaded", "overloaded_error"),
    ),
    "Cohere": ({"id": "1", "message": "no seed"}, ErrorDetails("no seed")),
    "Bedrock": ({"Message": "no seed"}, ErrorDetails("no seed")),
    "RFC 9457": (
        {"type": "urn:x:refused", "title": "Bad Request", "status": 400, "detail": "no seed"},
        ErrorDetails("no seed", "urn:x:refused"),
    ),
    "OpenRouter": (
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "no seed"}}},
        ErrorDetails("Provider returned error: no seed"),
    ),
    "a text in JSON": ("no seed", ErrorDetails("no seed")),
    "nothing": ({}, ErrorDetails()),
    "numbers": ({"error": 3, "detail": [None, 4]}, ErrorDetails()),
}
TEXTS = {
    "no seed\n here": "no seed here",
    "": "",
    "<html><head><title>413 Request Entity Too Large</title></head><body><hr>nginx</body></html>": (
        "413 Request Entity Too Large nginx"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    body, details = FORMS[form]
    assert read_error_body(json.dumps(body)) == details


@pytest.mark.parametrize("text", TEXTS)
def test_texts_and_pages(text: str) -> None:
    assert read_error_body(text) == ErrorDetails(TEXTS[text])


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please retry in 1.0s.", 1.0),
        ("Please try again in 20s. Visit the console", 20.0),
        ("Please try again in 6ms.", 0.006),
        ("Please try again in 7m12.384s.", 432.384),
        ("Try again in 1h 5m", 3900.0),
        ("Please retry after 5 seconds.", 5.0),
        ("Retry after 2 minutes", 120.0),
        ("Retry in some seconds", None),
        ("Try again in 20 steps", None),
        ("You exceeded your current quota", None),
    ],
)
def test_waits(message: str, seconds: float | None) -> None:
    assert find_wait(message) == (None if seconds is None else pytest.approx(seconds))


def test_a_limit_per_minute_is_no_empty_account() -> None:
    words = "You exceeded your current quota, please check your plan and billing details."
    assert RequestProblem(words, 429).out_of_quota
    assert RequestProblem("", 402).out_of_quota
    assert RequestProblem("any", 429, "insufficient_quota", retry_after=1.0).out_of_quota
    limit = RequestProblem(f"{words} Please retry in 1.0s.", 429, "RESOURCE_EXHAUSTED", retry_after=1.0)
    assert (limit.out_of_quota, limit.passes, limit.stops) == (False, True, False)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["error", "message", "detail", "loc", "metadata", "raw", "code", "param"]), inner
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_read(value: Any) -> None:
    details = read_error_body(json.dumps(value))
    assert isinstance(details.message, str)
    assert not details.code.isdigit()


def test_deep_and_long_bodies_are_bounded() -> None:
    too_deep = 1_000_000  # for the parser of any Python
    assert read_error_body('{"error":' * too_deep + '"x"' + "}" * too_deep).message.startswith('{"error":')
    assert read_error_body('{"error":' * 100 + '"x"' + "}" * 100) == ErrorDetails()
    assert len(read_error_body("x" * 1_000_000).message) == 100_000


@pytest.mark.parametrize("piece", ["<style", "<", "retry in 5", '{"error":'])
def test_bodies_of_many_pieces_are_read_at_once(piece: str) -> None:
    assert len(read_error_body(piece * 100_000).message) <= 100_000
