"""A search and an answer as every API serves them: the key's filter, limits, the token budget, what hits rest on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragindex.accounting import ledger
from ragindex.filters import Filter, combine_filters
from ragindex.llm.answer_question import (
    ANSWER,
    AnswerContext,
    CitedAnswer,
    answer_inputs,
    build_context,
    resolve_citations,
)
from ragindex.llm.offline import is_offline
from ragindex.llm.tokens import DEFAULT_TOKENS
from ragindex.retrieval.matching import MatchedWords, cite_evidence, find_matching_evidence
from ragindex.retrieval.token_budget import fit_hits
from ragindex.serve.collections import ServedCollection, ServedState
from ragindex.serve.keys import AccessKey, charge, keep_permitted, passing_documents
from ragindex.serve.refusals import RefusalError
from ragindex.types import Document, Hit, Query, Retrieval, Usage

if TYPE_CHECKING:
    from ragindex.serve.service import Service
from urllib.parse import urlsplit

from ragindex.types import Metadata


@dataclass(frozen=True, slots=True)
class SearchOrder:
    """What a client asks for. `max_tokens` bounds the texts of all hits together; None leaves them whole."""

    query: str
    collection: str = ""
    method: str = ""
    k: int = 5
    where: Filter | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ServedSearch:
    """The result of a search: hits, steps and notes, the state that it was made in, and what was paid.

    `tokens` is None without a budget. `truncated` says whether texts or hits were cut for it or the server's limit.
    """

    order: SearchOrder
    collection: ServedCollection
    state: ServedState
    method: str
    retrieval: Retrieval
    paid: Usage
    tokens: int | None = None
    shortened: frozenset[str] = frozenset()
    left_out: int = 0

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The hits, best first."""
        return self.retrieval.hits

    @property
    def truncated(self) -> bool:
        """Whether texts were shortened or hits left out."""
        return bool(self.shortened) or self.left_out > 0


def find_collection(service: "Service", key: AccessKey, name: str) -> ServedCollection:
    """Return the collection `name`, or the first one that the key opens for "".

    Raises RefusalError, which is the same for a collection that does not exist and one that the key does not open.
    """
    opened = {known: collection for known, collection in service.collections.items() if key.opens(known)}
    if not name and opened:
        return next(iter(opened.values()))
    if name not in opened:
        raise RefusalError(
            404, f"There is no collection {name!r}. Available: {', '.join(opened) or 'none'}.", "collection"
        )
    return opened[name]


def read_document(collection: ServedCollection, key: AccessKey, id: str) -> Document | None:
    """Return a document as it is searched now, or None if there is none that the key may see."""
    document = next(iter(collection.state.index.read([id])), None)
    is_visible = document is not None and passing_documents(key.where, {document.id: document.metadata})
    return document if is_visible else None


def search_collection(service: "Service", key: AccessKey, order: SearchOrder) -> ServedSearch:
    """Search with the filter of the key ANDed to that of the client. Raises RefusalError and RagindexError.

    Steps and notes can name what lies outside the filter of a key, so such a key gets none.
    """
    _require_within(service, order)
    collection = find_collection(service, key, order.collection)
    state = collection.state
    method, retriever = collection.retriever(order.method, state)
    query = Query("search", order.query, combine_filters(key.where, order.where))
    with charge(key, service.metrics) as paid, ledger.attribute_calls("query", method):
        (retrieval,) = retriever.retrieve([query], order.k)
    if key.where is not None:
        retrieval = Retrieval(keep_permitted(key, retrieval.hits))
    hits, shortened = _cap_texts(retrieval.hits, service.settings.limits.text)
    tokens: int | None = None
    left_out = 0
    if order.max_tokens is not None:
        fit = fit_hits(hits, order.max_tokens, state.tokenizer)
        hits, tokens, left_out = fit.hits, fit.tokens, fit.left_out
        shortened = (shortened & {hit.id for hit in hits}) | fit.shortened
    bounded = Retrieval(hits, retrieval.trace, retrieval.notes)
    return ServedSearch(order, collection, state, method, bounded, paid.spent, tokens, shortened, left_out)


def _cap_texts(hits: Sequence[Hit], most: int) -> tuple[tuple[Hit, ...], frozenset[str]]:
    """Cut the titles and texts to `most` characters over all hits, the best first; return the ids of those cut."""
    capped, shortened = list[Hit](), set[str]()
    for hit in hits:
        title = hit.title[:most]
        text = hit.text[: most - len(title)]
        most -= len(title) + len(text)
        cut = len(title) + len(text) < len(hit.title) + len(hit.text)
        capped.append(replace(hit, title=title, text=text) if cut else hit)
        shortened.update([hit.id] if cut else [])
    return tuple(capped), frozenset(shortened)


def _require_within(service: "Service", order: SearchOrder) -> None:
    """Raise RefusalError for a question or a number of hits beyond the limits."""
    limits = service.settings.limits
    if not order.query.strip():
        raise RefusalError(400, "The query is empty.", "query")
    if len(order.query) > limits.query:
        raise RefusalError(400, f"The query has more than {limits.query} characters.", "query")
    if not 1 <= order.k <= limits.k:
        raise RefusalError(400, f"The number of hits must be in the range [1, {limits.k}]. Got {order.k}.", "k")


@dataclass(frozen=True, slots=True)
class ComposedAnswer:
    """An answer with the hits that it was composed from, and what both have cost.

    Where the index has no model, the answer is empty, and `evidence` has the sentences that match.
    """

    search: ServedSearch
    context: AnswerContext
    answer: CitedAnswer
    llm: str
    paid: Usage
    evidence: MatchedWords | None = None

    @property
    def cited(self) -> Mapping[int, Hit]:
        """The cited hits by number."""
        hits = {hit.id: hit for hit in self.search.hits}
        return {number: hits[id] for number, id in self.answer.passages.items()}


def compose_answer(service: "Service", key: AccessKey, hits: ServedSearch) -> ComposedAnswer:
    """Answer the question from the hits. Without a model, find the sentences that match. Raises RagindexError."""
    index, order, language = hits.state.index, hits.order, hits.state.language
    budget = order.max_tokens or DEFAULT_TOKENS
    context = build_context(hits.hits, hits.retrieval.notes, budget, hits.state.tokenizer)
    if is_offline(index.llm_name):
        evidence = find_matching_evidence(order.query, context, language)
        return ComposedAnswer(hits, context, cite_evidence(evidence, context), index.llm_name, hits.paid, evidence)
    if not (context.passages or context.notes):
        return ComposedAnswer(hits, context, CitedAnswer("", found=False), index.llm_name, hits.paid)
    with charge(key, service.metrics) as paid, ledger.attribute_calls("query", hits.method):
        output = index.llm.run(ANSWER, answer_inputs(order.query, context, language))
    answer = resolve_citations(output, context)
    return ComposedAnswer(hits, context, answer, index.llm_name, hits.paid + paid.spent)


_URL_KEYS = ("url", "source_url", "link")
_LONGEST_URL = 2_000  # characters


def find_link(metadata: Metadata) -> str:
    """Return the address of a document if a browser may open it: http or https, with a host; else ""."""
    urls = [metadata[key] for key in _URL_KEYS if key in metadata]
    return next((value for value in urls if isinstance(value, str) and _is_web_address(value)), "")


def _is_web_address(value: str) -> bool:
    if len(value) > _LONGEST_URL or not value.isprintable() or " " in value:
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
