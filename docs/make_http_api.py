"""Write docs/reference/http-api.md from the server's routes and models: `python docs/make_http_api.py`."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi.routing import APIRoute
from generated_pages import describe, table
from pydantic import BaseModel

from ragindex.serve.bodies import MOST_VALUES
from ragindex.serve.config import RequestLimits
from ragindex.serve.guard import AnyKey, ReadKey, WriteKey
from ragindex.serve.models import (
    AskAnswer,
    AskBody,
    Citation,
    DocumentAnswer,
    DocumentBody,
    DocumentsBody,
    DocumentStatus,
    ErrorDetail,
    HitModel,
    PositionModel,
    RequestBody,
    SearchAnswer,
    SearchBody,
    UpdateAnswer,
    UpdateBody,
)
from ragindex.serve.operations import OPERATIONS_ROUTER
from ragindex.serve.rest import DOCUMENTS_ROUTER, REST_ROUTER
from ragindex.serve.vector_store import STORE_ROUTER, RankingOptions, StoreResult, VectorStoreBody

PAGE = Path(__file__).parent / "reference" / "http-api.md"
HEAD = """# HTTP API

Endpoints, fields, errors and limits of `ragindex serve`. Bodies and answers are JSON; unknown fields are refused. A
server describes itself at `/openapi.json`. Made from the code by `python docs/make_http_api.py`.
"""
ROUTERS = (REST_ROUTER, DOCUMENTS_ROUTER, STORE_ROUTER, OPERATIONS_ROUTER)
MODELS: dict[str, tuple[type[BaseModel], ...]] = {
    "Search and ask": (SearchBody, AskBody, SearchAnswer, HitModel, PositionModel, AskAnswer, Citation),
    "Documents": (DocumentsBody, DocumentBody, DocumentStatus, DocumentAnswer, UpdateBody, UpdateAnswer),
    "OpenAI's vector stores": (VectorStoreBody, RankingOptions, StoreResult),
}
STORES = """The id of a vector store is `COLLECTION` or `COLLECTION:METHOD`. `file_id` is the document's id, `filename`
its title. `attributes` are its plain metadata, and `start`, `end`, `page` and `headings` of the passage, at most 16 in
all. Filters have at most 8 levels and 100 conditions. There is always one page.
"""
ERRORS = {
    "400": ("invalid_request", "query", "k", "filters", "documents", "invalid_body", "two_lengths"),
    "401": ("invalid_api_key",),
    "402 (of the key, the server or the day)": ("spend_cap",),
    "403": ("right", "filter", "id_prefix", "metadata_keys", "origin", "read_only"),
    "404": ("collection", "method", "document"),
    "408": ("body_time",),
    "409": ("id_taken",),
    "413": ("body_size", "body_values"),
    "421": ("host",),
    "422": ("invalid_body",),
    "500": ("internal",),
    "503": (
        *("overloaded", "timeout", "bodies", "backlog", "service", "index"),
        *("damaged", "hangs", "stopping", "unavailable"),
    ),
    "other (a path or method that does not exist)": ("http",),
}
"""The codes of errors by status; a test compares them with those in the code."""
_RIGHTS = {ReadKey: "read", WriteKey: "write", AnyKey: "read or write"}


def page() -> str:
    """The whole page."""
    sections = [HEAD, "\n".join(_endpoints())]
    for title, models in MODELS.items():
        intro = [STORES] if VectorStoreBody in models else []
        sections += [f"## {title}\n", *intro, *("\n".join(_fields(model)) for model in models)]
    return "\n".join([*sections, "\n".join(_errors()), "\n".join(_limits())])


def _endpoints() -> Iterator[str]:
    rows = list[tuple[str, str, str]]()
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute):
                (method,) = route.methods
                path = route.path.replace(":path", "")
                rows.append((f"`{method} {path}`", _right(route), describe(route.endpoint)))
    rows.append(("`/mcp`", "read", "[MCP](../how-to/serve-over-mcp.md), streamable HTTP."))
    rows.append(("`GET /`", "–", "[The page](../how-to/judge-in-the-browser.md) to compare and judge hits."))
    yield from ("## Endpoints", "", *table(("endpoint", "right", "does"), rows))


def _right(route: APIRoute) -> str:
    parameters = inspect.signature(route.endpoint).parameters
    return _RIGHTS[parameters["key"].annotation] if "key" in parameters else "–"


def _fields(model: type[BaseModel]) -> Iterator[str]:
    """The fields of a model; those of answers have no defaults."""
    schema = model.model_json_schema()
    yield from (f"### `{model.__name__}`", "", describe(model), "")
    if not issubclass(model, RequestBody):
        rows = ((f"`{name}`", _type(field)) for name, field in schema["properties"].items())
        yield from table(("field", "type"), rows)
        return
    body_rows = list[tuple[str, ...]]()
    for name, field in schema["properties"].items():
        default = "required" if name in schema.get("required", ()) else f"`{_value(field.get('default'))}`"
        body_rows.append((f"`{name}`", _type(field), default, field.get("description", "")))
    yield from table(("field", "type", "default", "meaning"), body_rows)


def _value(default: Any) -> str:
    return {None: "null", True: "true", False: "false", "": '""'}.get(default, default) if _is_plain(default) else "{}"


def _is_plain(default: Any) -> bool:
    return default is None or isinstance(default, str | int | float)


def _type(field: dict[str, Any]) -> str:
    """The JSON type of a field in words, with its limits."""
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(each) for each in field["anyOf"]))
    if "$ref" in field:
        return f"`{field['$ref'].rpartition('/')[2]}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    words = {"minimum": "≥", "maximum": "≤", "minLength": "characters ≥", "maxLength": "characters ≤"}
    limits = [f"{sign} {field[key]:,}" for key, sign in words.items() if key in field]
    return ", ".join([field.get("type", "any"), *limits])


def _errors() -> Iterator[str]:
    yield from (
        "## Errors",
        "",
        'Every error is `{"error": {…}}` in the shape of OpenAI\'s API. A 503 that may pass has',
    )
    yield from ("Retry-After.", "", *_fields(ErrorDetail))
    rows = ((status, ", ".join(f"`{code}`" for code in codes)) for status, codes in ERRORS.items())
    yield from table(("status", "`code`"), rows)


def _limits() -> Iterator[str]:
    limits = RequestLimits()
    rows = {
        "requests at once (`--concurrent`)": f"{limits.concurrent}",
        "seconds of a request, of its body, of reading a piece of the answer (`--timeout`)": f"{limits.timeout:g}",
        "seconds for the headers": f"{limits.header_timeout:g}",
        "bytes of a query, of documents": f"{limits.body >> 10} KiB, {limits.documents_body >> 20} MiB",
        "bytes of all bodies of documents together, of all others": f"{limits.bodies >> 20} MiB each",
        "documents in a body, JSON values in a body": f"{limits.documents:,}, {MOST_VALUES:,}",
        "connections; fewer where `ulimit -n` is low": f"{limits.connections}",
        "`k`": f"{limits.k}",
        "characters of a query": f"{limits.query:,}",
        "characters of all hits": f"{limits.text:,}",
        "changes that wait, shared by the keys that write": f"{limits.pending:,}",
        "metadata keys of all documents that came over HTTP, shared by the keys that write": f"{limits.metadata_keys}",
    }
    yield from ("## Limits", "", *table(("limit", "value"), rows.items()))
    yield from ("A key is checked before a body is read.", "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
