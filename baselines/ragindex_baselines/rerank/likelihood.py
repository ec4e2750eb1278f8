"""Scores of passages by how likely a completions endpoint finds the question after them.

The query likelihood model: Ponte and Croft 1998; by a language model: Sachan et al. 2022, "Improving Passage Retrieval
with Zero-Shot Question Generation". The endpoint echoes each prompt with the log-probabilities of its tokens (`echo`
and `logprobs` of the completions API, as vLLM has them).
"""

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ragindex._util.http import RequestProblem, RequestProblemError, as_mapping, read_json_body

_BEFORE_QUESTION = "A question that is answered with the help of the above:"
_LONGEST_SHOWN = 120
ECHO: Mapping[str, Any] = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
"""Options of a request that returns the log-probabilities of its prompts; some endpoints refuse to generate nothing."""
ECHOED = "log-probabilities of the prompt's tokens, which score=likelihood needs (echo with logprobs)"
"""What an endpoint lacks that scores no passage."""


def write_prompts(question: str, passages: Sequence[str], bridge: str) -> list[str]:
    """Return a prompt for each passage, which ends in the question; `bridge` is a passage known already, or ""."""
    known = f"{bridge}\n\n" if bridge else ""
    return [f"{known}{passage}\n\n{_BEFORE_QUESTION} {question}" for passage in passages]


def read_likelihoods(body: str, question: str, prompts: Sequence[str]) -> str:
    """Return the response as that of a `/rerank` endpoint, with the mean log-probability of the question's tokens.

    A prompt without log-probabilities of its own tokens has no score. Raises RequestProblemError, which allows a retry,
    for a response that is no list of completions.
    """
    answer = as_mapping(read_json_body(body))
    choices = answer.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
        raise RequestProblemError(RequestProblem(f"expected a list of completions, got {body[:_LONGEST_SHOWN]!r}"))
    results = []
    for choice in choices:
        position = choice.get("index")
        known = isinstance(position, int) and 0 <= position < len(prompts)
        logprobs = as_mapping(choice.get("logprobs"))
        score = _mean_likelihood(logprobs, question, prompts[position]) if known else None
        results.append({"index": position, "relevance_score": score})
    return json.dumps({"results": results, "usage": answer.get("usage")})


def _mean_likelihood(logprobs: Mapping[str, Any], question: str, prompt: str) -> float | None:
    """Return the mean log-probability of the tokens that begin in the question; None if there are none.

    A token that marks the beginning of a text may stand before the prompt and shift all offsets, so they are counted
    from the prompt's end, where the generated token begins.
    """
    offsets, values = logprobs.get("text_offset"), logprobs.get("token_logprobs")
    if not isinstance(offsets, list) or not isinstance(values, list) or len(offsets) != len(values):
        return None
    if not all(isinstance(offset, int) for offset in offsets) or any(a > b for a, b in pairwise(offsets)):
        return None
    end = max(len(prompt), offsets[-1]) if offsets else 0
    begin = end - len(question) - 1
    inside = [value for offset, value in zip(offsets, values, strict=True) if begin <= offset < end]
    numbers = [value for value in inside if isinstance(value, int | float) and math.isfinite(value)]
    return math.fsum(numbers) / len(numbers) if numbers and len(numbers) == len(inside) else None
