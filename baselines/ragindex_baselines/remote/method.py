"""`http`: a retriever that runs elsewhere, asked over HTTP and compared like the methods that are built here."""

import time
import weakref
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import PurePosixPath
from random import Random
from threading import Lock
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

import regex
from pydantic import Field, field_validator, model_validator

from ragindex._util.canonical import encodable
from ragindex._util.http import RequestProblemError, read_secret, require_bare, retry
from ragindex._util.ids import find_spelling, spellings
from ragindex._util.redaction import names_secret
from ragindex.accounting import ledger
from ragindex.errors import RequestError, ServiceError, UsageError
from ragindex.filters import All, Filter, Ids
from ragindex.interfaces import Collection, FilterQuery, OpenIndex, Part, PositionLookup, Retriever, Scheme
from ragindex.llm import rate_limits
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField
from ragindex.plugins.base import Contact
from ragindex.plugins.registry import label
from ragindex.retrieval.hits import check_queries, fetch_hits
from ragindex.retrieval.stages import record_ranking
from ragindex.retrieval.trace import UNKNOWN_DOCUMENTS
from ragindex.types import Hit, Query, Retrieval, Step
from ragindex_baselines.remote.client import PROTOCOLS, JsonAddress, Protocol, ServiceHit

_HEADER = regex.compile(r"[A-Za-z0-9-]{1,64}")


class Http(Scheme):
    """A retriever that runs elsewhere, behind an address that questions are posted to.

    The service sees the texts of questions and nothing else. The ids of its hits are matched to the documents of the
    corpus; hits of others count as misses, and are counted. The index holds the passages alone, to show titles,
    metadata and texts where the service sends none.
    """

    version: ClassVar[int] = 1
    order_depends_on_filter: ClassVar[bool] = True
    keys_from: ClassVar[str] = "Put the key into an environment variable, and its name into the parameter key."
    url: str = Field(description="Address that questions are posted to.")
    protocol: Literal["plain", "openai"] = Field(
        default="plain",
        description="plain: {query, k} is answered by {hits: [{id, score, title, text}]}. openai: vector-store search.",
    )
    key: str | None = Field(
        default=None, description="Name of the environment variable with the key, such as SEARCH_API_KEY. null: no key."
    )
    header: str = Field(default="Authorization", description="Header of the key; Authorization has Bearer before it.")
    timeout: float = Field(default=30.0, gt=0, le=3600, description="Most seconds of a request.")
    retries: int = Field(default=2, ge=0, le=20, description="Times a request is sent again after a passing failure.")
    max_mb: float = Field(default=4.0, gt=0, le=1024, description="Most megabytes of an answer.")
    depth: int = Field(
        default=50, ge=1, description="Hits that are asked for where a filter then leaves out some; else k are."
    )
    price: float = Field(default=0.0, ge=0, description="Dollars for 1,000 questions.")
    over: PassagesField = OVER_PASSAGES

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        require_bare(url, "http", cls.keys_from)
        try:
            host, _ = urlsplit(url).hostname, urlsplit(url).port
        except ValueError:  # of the port, or of an IPv6 address
            host = None
        if not host or not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError("an address of ASCII characters with a host, as https://search.example.org/search")
        return url

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        # An error of one parameter would repeat its value, which may be the key itself.
        if self.key is not None and not names_secret(self.key):
            raise ValueError(
                "key is the name of an environment variable that ends in API_KEY, ACCESS_KEY, TOKEN, SECRET or "
                "PASSWORD, such as SEARCH_API_KEY, never the key itself"
            )
        if _HEADER.fullmatch(self.header) is None:
            raise ValueError("header is the name of an HTTP header, such as X-API-Key")
        return self

    def contacts(self) -> tuple[Contact, ...]:
        """Return the host of the service, and the variable of its key."""
        return (Contact.of_address(self.url, () if self.key is None else (self.key,)),)

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the passages, which hits are matched to."""
        return (self.over,)

    def depends_on_k(self, k: int) -> bool:
        """Return True: nothing is known about the service, and hits of unknown documents leave fewer than k."""
        return True

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a client, which contacts nothing before the first question.

        Raises UsageError if the environment variable of the key is not set.
        """
        headers, key = {}, ""
        if self.key is not None:
            key = read_secret([self.key], index.folder) or ""
            if not key:
                raise UsageError(f"{label(self)} needs a key: set the environment variable {self.key}.")
            headers = {self.header: f"Bearer {key}" if self.header == "Authorization" else key}
        address = JsonAddress(self.url, self.timeout, round(1e6 * self.max_mb), headers, key)
        documents = CorpusDocuments(index.open_part(self.over), index.open_positions(self.over), label(self))
        retriever = HttpRetriever(self, PROTOCOLS[self.protocol], address, documents)
        weakref.finalize(retriever, address.close)
        return retriever


@dataclass
class HttpRetriever:
    """The open retriever of Http."""

    scheme: Http
    protocol: Protocol
    address: JsonAddress
    documents: "CorpusDocuments"
    _rng: Random = field(default_factory=Random)  # for the jitter of waits

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Post one question after the other. Raises RequestError for a question, and ServiceError for all."""
        check_queries(queries, k)
        return [self._search(query, k) for query in queries]

    def _search(self, query: Query, k: int) -> Retrieval:
        limit = min(k if query.filter is None else max(k, self.scheme.depth), self.protocol.most)
        start = time.perf_counter()
        service_hits = self._ask(query.text, limit)
        ms = (time.perf_counter() - start) * 1e3
        matched = self.documents.match(service_hits, query.filter, by_file_name=self.protocol.by_file_name)
        record_ranking(self.scheme.protocol, matched.hits, k)
        hits = matched.hits[:k]
        step = Step(1, self.scheme.protocol, query.text, tuple(hit.id for hit in hits), ms=ms)
        if not matched.unknown:
            return Retrieval(hits, (step,))
        note = f"{len(matched.unknown)} of {len(service_hits)} hits are of no document of the corpus"
        return Retrieval(hits, (step, Step(1, UNKNOWN_DOCUMENTS, query.text, matched.unknown, note=note)))

    def _ask(self, text: str, k: int) -> list[ServiceHit]:
        """Return the hits of the service. Raises RequestError, or ServiceError if no question would be answered."""

        def attempt() -> list[ServiceHit]:
            return self.protocol.read(self.address.post(self.protocol.write(encodable(text), k)), k)

        try:
            hits = retry(attempt, self.scheme.retries, self._rng, lambda _, seconds: rate_limits.sleep(seconds))
        except RequestProblemError as error:
            problem = error.problem
        else:
            if self.scheme.price:  # the time of a question is that of the method
                price = self.scheme.price / 1_000
                ledger.record_call(ledger.CallRecord("search over HTTP", self.scheme.url, money=price), 0.0)
            return hits
        # a refused key, no such address, no connection or a redirect fails every other question too
        redirected = problem.status is not None and 300 <= problem.status < 400
        kind = ServiceError if problem.stops or redirected else RequestError
        hint = f" Check {self.scheme.key}." if problem.refuses_key and self.scheme.key else ""
        hint = hint or (" Name the variable of its key: key=SEARCH_API_KEY." if problem.refuses_key else "")
        raise kind(f"{label(self.scheme)}: POST {self.scheme.url} failed, {problem}.{hint}")


# ---------------------------------------------------------------- hits of the service as hits of the corpus


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The hits whose documents are known, best first, and the ids of those that name none."""

    hits: tuple[Hit, ...]
    unknown: tuple[str, ...]


@dataclass
class CorpusDocuments:
    """The documents of the index, found by id, or by the last part of a path where only one document ends in it.

    Thread-safe.
    """

    passages: Collection
    positions: PositionLookup
    source: str
    _by_file_name: dict[str, str] | None = None
    _lock: Lock = field(default_factory=Lock)

    def match(self, service_hits: Sequence[ServiceHit], where: Filter | None, *, by_file_name: bool) -> MatchResult:
        """Return the hits of one question. Of a document that the filter does not wholly pass, nothing is returned."""
        owners = self._find_owners(service_hits, by_file_name=by_file_name)
        passages = self._list_passages({id for owner in owners for id in owner})
        allowed = set(passages) if where is None else self._filter(passages, where)
        first = self._read_first({id: passages[id][0] for id in allowed})
        own = {id: position.doc_id for id, position in self.positions.find([hit.id for hit in service_hits]).items()}
        hits = [
            self._make_hit(hit, ids, (hit.id,) if own.get(hit.id) in ids else (), first)
            for hit, ids in zip(service_hits, owners, strict=True)
            if ids and first.keys() >= set(ids)
        ]
        unknown = tuple(hit.id for hit, ids in zip(service_hits, owners, strict=True) if not ids)
        return MatchResult(_with_own_ids(_with_scores(hits, service_hits)), unknown)

    def _find_owners(self, hits: Sequence[ServiceHit], *, by_file_name: bool) -> list[tuple[str, ...]]:
        """Return the known documents of each hit; () if it names none."""
        spelled_ids = {spelled for hit in hits for ids in hit.documents for id in ids for spelled in spellings(id)}
        known = self._list_passages(spelled_ids)
        owners = [next(filter(None, (_keep(ids, known) for ids in hit.documents)), ()) for hit in hits]
        if not by_file_name or all(owners):
            return owners
        names = self._file_names()
        return [ids or _find_by_file_name(hit, names) for hit, ids in zip(hits, owners, strict=True)]

    def _file_names(self) -> Mapping[str, str]:
        """Return the documents by the last part of their ids, without those that share it; read once."""
        with self._lock:
            if self._by_file_name is None:
                rows = (row for batch in self.passages.scan(("doc_ids",)) for row in batch.to_pylist())
                ids_by_name: dict[str, list[str]] = {}
                for id in {id for row in rows for id in row["doc_ids"]}:
                    ids_by_name.setdefault(PurePosixPath(id).name, []).append(id)
                self._by_file_name = {name: ids[0] for name, ids in ids_by_name.items() if len(ids) == 1}
            return self._by_file_name

    def _list_passages(self, doc_ids: set[str]) -> dict[str, list[str]]:
        return {id: list(spans) for id, spans in self.positions.of_documents(doc_ids).items() if spans}

    def _filter(self, passages: Mapping[str, Sequence[str]], where: Filter) -> set[str]:
        """Return the documents of which all passages pass the filter."""
        ids = tuple(id for of_document in passages.values() for id in of_document)
        if not ids:
            return set()
        (passed,) = self.passages.search([FilterQuery(All((Ids(ids), where)), len(ids))])
        passing = set(passed.ids)
        return {id for id, of_document in passages.items() if passing.issuperset(of_document)}

    def _read_first(self, first: Mapping[str, str]) -> dict[str, Hit]:
        """Return the first passage of each document, by document."""
        hits = fetch_hits(self.passages, dict.fromkeys(first.values(), 0.0), self.source)
        by_passage = {hit.id: hit for hit in hits}
        return {id: by_passage[passage] for id, passage in first.items() if passage in by_passage}

    def _make_hit(
        self, hit: ServiceHit, ids: tuple[str, ...], passages: tuple[str, ...], first: Mapping[str, Hit]
    ) -> Hit:
        first_hit = first[ids[0]]
        return Hit(
            id=hit.id,
            kind="passage",
            passage_ids=passages,
            doc_ids=ids,
            title=hit.title or first_hit.title,
            text=hit.text or first_hit.text,
            score=0.0 if hit.score is None else hit.score,
            source=self.source,
            metadata={id: first[id].metadata[id] for id in ids if id in first[id].metadata},
        )


def _keep(ids: Sequence[str], known_ids: Container[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(spelling for id in ids if (spelling := find_spelling(id, known_ids)) is not None))


def _find_by_file_name(hit: ServiceHit, names: Mapping[str, str]) -> tuple[str, ...]:
    spelled = (find_spelling(id, names) for ids in hit.documents for id in ids)
    return next(((names[name],) for name in spelled if name is not None), ())


def _with_scores(hits: Sequence[Hit], service_hits: Sequence[ServiceHit]) -> list[Hit]:
    """Return the hits in the order of the service, with 1 / rank as scores unless its own descend with the ranks."""
    scores = [service_hit.score for service_hit in service_hits]
    known = [score for score in scores if score is not None]
    if len(known) == len(scores) and known == sorted(known, reverse=True):
        return list(hits)
    return [replace(hit, score=1 / rank) for rank, hit in enumerate(hits, start=1)]


def _with_own_ids(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return the hits with ids that differ: a service may return several passages of a document under its id."""
    own_ids, used_ids = {hit.id for hit in hits}, set[str]()
    numbered = list[Hit]()
    for hit in hits:
        new = (f"{hit.id} ({number})" for number in count(2))
        id = hit.id if hit.id not in used_ids else next(fresh for fresh in new if fresh not in own_ids | used_ids)
        used_ids.add(id)
        numbered.append(replace(hit, id=id))
    return tuple(numbered)
