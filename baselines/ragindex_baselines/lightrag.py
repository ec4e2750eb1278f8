"""LightRAG: entities found by a question's details, relations found by its themes, and the passages that state them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import regex
from pydantic import BaseModel, Field

from ragindex.english import find_mentions
from ragindex.english.words import ENGLISH_FUNCTION_WORDS
from ragindex.interfaces import Collection, Encoder, Floats, OpenIndex, Part, Retriever, Scheme, VectorQuery
from ragindex.interfaces.llm import LLM
from ragindex.llm.tasks import Task
from ragindex.parts.text.passages import OVER_PASSAGES, Passages, PassagesField
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import PartField, label, of_class
from ragindex.retrieval.hits import PassingRecords, check_queries, fetch_hits, fetch_records
from ragindex.retrieval.stages import record_ranking, record_search
from ragindex.retrieval.trace import Trace
from ragindex.types import Query, Retrieval, Triple
from ragindex_baselines.graphrag.entity_graph import EntityGraph, EntityVectors, OpenEntityGraph
from ragindex_baselines.graphrag.method import describe_relations, read_nearby, search_entities, write_notes

_PASSAGES_OF_ENTITY = 20
"""Passages of an entity that count: those that state most about it."""
_SIDES = ("subject", "predicate", "object")
_DIGITS = 12
"""Scores are rounded to so many digits, so that equal sums are equal, and sorted by id."""


class LightRAG(Scheme):
    """Passages of the entities and relations that a question's keywords lead to (Guo et al. 2024).

    An LLM, or a rule, writes two lists of keywords. Details find the nearest `entities` (mode `local`), themes find the
    nearest triples (mode `global`); `hybrid` does both, `mix` searches passages by the question too. An entity or
    triple at place i gives its passages 1 / (1 + i), and a passage is ranked by the sum. Notes are the descriptions of
    the entities, up to `note_tokens` tokens, and their relations with the triples found, up to `relation_tokens`.
    """

    version: ClassVar[int] = 1
    mode: Literal["local", "global", "hybrid", "mix"] = Field(
        default="hybrid", description="Search entities, relations, both, or passages too."
    )
    graph: Annotated[PartField, of_class(EntityGraph)] = Field(
        default=EntityGraph(), description="Graph of entities and relations."
    )
    over: PassagesField = OVER_PASSAGES
    entities: int = Field(default=20, ge=1, description="Entities nearest to the details.")
    relations: int = Field(default=20, ge=1, description="Triples nearest to the themes.")
    note_tokens: int = Field(default=500, ge=0, description="Tokens of entities in the notes (estimated).")
    relation_tokens: int = Field(
        default=500, ge=0, description="Tokens of relations in the notes (estimated). 0: none."
    )

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the task of the keywords."""
        return (KEYWORDS,)

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the graph, the passages, and the vectors that the mode searches."""
        vectors: list[Part[Any]] = [] if self.mode == "global" else [EntityVectors(of=self.graph)]
        vectors += [] if self.mode == "local" else [Vectors(of=self.graph.of)]
        return (Passages(), self.graph, *vectors, *([Vectors(of=Passages())] if self.mode == "mix" else []))

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever: one call, one batch of encodings and at most three searches a question."""
        passages = index.open_part(Passages())
        entities = None if self.mode == "global" else index.open_part(EntityVectors(of=self.graph))
        triples = None if self.mode == "local" else index.open_part(Vectors(of=self.graph.of))
        vectors = index.open_part(Vectors(of=Passages())) if self.mode == "mix" else None
        graph = index.open_part(self.graph)
        searched = Searched(passages, PassingRecords(passages), graph, entities, triples, vectors)
        return LightRAGRetriever(searched, index.encoder, index.llm, self, label(self))


@dataclass(frozen=True, slots=True)
class Searched:
    """The collections that are searched; None for those that the mode leaves out."""

    passages: Collection
    passing: PassingRecords
    graph: OpenEntityGraph
    entities: Collection | None
    triples: Collection | None
    vectors: Collection | None


@dataclass(frozen=True, slots=True)
class Items:
    """What a search found: the passages of each item, nearest first, and what the notes say of them."""

    passage_ids: Sequence[Sequence[str]]
    triples: Sequence[Triple] = ()
    descriptions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LightRAGRetriever:
    """The open retriever of LightRAG.

    With a filter, an entity counts only if all passages that it is made from pass, a triple if its passage does.
    """

    searched: Searched
    encoder: Encoder
    llm: LLM
    settings: LightRAG
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer the questions one after the other. Raises what `LLM.run` raises."""
        check_queries(queries, k)
        return [self._retrieve_one(query, k) for query in queries]

    def _retrieve_one(self, query: Query, k: int) -> Retrieval:
        trace, settings = Trace(), self.settings
        details, themes = self._write_keywords(query.text, trace)
        searched = self.searched
        searching = ((details, searched.entities), (themes, searched.triples), (query.text, searched.vectors))
        texts = list(dict.fromkeys(text for text, collection in searching if collection is not None))
        vectors = dict(zip(texts, self.encoder.encode_queries(texts), strict=True))
        searches = [
            *self._search_entities(query, details, vectors, trace),
            *self._search_triples(query, themes, vectors, trace),
            *self._search_passages(query, vectors, max(k, settings.relations), trace),
        ]
        with trace.step(1, "passages", "") as step:
            scores = add_places(items.passage_ids for items in searches)
            record_ranking("passages", scores, k)
            hits = fetch_hits(self.searched.passages, dict(list(scores.items())[:k]), self.source)
            step["ids"] = tuple(hit.id for hit in hits)
        descriptions = [text for items in searches for text in items.descriptions]
        triples = list(dict.fromkeys(triple for items in searches for triple in items.triples))
        notes = write_notes(descriptions, triples, settings.note_tokens, settings.relation_tokens)
        return Retrieval(hits, tuple(trace.steps), notes)

    def _search_entities(
        self, query: Query, details: str, vectors: Mapping[str, Floats], trace: Trace
    ) -> Iterator[Items]:
        searched = self.searched
        if searched.entities is None:
            return
        passing = None if query.filter is None else searched.passing.find(query.filter)
        with trace.step(1, "entities", details) as step:
            (result,) = search_entities(searched.entities, vectors[details][None], [passing], self.settings.entities)
            record_ranking("entities", result.ids, query=details)
            nearby = read_nearby(result)
            records = fetch_records(searched.entities, result.ids, ("name", "text")).to_pylist()
            triples = describe_relations(searched.graph, nearby, 1, passing)
            step["ids"], step["triples"] = tuple(result.ids), tuple(triples)
        passage_ids = [entity.passage_ids.slice(0, _PASSAGES_OF_ENTITY).to_pylist() for entity in nearby]
        yield Items(passage_ids, triples, [f"{record['name']}\n{record['text']}" for record in records])

    def _search_triples(
        self, query: Query, themes: str, vectors: Mapping[str, Floats], trace: Trace
    ) -> Iterator[Items]:
        if self.searched.triples is None:
            return
        request = VectorQuery(vectors[themes], self.settings.relations, (*_SIDES, "passage_ids"), query.filter)
        with trace.step(1, "triples", themes) as step:
            (result,) = self.searched.triples.search([request])
            record_search("triples", self.searched.triples, [request], [themes])
            rows = result.records.to_pylist()
            triples = [Triple(*(row[side] for side in _SIDES)) for row in rows]
            step["ids"], step["triples"] = tuple(result.ids), tuple(triples)
        yield Items([row["passage_ids"] for row in rows], triples)

    def _search_passages(
        self, query: Query, vectors: Mapping[str, Floats], count: int, trace: Trace
    ) -> Iterator[Items]:
        if self.searched.vectors is None:
            return
        request = VectorQuery(vectors[query.text], count, (), query.filter)
        with trace.step(1, "vectors", query.text) as step:
            (result,) = self.searched.vectors.search([request])
            record_search("vectors", self.searched.vectors, [request], [query.text])
            step["ids"] = tuple(result.ids)
        yield Items([[id] for id in result.ids])

    def _write_keywords(self, question: str, trace: Trace) -> tuple[str, str]:
        """Return the keywords of details and of themes as texts to search for; the question for an empty list."""
        with trace.step(1, "keywords", question) as step:
            keywords = self.llm.run(KEYWORDS, {"question": question})
            details, themes = (", ".join(_clean(words)) for words in (keywords.details, keywords.themes))
            step["note"] = f"details: {details or '–'}; themes: {themes or '–'}"
        return details or question, themes or question


def add_places(rankings: Iterable[Sequence[Sequence[str]]]) -> dict[str, float]:
    """Return the scores of passages, best first, equal ones by id; a ranking has the passages of each item.

    Items are entities, triples or passages. The item at place i gives 1 / (1 + i) to each of its passages.

    >>> add_places([[["a", "b"], ["b"]], [["c"]]])
    {'b': 1.5, 'a': 1.0, 'c': 1.0}
    """
    scores: Counter[str] = Counter()
    for ranking in rankings:
        for place, ids in enumerate(ranking):
            scores.update(dict.fromkeys(ids, 1 / (1 + place)))
    rounded = {id: round(float(score), _DIGITS) for id, score in scores.items()}
    return dict(sorted(rounded.items(), key=lambda item: (-item[1], item[0])))


def _clean(words: Iterable[str]) -> list[str]:
    return [word for word in dict.fromkeys(" ".join(word.split()) for word in words) if word]


# ---------------------------------------------------------------- the LLM task


class Keywords(BaseModel):
    """Keywords of a question: details are things that it names, themes are what it asks about them."""

    details: list[str]
    themes: list[str]


_AUXILIARIES = frozenset(("do", "does", "did"))
_WORD = regex.compile(r"[\p{L}\p{N}][\p{L}\p{M}\p{N}'’-]*")


def _find_keywords_by_rule(inputs: Mapping[str, Any]) -> Keywords:
    """Return what the question mentions as details, and the question without function words as its one theme."""
    question, left_out = inputs["question"], ENGLISH_FUNCTION_WORDS | _AUXILIARIES
    words = [word for word in _WORD.findall(question) if word.casefold() not in left_out]
    return Keywords(details=[mention.text for mention in find_mentions(question)], themes=[" ".join(words)])


KEYWORDS: Task[Keywords] = Task(
    name="keywords",
    version=1,
    prompt=Path(__file__).with_name("prompts") / "lightrag_keywords.jinja",
    output=Keywords,
    rule=_find_keywords_by_rule,
    max_tokens=300,
)
