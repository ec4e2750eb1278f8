"""Cohere's `/rerank`, on the server of openai_server.py: passages by how many words they share with the query."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from openai_server import Answer, Fault, OpenAIServer


def reranking(server: OpenAIServer) -> OpenAIServer:
    """The server, with the route."""
    server.routes["/v1/rerank"] = rerank
    return server


def rerank(body: Mapping[str, Any]) -> Answer:
    """The best `top_n`; a token is a word, of the query once and of each document."""
    query_words = set(body["query"].casefold().split())
    scores = [len(query_words & set(text.casefold().split())) / 100 for text in body["documents"]]
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[: body["top_n"]]
    results = [{"index": place, "relevance_score": scores[place]} for place in order]
    words = sum(len(text.split()) for text in (body["query"], *body["documents"]))
    return Answer(200, {"id": "r1", "results": results, "usage": {"total_tokens": words}})


def results(change: Callable[[list[dict[str, Any]]], Any]) -> Fault:
    """The list of results changed by a function."""

    def spoil(answer: Answer) -> Answer:
        assert isinstance(answer.body, Mapping)
        return replace(answer, body={**answer.body, "results": change(list(answer.body["results"]))})

    return spoil


def change_body(change: Callable[[dict[str, Any]], Any]) -> Fault:
    """The whole body changed by a function."""

    def spoil(answer: Answer) -> Answer:
        assert isinstance(answer.body, Mapping)
        return replace(answer, body=change(dict(answer.body)))

    return spoil
