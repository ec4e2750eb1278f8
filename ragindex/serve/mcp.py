"""The MCP server: read-only tools `search` and `fetch`, over streamable HTTP at /mcp, and over stdio.

Answers are small: snippets around the words of the question, within `max_tokens` over all hits.
"""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ToolAnnotations
from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from ragindex._util import distribution
from ragindex.filters import from_mapping
from ragindex.llm.tokens import count_text_tokens
from ragindex.retrieval.formatting import place_snippet, position_to_json
from ragindex.retrieval.matching import find_question_words, find_window
from ragindex.retrieval.token_budget import fit_text
from ragindex.serve.bodies import receive_body
from ragindex.serve.guard import KeyNeeded
from ragindex.serve.keys import AccessKey
from ragindex.serve.models import PlainText
from ragindex.serve.refusals import RefusalError
from ragindex.serve.searching import (
    SearchOrder,
    ServedSearch,
    find_collection,
    find_link,
    read_document,
    search_collection,
)
from ragindex.serve.service import Service
from ragindex.types import Document, Hit

_DEFAULT_TOKENS, _MOST_TOKENS = 2_000, 20_000
_SNIPPET = 600  # characters
_READ_KEY = KeyNeeded("read")
_READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

Tokens = Annotated[int, Field(ge=50, le=_MOST_TOKENS, description="Most tokens of the answer's texts.")]
CollectionName = Annotated[PlainText, Field(max_length=200, description="Name of the collection. Default: the first.")]


def make_mcp_server(service: Service, local: AccessKey | None = None) -> MCPServer:
    """Make the MCP server of a service. `local` is the key of calls that come over no HTTP request."""
    hidden = local is None and any(key.collections is not None for key in service.settings.keys.keys)
    names = "" if hidden else f" Collections: {', '.join(service.collections)}."
    server = MCPServer(
        "ragindex",
        title="ragindex",
        version=distribution.find_distribution().version,
        instructions=f"Search documents, then fetch those whose whole text is needed.{names}",
    )

    @server.tool(name="search", annotations=_READ_ONLY, structured_output=True)
    async def search_tool(
        query: Annotated[PlainText, Field(min_length=1, description="The question or keywords.")],
        ctx: Context[Any, Any],
        collection: CollectionName = "",
        method: Annotated[PlainText, Field(max_length=200, description="Method that searches.")] = "",
        k: Annotated[int, Field(ge=1, le=50, description="Number of hits.")] = 5,
        where: Annotated[
            dict[str, Any] | None, Field(description='Metadata to match, as {"meta.year": [1930, 1931]}.')
        ] = None,
        max_tokens: Tokens = _DEFAULT_TOKENS,
    ) -> dict[str, Any]:
        """Find the passages that best match a question: snippets, with titles, URLs, and where they stand."""
        key, order = _find_caller(ctx, local), SearchOrder(query, collection, method, k)
        served, results, truncated = await _work(service, partial(_search, service, key, order, where, max_tokens))
        service.metrics.searches.labels(served.collection.name, served.method).inc()
        base = _base_url(ctx)
        return {
            "results": [
                {**result, "url": result["url"] or _document_url(base, result["id"], served.collection.name)}
                for result in results
            ],
            "truncated": truncated,
            "collection": served.collection.name,
            "method": served.method,
        }

    @server.tool(name="fetch", annotations=_READ_ONLY, structured_output=True)
    async def fetch_tool(
        id: Annotated[PlainText, Field(min_length=1, max_length=2_000, description="A document's id, from search.")],
        ctx: Context[Any, Any],
        collection: CollectionName = "",
        start: Annotated[int, Field(ge=0, description="Character to begin at: `next_start` of the last fetch.")] = 0,
        max_tokens: Tokens = _DEFAULT_TOKENS,
    ) -> dict[str, Any]:
        """Return a document's text from `start`, as much as fits, and `next_start` if there is more."""
        key = _find_caller(ctx, local)
        name, document, text = await _work(service, partial(_fetch, service, key, id, collection, start, max_tokens))
        end = start + len(text)
        return {
            "id": document.id,
            "title": document.title,
            "text": text,
            "url": find_link(document.metadata) or _document_url(_base_url(ctx), document.id, name),
            "metadata": dict(document.metadata),
            "truncated": end < len(document.text),
            "next_start": end if end < len(document.text) else None,
        }

    return server


async def _work(service: Service, task: Any) -> Any:
    """Run blocking work; a refusal becomes the error that the model reads."""
    try:
        return await service.work(task)
    except RefusalError as refusal:
        raise ToolError(refusal.message) from None


def _search(
    service: Service, key: AccessKey, order: SearchOrder, where: dict[str, Any] | None, max_tokens: int
) -> tuple[ServedSearch, list[dict[str, Any]], bool]:
    found_hits = search_collection(service, key, replace(order, where=None if where is None else from_mapping(where)))
    words, model = find_question_words(order.query, found_hits.state.language), found_hits.state.tokenizer
    results, used, truncated = list[dict[str, Any]](), 0, False
    for hit in found_hits.hits:
        begin, end = find_window(hit.text, words, found_hits.state.language, _SNIPPET)
        tokens = count_text_tokens(f"{hit.title}\n{hit.text[begin:end]}", model).tokens
        if used + tokens > max_tokens:
            truncated = True
            continue
        used += tokens
        results.append(_result(hit, begin, end))
    return found_hits, results, truncated


def _result(hit: Hit, begin: int, end: int) -> dict[str, Any]:
    """Return a result: `id` is what `fetch` takes, the first document of the hit."""
    document = hit.doc_ids[0]
    return {
        "id": document,
        "title": hit.title or document,
        "text": hit.text[begin:end],
        "shortened": end - begin < len(hit.text),
        "url": find_link(hit.metadata.get(document, {})),
        "score": float(hit.score),
        "doc_ids": list(hit.doc_ids),
        "positions": [position_to_json(position) for position in place_snippet(hit, begin)],
    }


def _fetch(
    service: Service, key: AccessKey, id: str, collection: str, start: int, max_tokens: int
) -> tuple[str, Document, str]:
    served = find_collection(service, key, collection)
    document = read_document(served, key, id)
    if document is None:
        raise RefusalError(404, f"There is no document {id!r}.", "document")
    rest, model = document.text[start:], served.state.tokenizer
    return served.name, document, fit_text(rest, max_tokens, model) or rest[: 2 * max_tokens]


def _document_url(base: str, document: str, name: str) -> str:
    """Return where the server itself has a document of the collection `name`, or "" over stdio."""
    return f"{base}documents/{quote(document)}?collection={quote(name)}" if base else ""


def _base_url(ctx: Context[Any, Any]) -> str:
    request = ctx.request_context.request
    return str(request.base_url) if isinstance(request, Request) else ""


def _find_caller(ctx: Context[Any, Any], local: AccessKey | None) -> AccessKey:
    """Return the key of the HTTP request, or `local`. Raises ToolError if there is neither."""
    request = ctx.request_context.request
    key = request.scope["state"].get("access_key") if isinstance(request, Request) else local
    if not isinstance(key, AccessKey):
        raise ToolError("The request has no key.")
    return key


class McpApp:
    """The ASGI app at /mcp: every request is authenticated, no session is kept."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.app: Starlette = make_mcp_server(service).streamable_http_app(
            stateless_http=True,
            json_response=True,
            max_request_body_size=service.settings.limits.body,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # RequestGuard does it
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with a key that may read."""
        request, limits = Request(scope, receive), self.service.settings.limits
        _READ_KEY.find(request, self.service)
        async with receive_body(
            request.headers, receive, self.service.body_budget, limits.body, limits.timeout
        ) as body:
            await self.app(scope, _replay(body, receive), send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the whole body, then what the client does next."""
    bodies = iter([body])

    async def replayed() -> Message:
        for part in bodies:
            return {"type": "http.request", "body": part, "more_body": False}
        return await receive()

    return replayed
