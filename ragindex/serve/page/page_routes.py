"""The routes of the page: the page itself, what it asks, and the judgements that it saves."""

import secrets
import time
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import Field
from starlette.responses import Response

from ragindex.corpus.judgements import QUERIES_FILE, add_judgement, question_id, read_judgements
from ragindex.index.renames import read_renames
from ragindex.serve.collections import ServedCollection
from ragindex.serve.guard import AnyKey, GuardedRoute, JudgeKey, ReadKey, ServiceNeeded, require_same_origin
from ragindex.serve.keys import AccessKey, passing_documents
from ragindex.serve.models import DocumentId, NameText, PlainText, RequestBody, error_responses
from ragindex.serve.page.results_html import TimedSearch, render_results, render_template
from ragindex.serve.refusals import RefusalError
from ragindex.serve.rest import note_search
from ragindex.serve.searching import SearchOrder, find_collection, read_document, search_collection
from ragindex.serve.service import Service
from ragindex.serve.web import page_policy

PAGE_ROUTER = APIRouter(
    tags=["page"],
    include_in_schema=False,
    responses=dict(error_responses(400, 401, 403, 404, 422, 503)),
    route_class=GuardedRoute,
)
_NO_SCRIPT = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class PageSearchBody(RequestBody):
    """A question to one method."""

    query: PlainText = Field(min_length=1)
    collection: NameText = ""
    method: NameText = ""
    k: int = Field(default=5, ge=1)


class JudgedBody(RequestBody):
    """A question whose judgements are wanted."""

    query: PlainText = Field(min_length=1)
    collection: NameText = ""


class JudgementBody(JudgedBody):
    """A judgement: whether a document answers a question; 0 no, 1 partly, 2 yes."""

    document: DocumentId
    grade: int = Field(ge=0, le=2, strict=True)


@PAGE_ROUTER.get("/")
async def page_route() -> Response:
    """Return the page. It holds nothing of the indexes; what it shows, it asks for with the reader's key."""
    nonce = secrets.token_urlsafe(18)
    policy = page_policy(nonce, images="data:")
    return HTMLResponse(render_template("page.html", nonce=nonce), headers={"Content-Security-Policy": policy})


@PAGE_ROUTER.get("/page/collections")
async def collections_route(service: ServiceNeeded, key: AnyKey) -> Response:
    """Return the collections that the key opens, with their methods, and what it may do."""
    views = [
        {
            "name": name,
            "methods": list(collection.methods),
            "documents": len(collection.state.index) if key.where is None else None,
        }
        for name, collection in service.collections.items()
        if key.opens(name)
    ]
    return JSONResponse({"collections": views if "read" in key.rights else [], "rights": sorted(key.rights)})


@PAGE_ROUTER.post("/page/search")
async def page_search_route(body: PageSearchBody, request: Request, service: ServiceNeeded, key: ReadKey) -> Response:
    """Return what a method finds, as a piece of HTML."""
    timed, html = await service.work(partial(_search, service, key, body))
    note_search(request, service, timed.search)
    return HTMLResponse(html, headers={"Content-Security-Policy": _NO_SCRIPT})


def _search(service: Service, key: AccessKey, body: PageSearchBody) -> tuple[TimedSearch, str]:
    start = time.perf_counter()
    found_hits = search_collection(service, key, SearchOrder(body.query, body.collection, body.method, body.k))
    timed = TimedSearch(found_hits, 1e3 * (time.perf_counter() - start))
    return timed, render_results(timed)


_SameOrigin = Annotated[None, Depends(require_same_origin)]


@PAGE_ROUTER.post("/page/judged")
async def judged_route(body: JudgedBody, service: ServiceNeeded, key: JudgeKey, origin: _SameOrigin) -> Response:
    """Return the grades that the documents have for a question."""
    grades = await service.work(partial(read_grades, service, key, body.collection, body.query))
    return JSONResponse({"grades": grades})


@PAGE_ROUTER.post("/page/judgements", status_code=201)
async def judgement_route(body: JudgementBody, service: ServiceNeeded, key: JudgeKey, origin: _SameOrigin) -> Response:
    """Save a judgement; the answer comes when it is on the disk."""
    question = await service.work(
        partial(save_judgement, service, key, body.collection, body.query, body.document, body.grade)
    )
    return JSONResponse({"question": question, "document": body.document, "grade": body.grade}, 201)


JUDGEMENTS_FOLDER = "judgements"


def save_judgement(service: Service, key: AccessKey, collection: str, question: str, document: str, grade: int) -> str:
    """Save a judgement durably; return the question's id. Raises RefusalError and RagindexError.

    The document must be one that the key may see.
    """
    if service.settings.read_only:
        raise RefusalError(403, "The server was started with --read-only.", "read_only")
    searched = find_collection(service, key, collection)
    if read_document(searched, key, document) is None:
        raise RefusalError(404, f"There is no document {document!r}.", "document")
    return add_judgement(_find_folder(searched), question, document, grade)


def read_grades(service: Service, key: AccessKey, collection: str, question: str) -> dict[str, int]:
    """Return the grades by document that a question has, of documents that the key may see. Raises RagindexError.

    Grades of a document that was renamed since are those of its new id, unless that was judged too.
    """
    searched = find_collection(service, key, collection)
    folder = _find_folder(searched)
    if not (folder / QUERIES_FILE).exists():
        return {}
    judged = read_judgements(folder).get(question_id(question))
    own = {} if judged is None else judged.grades
    renames = read_renames(searched.spec.folder) if searched.spec.folder.is_dir() else {}
    grades = {**{renames[id]: grade for id, grade in own.items() if id in renames}, **own}
    documents = searched.state.index.read(list(grades))
    passing = passing_documents(key.where, {document.id: document.metadata for document in documents})
    return {id: grade for id, grade in grades.items() if id in passing}


def _find_folder(collection: ServedCollection) -> Path:
    """Return the folder of judgements: in that of the index or retriever, or beside a packed retriever."""
    folder = collection.spec.folder
    return folder.with_name(f"{folder.name}.{JUDGEMENTS_FOLDER}") if folder.is_file() else folder / JUDGEMENTS_FOLDER
