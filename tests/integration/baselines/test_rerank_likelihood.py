"""Passages scored by the likelihood of the question: a completions endpoint that echoes, and what others answer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from openai_server import KEY, Answer, OpenAIServer

from ragindex._util.http import RequestProblemError
from ragindex.accounting import ledger
from ragindex.errors import RequestError
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_baselines.rerank.endpoint import read_scores
from ragindex_baselines.rerank.likelihood import read_likelihoods, write_prompts

QUESTION = "Who built the bridge?"
PROMPT = write_prompts(QUESTION, ["Orla built it."], "")[0]
RERANK = "rerank(base=bm25, reranker=endpoint(model=small, score=likelihood, retries=0))"


def echo(prompt: str, position: int, *, begin: str = "", generated: str = " Yes") -> dict[str, Any]:
    """A completion as vLLM echoes it: words are tokens; one of the question is likely if it stood before.

    `begin` is a token that marks the beginning, which counts in the offsets but is no part of the text.
    """
    words = [*([begin] if begin else []), *prompt.replace(" ", "\0 ").split("\0"), *([generated] if generated else [])]
    offsets = [sum(map(len, words[:place])) for place in range(len(words))]
    seen = [word.strip(" .?") in " ".join(words[:place]) for place, word in enumerate(words)]
    values = [None, *(-1.0 if known else -4.0 for known in seen[1:])]
    logprobs = {"text_offset": offsets, "token_logprobs": values, "tokens": words, "top_logprobs": None}
    return {"index": position, "text": prompt + generated, "logprobs": logprobs, "finish_reason": "length"}


def complete(body: Mapping[str, Any]) -> Answer:
    words = sum(len(prompt.split()) for prompt in body["prompt"])
    choices = [echo(prompt, position) for position, prompt in enumerate(body["prompt"])]
    usage = {"prompt_tokens": words, "completion_tokens": len(choices), "total_tokens": words + len(choices)}
    return Answer(200, {"object": "text_completion", "choices": choices[::-1], "usage": usage})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    with OpenAIServer() as running:
        monkeypatch.setenv("RERANK_BASE_URL", running.url)
        monkeypatch.setenv("RERANK_API_KEY", KEY)
        running.routes["/v1/completions"] = complete
        yield running


@pytest.fixture
def index(tmp_path: Path) -> Index:
    opened = Index.open(tmp_path / "index", chunking=None, create=True)
    opened.add([Document("a", "", "The bridge, the bridge."), Document("b", "Orla", "Orla built the bridge.")])
    opened.build("bm25")
    return opened


def ask(index: Index, method: str) -> tuple[list[tuple[str, float]], ledger.Tally]:
    with ledger.record_calls() as tally:
        (retrieval,) = registry.scheme(method).open(index).retrieve([Query("q", QUESTION)], 2)
    return [(hit.id, hit.score) for hit in retrieval.hits], tally


def test_passages_rank_by_the_likelihood_of_the_question(server: OpenAIServer, index: Index) -> None:
    """Of the four words of the question, b holds three and a two; answers are cached."""
    hits, tally = ask(index, RERANK)
    assert hits == [("b", -1.75), ("a", -2.5)]
    (request,) = server.requests
    assert (request.path, request.body["echo"], request.body["logprobs"]) == ("/v1/completions", True, 1)
    assert sorted(prompt.split("\n")[0] for prompt in request.body["prompt"]) == ["Orla", "The bridge, the bridge."]
    assert tally.entries[0].input_tokens == 2 + sum(len(prompt.split()) for prompt in request.body["prompt"])
    again, replayed = ask(index, RERANK)
    assert (again, replayed.replayed, len(server.requests)) == (hits, 1, 1)


def test_the_known_passage_stands_before_the_candidate(server: OpenAIServer, index: Index) -> None:
    ask(index, RERANK.replace("base=bm25", "base=bm25, pair=bridge, bridges=1"))
    (request,) = server.requests
    (prompt,) = request.body["prompt"]
    assert sorted(prompt.split("\n\n")[:2]) == ["Orla\nOrla built the bridge.", "The bridge, the bridge."]


def test_an_endpoint_that_echoes_nothing_is_named(server: OpenAIServer, index: Index) -> None:
    """llama.cpp's server gives log-probabilities of generated tokens alone. It is asked, and pays, once."""
    answer = {"choices": [{"index": 0, "text": "", "logprobs": {}}], "usage": {"total_tokens": 9}}
    server.routes["/v1/completions"] = lambda body: Answer(200, answer)
    with ledger.record_calls() as tally, pytest.raises(RequestError, match="which score=likelihood needs"):
        registry.scheme(RERANK.replace("retries=0", "retries=2")).open(index).retrieve([Query("q", QUESTION)], 2)
    assert [(entry.input_tokens, entry.estimated) for entry in tally.entries] == [(9, False)]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (echo(PROMPT, 0), -2.5),
        (echo(PROMPT, 0, begin="<|begin_of_text|>"), -2.5),
        (echo(PROMPT, 0, generated=""), -2.5),
        (echo(PROMPT, 0, begin="<s>", generated="\n\n"), -2.5),
    ],
    ids=["generated", "beginning marked", "end generated", "both"],
)
def test_offsets_of_the_question(choice: dict[str, Any], expected: float) -> None:
    answer = read_likelihoods(json.dumps({"choices": [choice], "usage": {"total_tokens": 9}}), QUESTION, [PROMPT])
    response = read_scores(answer)
    assert (response.scores, response.tokens) == ([(0, expected)], 9)


SHORT = echo(PROMPT, 0)["logprobs"]


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {**SHORT, "token_logprobs": SHORT["token_logprobs"][:-1]},
        {**SHORT, "token_logprobs": [None] * len(SHORT["tokens"])},
        {**SHORT, "text_offset": SHORT["text_offset"][::-1]},
        {**SHORT, "text_offset": ["0"] * len(SHORT["tokens"])},
        {"text_offset": [], "token_logprobs": []},
    ],
    ids=["none", "other length", "null", "not ascending", "no numbers", "empty"],
)
def test_log_probabilities_that_cannot_be_read(logprobs: Any) -> None:
    """A passage without them has no score; an answer without any is refused by what the endpoint lacks."""
    good, bad = echo(PROMPT, 0), {"index": 1, "text": "", "logprobs": logprobs}
    answer = read_likelihoods(json.dumps({"choices": [good, bad]}), QUESTION, [PROMPT, PROMPT])
    assert [score["relevance_score"] for score in json.loads(answer)["results"]] == [-2.5, None]
    none = read_likelihoods(json.dumps({"choices": [bad]}), QUESTION, [PROMPT, PROMPT])
    assert not read_scores(none).has_score(2)


@pytest.mark.parametrize("body", ["nonsense", '{"choices": 1}', '{"choices": [1]}', "[]"])
def test_a_response_of_another_kind_is_refused(body: str) -> None:
    with pytest.raises(RequestProblemError, match="expected"):
        read_likelihoods(body, QUESTION, [PROMPT])
