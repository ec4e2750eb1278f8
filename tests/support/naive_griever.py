"""GRIEVER a second time, by its paper and readings V1 to V11, in plain loops: slow, and meant to be checked by eye.

Only the flat searches, the encoder and the records of aliases come from the workspace. All that the method itself does
(splitting, shortlisting, matching, scores, paths, ranking, rewriting) is worked out here again, from the triples that
the test wrote down; the real one shares nothing of it but how the ids of partial triples are made.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ragindex import filters
from ragindex.filters import All, Filter, Ids, Not, Overlaps, Terms
from ragindex.index.index import Index
from ragindex.interfaces import Retriever
from ragindex.plugins import registry
from ragindex.types import Query
from ragindex_retrievers.griever.parts.partial_triples import partial_id

Triple: TypeAlias = tuple[str, str, str]
Partial: TypeAlias = tuple[str, str, bool]  # entity, predicate, whether the entity is the object
Stated: TypeAlias = tuple[str, Triple]  # a passage and a triple of it: two passages that state the same are two
Path: TypeAlias = tuple[Stated, ...]
Span: TypeAlias = tuple[int, int]
Matched: TypeAlias = tuple[Any, dict[frozenset[str], tuple[float, Span | None]], list[tuple[Span, Any]]]
CONNECTORS = {"who", "whom", "whose", "which", "that", "where", "when"}
WORD = re.compile(r"[\w'’.-]*\w")
SUB_QUERIES, LONGEST, SURE_ENTITY, SURE_PREDICATE = 8, 6, 0.7, 0.5
AS_EQUAL = 1e-6


@dataclass(frozen=True)
class Readings:
    iterations: int = 2
    t_max: int = 30
    split: bool = True
    rewrite: bool = True
    rewrite_order: str = "triple"
    same_as: str = "evidence"
    combine: str = "union"
    join: str = "shortlist"
    triple_score: str = "subquery"
    predicate_score: str = "matcher"
    frequency: str = "passages"
    keep_prefixes: bool = True
    retrieval_weight: float = 1.0
    retrieval_score: str = "question"


def retrieve(
    workspace: Index, triples: Mapping[str, Sequence[Triple]], question: str, k: int, **readings: Any
) -> list[tuple[str, float]]:
    """The k best passages with their scores; `triples` are those of each passage of the corpus."""
    return ranked(Corpus(workspace, triples, Readings(**readings)), question, k)[:k]


def ranked(corpus: "Corpus", question: str, k: int) -> list[tuple[str, float]]:
    """All passages that were found by asking for k at a time."""
    readings = corpus.readings
    texts, graph = sub_queries(question) if readings.split else [question], Graph(corpus)
    ways = [Way(graph if readings.combine == "subgraph" else Graph(corpus), text) for text in texts]
    for iteration in range(1, readings.iterations + 1):
        go_on([way for way in ways if not way.over], ways[0], k, last=iteration == readings.iterations)
    best: dict[str, float] = {}
    texts_by_passage: dict[str, set[str]] = {}  # the texts that found a passage
    for way in ways:
        for id, score in way.graph.ranked().items():
            best[id] = max(score, best.get(id, -math.inf))
        for id, text in way.text_by_passage.items():
            texts_by_passage.setdefault(id, {question}).add(text)
    weight, by_query = readings.retrieval_weight, readings.retrieval_score == "query"
    for id, found_by in texts_by_passage.items() if weight else ():
        best[id] += weight * max(corpus.cosines(text)[id] for text in (found_by if by_query else {question}))
    return sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))


def go_on(ways: Sequence["Way"], first: "Way", k: int, *, last: bool) -> None:
    """One iteration of all ways, step by step."""
    for way, new in [(way, way.passages(k)) for way in ways]:
        way.add_found(new)
    matchers = [(way, Matcher(way.graph, way.text)) for way in ways]
    question_matcher = Matcher(first.graph, first.text)
    lists = [(way, matcher, *way.shortlist(matcher)) for way, matcher in matchers]
    new_of: dict[int, dict[Stated, float]] = {}
    for way, matcher, shortlist, _ in lists:
        new = new_of.setdefault(id(way.graph), {})
        for stated in shortlist:
            by = question_matcher if way.graph.corpus.readings.triple_score == "question" else matcher
            new[stated] = max(by.triple(stated[1])[0], new.get(stated, -math.inf))
    for graph in {id(way.graph): way.graph for way in ways}.values():
        graph.extend(new_of[id(graph)])
    of_all = {name for *_, joins in lists for name in joins}
    for way, matcher, shortlist, joins in lists:
        way.joins = of_all if way.graph.corpus.readings.combine == "subgraph" else joins
        way.over = not way.joins
        if way.graph.corpus.readings.rewrite and not way.over and not last:
            way.text = matcher.rewritten(shortlist)


def sub_queries(question: str) -> list[str]:
    """The whole question, and what stands from each connector on (V3)."""
    words = list(re.finditer(r"\w+", question))
    starts = [word.start() for word in words[1:-1] if word[0].lower() in CONNECTORS]
    return [question, *(question[start:] for start in starts)][:SUB_QUERIES]


def partials(triple: Triple) -> list[Partial]:
    subject, predicate, object = triple
    return [(subject, predicate, False), (object, predicate, True)]


class Corpus:
    """What is known before anything is asked."""

    def __init__(self, workspace: Index, triples: Mapping[str, Sequence[Triple]], readings: Readings) -> None:
        self.workspace, self.readings = workspace, readings
        self.opened: dict[str, Retriever] = {}
        self._cosines: dict[str, dict[str, float]] = {}
        self._hit_ids: dict[tuple[Any, ...], list[str]] = {}
        self.matchers: dict[str, Matched] = {}
        self.triples = {id: list(dict.fromkeys(own)) for id, own in triples.items()}
        self.aliases: list[dict[str, Any]] = []
        if readings.same_as != "none":
            part = workspace.open_part(registry.part(f"same_as(by={readings.same_as})"))
            self.aliases = [row for batch in part.scan(("aliases", "passage_ids")) for row in batch.to_pylist()]
        texts = sorted({text for own in self.triples.values() for triple in own for text in triple})
        self.vectors = dict(zip(texts, workspace.encoder.encode_documents(texts), strict=True))

    def search(self, scheme: str, text: str, k: int, where: Filter | None = None) -> list[str]:
        if scheme not in self.opened:
            self.opened[scheme] = registry.scheme(scheme).open(self.workspace)
        request = (scheme, text, k, where)
        if request not in self._hit_ids:
            hits = self.opened[scheme].retrieve([Query("q", text, where)], k)[0].hits
            self._hit_ids[request] = [hit.id for hit in hits]
        return self._hit_ids[request]

    def cosines(self, text: str) -> dict[str, float]:
        """The cosine of the text with every passage of the corpus."""
        if text not in self._cosines:
            dense = registry.scheme("dense").open(self.workspace)
            hits = dense.retrieve([Query("q", text)], len(self.triples))[0].hits
            self._cosines[text] = {hit.id: hit.score for hit in hits}
        return self._cosines[text]

    def frequency(self, partial: Partial) -> int:
        """How many triples of the corpus have it (V8)."""
        matching = [(id, triple) for id, own in self.triples.items() for triple in own if partial in partials(triple)]
        if self.readings.frequency == "objects":
            return len({triple[0] if partial[2] else triple[2] for _, triple in matching})
        return len({id for id, _ in matching}) if self.readings.frequency == "passages" else len(matching)


class Graph:
    """What one sub-query finds, or all together: passages in their order, triples with their scores, paths."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.passage_ids: list[str] = []
        self.scores: dict[Stated, float] = {}
        self.paths: list[Path] = []

    def with_aliases(self, names: Iterable[str]) -> set[str]:
        """These names and others of the same entities, as far as a passage that was found so far says so."""
        known = set(names)
        stated_aliases = [
            row["aliases"] for row in self.corpus.aliases if set(row["passage_ids"]) & set(self.passage_ids)
        ]
        return known | {name for aliases in stated_aliases if known & set(aliases) for name in aliases}

    def extend(self, new: Mapping[Stated, float]) -> None:
        """Paths of earlier iterations go on with new triples, and each of these opens one (V9)."""
        earlier = list(self.paths)
        self.scores.update(new)
        self.paths += [(stated,) for stated in new]
        for path in earlier:
            longer = [(*path, stated) for stated in new if self.goes_on(path, stated[1])]
            self.paths += longer
            if longer and not self.corpus.readings.keep_prefixes:
                self.paths.remove(path)

    def goes_on(self, path: Path, triple: Triple) -> bool:
        """Whether they share an entity, and the path does not say the same already."""
        ends = path[-1:]
        names = {name for _, (subject, _, object) in ends for name in (subject, object)}
        stated = any(triple == step for _, step in path)
        return not stated and bool(names & self.with_aliases((triple[0], triple[2])))

    def ranked(self) -> dict[str, float]:
        """A passage has the best product of a triple's score and that of a path through it (V10)."""
        ranked = {}
        for place, id in enumerate(self.passage_ids):
            products = [
                self.scores[stated] * sum(self.scores[triple] for triple in path) / len(path)
                for path in self.paths
                for stated in path
                if stated[0] == id
            ]
            otherwise = 0 if self.corpus.readings.retrieval_weight else 1 / (place + 1) - 2
            ranked[id] = max(products, default=otherwise)
        return ranked


class Way:
    """One sub-query: its text now, what it has just found, what its next passages must name, and what it was asked."""

    def __init__(self, graph: Graph, text: str) -> None:
        self.graph, self.text = graph, text
        self.latest: list[str] = []
        self.joins: set[str] = set()
        self.text_by_passage: dict[str, str] = {}  # the text that each passage was found by
        self.over = False

    def passages(self, k: int) -> list[str]:
        corpus = self.graph.corpus
        if not self.joins:
            return corpus.search("composed(over=triple_passages)", self.text, k)
        names = tuple(sorted(self.joins))
        linked = filters.Any((Terms("subjects", names), Terms("objects", names)))
        where = All((Not(Ids(tuple(self.graph.passage_ids))), linked))
        return corpus.search("hybrid(over=triple_passages)", self.text, k, where)

    def add_found(self, new: list[str]) -> None:
        self.latest = new
        self.graph.passage_ids += [id for id in new if id not in self.graph.passage_ids]
        self.text_by_passage |= dict.fromkeys(new, self.text)

    def shortlist(self, matcher: "Matcher") -> tuple[list[Stated], set[str]]:
        """Those triples of its passages with a partial that the question finds, and what joins them to others."""
        corpus, readings = self.graph.corpus, self.graph.corpus.readings
        stated = [(id, triple) for id in self.latest for triple in corpus.triples[id]]
        if not stated:
            return [], set()
        entities = self.graph.with_aliases(name for _, (subject, _, object) in stated for name in (subject, object))
        where = All((Overlaps("passage_ids", tuple(self.latest)), Terms("subject", tuple(sorted(entities)))))
        ids = corpus.search("hybrid(over=partial_triples)", self.text, readings.t_max, where)
        chosen, joins = [], set()
        for id, triple in stated:
            direct, inverse = (partial_id(*partial) in ids for partial in partials(triple))
            if direct or inverse:
                chosen.append((id, triple))
            if direct or (inverse and readings.join == "all"):
                joins.add(triple[2])
            if inverse or (direct and readings.join == "all"):
                joins.add(triple[0])
        return chosen, self.graph.with_aliases(joins)


class Matcher:
    """Names beside the n-grams of one text (V7)."""

    def __init__(self, graph: Graph, text: str) -> None:
        self.graph, self.text = graph, text
        matchers = graph.corpus.matchers
        if text in matchers:
            self.vector, self.matched, self.grams = matchers[text]
            return
        (self.vector,), (tokens,) = graph.corpus.workspace.encoder.encode_queries_with_tokens([text])
        self.matched, self.grams = {}, []
        matchers[text] = self.vector, self.matched, self.grams
        words = [word.span() for word in WORD.finditer(text)]
        for length in range(1, LONGEST + 1):
            for first in range(len(words) - length + 1):
                start, end = words[first][0], words[first + length - 1][1]
                pairs = zip(tokens.spans, tokens.vectors, strict=True)
                inside = [vector for span, vector in pairs if start <= span[0] and span[1] <= end]
                total = np.sum(inside, axis=0, dtype=float) if inside else np.zeros(1)
                if total.any():
                    self.grams.append(((start, end), total / np.linalg.norm(total)))

    def best(self, names: Iterable[str]) -> tuple[float, Span | None]:
        """The greatest cosine of a name with an n-gram; of equal n-grams the shortest, then the first."""
        key = frozenset(names)
        if key not in self.matched:
            best: tuple[float, Span | None] = (0.0, None)
            for name in sorted(key):
                for span, gram in self.grams:
                    cosine = float(self.graph.corpus.vectors[name] @ gram)
                    if best[1] is None or cosine > best[0] + AS_EQUAL:
                        best = (cosine, span)
            self.matched[key] = best
        return self.matched[key]

    def predicate(self, predicate: str) -> tuple[float, Span | None]:
        score, span = self.best([predicate])
        by_query = self.graph.corpus.readings.predicate_score == "query"
        return float(self.graph.corpus.vectors[predicate] @ self.vector) if by_query else score, span

    def triple(self, triple: Triple) -> tuple[float, Partial]:
        """Equations 1 and 2, and the partial that gave the greater score."""
        scored = []
        for partial in partials(triple):
            matched = self.best(self.graph.with_aliases([partial[0]]))[0] + self.predicate(partial[1])[0]
            scored.append((matched / (2 * (1 + math.log(self.graph.corpus.frequency(partial)))), partial))
        return max(scored, key=lambda pair: pair[0])

    def worth(self, triple: Triple, *, by_entity: bool) -> tuple[float, float]:
        """What comes first in rewriting: the best triple, or of those with the best matched entity the best."""
        score, (entity, _, _) = self.triple(triple)
        return (self.best(self.graph.with_aliases([entity]))[0] if by_entity else 0.0), score

    def rewritten(self, shortlist: Sequence[Stated]) -> str:
        """The text with the other end of its best triple, if another, in the place of the end it names (V11)."""
        by_entity = self.graph.corpus.readings.rewrite_order == "entity"
        for _, triple in sorted(shortlist, key=lambda item: self.worth(item[1], by_entity=by_entity), reverse=True):
            _, (entity, predicate, inverse) = self.triple(triple)
            score, mention = self.best(self.graph.with_aliases([entity]))
            other = triple[0] if inverse else triple[2]
            if mention and score >= SURE_ENTITY and self.text[slice(*mention)].lower() != other.lower():
                return self.swapped(mention, predicate, other)
        return self.text

    def swapped(self, mention: Span, predicate: str, other: str) -> str:
        score, span = self.predicate(predicate)
        gone = set(range(*span)) if span and score >= SURE_PREDICATE else set()
        written = ""
        for place, character in enumerate(self.text):
            if place == mention[0]:
                written += other
            if place not in gone and not mention[0] <= place < mention[1]:
                written += character
        return " ".join(written.split())
