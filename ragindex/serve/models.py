"""The bodies of requests and responses of the REST API, from which its OpenAPI description is made."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ragindex._util.ids import describe_control

_NAME_LENGTH, _ID_LENGTH = 200, 2_000


def _require_encodable(text: str) -> str:
    """Raise ValueError for a lone surrogate, which UTF-8 cannot encode, and for NUL, which stores refuse."""
    try:
        text.encode()
    except UnicodeEncodeError:
        encodable = False
    else:
        encodable = "\0" not in text
    if not encodable:
        raise ValueError("must be text that UTF-8 can encode, without NUL")
    return text


def _require_no_control(id: str) -> str:
    """Raise ValueError for a control character, which the address of a document cannot have."""
    if (control := describe_control(id)) is not None:
        raise ValueError(f"must be an id without control characters, and has {control}")
    return id


PlainText = Annotated[str, AfterValidator(_require_encodable)]
NameText = Annotated[PlainText, Field(max_length=_NAME_LENGTH)]
DocumentId = Annotated[PlainText, Field(min_length=1, max_length=_ID_LENGTH), AfterValidator(_require_no_control)]


class RequestBody(BaseModel):
    """Base of all request bodies: unknown fields, NaN and infinity are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SearchBody(RequestBody):
    """A search. `where` maps meta.KEY or doc_ids to a value, a list of values, or {"gte": LOW, "lte": HIGH}."""

    query: PlainText = Field(min_length=1, examples=["When was the lighthouse built?"])
    collection: NameText = Field(default="", description="Name of the collection. Default: the first.")
    method: NameText = Field(default="", description="Method that searches. Default: the collection's first.")
    k: int = Field(default=5, ge=1, description="Number of hits.")
    where: dict[PlainText, Any] | None = Field(default=None, description="Search only documents that match.")
    max_tokens: int | None = Field(
        default=None, ge=1, description="Most tokens of all hits together: the best first, in whole sentences."
    )
    trace: bool = Field(default=False, description="Return the steps of the retrieval.")


class AskBody(SearchBody):
    """A question to answer from the hits of a search. With `stream`, events are sent as they come."""

    k: int = Field(default=10, ge=1, description="Number of hits.")
    stream: bool = Field(default=False, description="Send server-sent events: hits, answer, done.")


class PositionModel(BaseModel):
    """Where a passage stands in its document: characters, page or slide, headings."""

    doc_id: str
    start: int
    end: int
    page: int | None
    headings: list[str]


class HitModel(BaseModel):
    """A hit. `shortened` says whether its text was cut, for `max_tokens` or the server's limit of characters."""

    id: str
    kind: str
    score: float
    title: str
    text: str
    doc_ids: list[str]
    passage_ids: list[str]
    positions: list[PositionModel]
    metadata: dict[str, dict[str, Any]]
    source: str
    shortened: bool


class SearchAnswer(BaseModel):
    """The hits of a search, best first. `tokens` are those of titles and texts, if `max_tokens` was given."""

    collection: str
    method: str
    query: str
    hits: list[HitModel]
    notes: list[str]
    trace: list[dict[str, Any]] | None
    tokens: int | None
    truncated: bool
    left_out: int


class Citation(BaseModel):
    """A cited passage: its number in the answer's context, and where it stands."""

    number: int
    id: str
    title: str
    text: str
    doc_ids: list[str]
    positions: list[PositionModel]


class MatchingSentence(BaseModel):
    """A sentence that matches the question, and the number of its passage; null for a note of the method."""

    number: int | None
    text: str


class AskAnswer(BaseModel):
    """An answer and what it rests on. `money` is in dollars, null if a price is unknown.

    With `rules`, the index has no model: `answer` is empty, `sentences` match the question, and no passage has the
    words in `missing`.
    """

    collection: str
    method: str
    query: str
    answer: str
    found: bool
    citations: list[Citation]
    llm: str
    rules: bool
    sentences: list[MatchingSentence]
    missing: list[str]
    context_tokens: int
    input_tokens: int
    output_tokens: int
    money: float | None


class DocumentBody(RequestBody):
    """A document to add, or to put in place of the one with the same id."""

    id: DocumentId
    title: PlainText = Field(default="", max_length=10_000)
    text: PlainText
    metadata: dict[PlainText, Any] = Field(default={}, description="Any JSON; copied to hits, usable in filters.")


class DocumentsBody(RequestBody):
    """Documents to add or change, all or none of them."""

    collection: NameText = ""
    documents: Annotated[list[DocumentBody], Field(fail_fast=True)] = Field(min_length=1)


DocumentState = Literal["accepted", "spend_cap", "indexed", "deleted", "failed"]


class DocumentStatus(BaseModel):
    """What has become of the last change of a document. Times are in seconds since 1970.

    `accepted`: on disk, not searched yet; the `reason` is why the last sync failed. `spend_cap`: on disk, and waits for
    more money than the server or its key may pay, for the `reason`. `indexed`: searches see it.
    `deleted`: searches do not see it any more. `failed`: it could not be indexed, for the `reason`.
    """

    id: str
    collection: str
    status: DocumentState
    reason: str
    accepted_at: float | None
    finished_at: float | None


class AcceptedDocuments(BaseModel):
    """The documents whose change is on disk: it will be made even if the server is killed now."""

    collection: str
    documents: list[DocumentStatus]


class UpdateBody(RequestBody):
    """Which collection to update from its sources, and whether many of its documents may be removed."""

    collection: str = Field("", max_length=200, description="Name of the collection. Default: the first.")
    allow_removals: bool = Field(False, description="Remove more than a fifth of a source's documents, too.")


class UpdateAnswer(BaseModel):
    """The last update of a collection from its sources. Times are in seconds since 1970.

    `report` has the ids of the documents that were added, changed and removed, as `ragindex update --json` does;
    `reason` says why the update failed.
    """

    collection: str
    status: Literal["none", "accepted", "running", "done", "failed"]
    reason: str
    requested_at: float | None
    finished_at: float | None
    report: dict[str, Any] | None


class DocumentAnswer(DocumentStatus):
    """A document as it is searched now (null if it is not), and the state of its last change."""

    title: str | None
    text: str | None
    metadata: dict[str, Any] | None


class ErrorDetail(BaseModel):
    """An error, in the shape of OpenAI's API."""

    message: str
    type: str
    code: str
    param: str | None


class ErrorAnswer(BaseModel):
    """The body of every response with a status of 400 or more."""

    error: ErrorDetail


class HealthAnswer(BaseModel):
    """Whether the server works; `collections` say more, to those with a key."""

    status: Literal["ok", "ready", "not ready"]
    collections: dict[str, dict[str, Any]] = {}


def error_responses(*statuses: int) -> Mapping[int | str, dict[str, Any]]:
    """Return the error responses of a route, for OpenAPI."""
    return {status: {"model": ErrorAnswer} for status in statuses}
