"""The scheme `evidence`: candidates of several methods, ranked by weighted features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, field_validator, model_validator

from ragindex.interfaces import CandidateFeatures, Encoder, Floats, OpenIndex, Part, Retriever, Scheme
from ragindex.parts.records import Doubles
from ragindex.plugins import registry
from ragindex.plugins.registry import SchemeField, label
from ragindex.retrieval.hits import check_queries, fetch_records
from ragindex.types import Query, Retrieval, Step
from ragindex_retrievers.links.features import (
    FEATURES,
    MAY_COUNT_AGAINST,
    build_features,
    read_weights,
    resolve_weights,
)
from ragindex_retrievers.links.lookups import LinksParameters
from ragindex_retrievers.links.method import link_parts, open_parts, read_ranking
from ragindex_retrievers.links.walk import LinkWalk, WalkedParts

_EXPLAINED_HITS, _EXPLAINED_FEATURES = 10, 3


class Evidence(LinksParameters):
    """Candidates of `links` and other methods, ranked by a logistic regression fitted to judged questions.

    The features are the scores of `links`, its links of two hops by kind, and the reciprocal rank in each of `bases`
    (ragindex_retrievers.links.features). The candidates are the best `candidates` by `links` and the best
    `base_depth` of each base. `weights` is `links` (link features only), `graphs` (with `hipporag(mode=facts)`,
    `hipporag` and `sirerag(ranking=lifted)` as bases), or a file that `ragindex tune` made from judged questions;
    it brings its bases along. The score of a hit is the probability of the model.
    """

    version: ClassVar[int] = 2
    order_depends_on_filter: ClassVar[bool] = True
    weights: str = Field(default="links", description="links, graphs, or a file that `ragindex tune` wrote.")
    bases: tuple[SchemeField, ...] = Field(
        default=(), description="Methods whose ranks are features. Default: those that the weights were fitted with."
    )
    candidates: int = Field(default=60, ge=1, description="Best passages by `links` that are candidates.")
    base_depth: int = Field(default=15, ge=1, description="Best passages of each base that are candidates.")

    @field_validator("weights")
    @classmethod
    def _name_content(cls, written: str) -> str:
        return resolve_weights(written)

    @model_validator(mode="before")
    @classmethod
    def _take_bases(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and not given.get("bases") and isinstance(given.get("weights"), str):
            return {**given, "bases": read_weights(given["weights"]).bases}
        return given

    def own_files(self) -> tuple[str, ...]:
        """Return the file of weights, unless they come with the package."""
        return (self.weights,) if "#" in self.weights else ()

    def fitted_to(self) -> frozenset[str]:
        """Return the ids of the questions that the weights were fitted to."""
        return frozenset(read_weights(self.weights).questions)

    def depends_on_k(self, k: int) -> bool:
        """Return True for k above what is searched, or if a base depends on k."""
        return k > min(self.depth, self.candidates, self.base_depth) or super().depends_on_k(k)

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the parts of `links` and those of the bases."""
        return (*link_parts(), *super()._parts())

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever over the parts of `links` and over the bases."""
        bases = tuple(base.open(index) for base in self.bases)
        return EvidenceRetriever(open_parts(index, self), index.encoder, bases, self, label(self))


@dataclass(frozen=True, slots=True)
class EvidenceRetriever:
    """The open retriever of Evidence."""

    parts: WalkedParts
    encoder: Encoder
    bases: tuple[Retriever, ...]
    settings: Evidence
    source: str

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, in the order of their columns."""
        return list_feature_names(self.settings.bases)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Rank the candidates of each question by the model."""
        model = read_weights(self.settings.weights)
        weights = np.array([model.weights.get(name, 0.0) for name in self.feature_names])
        found = self._find(queries, k)
        return [self._rank(query, *one, weights, model.intercept, k) for query, one in zip(queries, found, strict=True)]

    def _rank(
        self,
        query: Query,
        found: CandidateFeatures,
        steps: tuple[Step, ...],
        weights: Doubles,
        intercept: float,
        k: int,
    ) -> Retrieval:
        chances = 1 / (1 + np.exp(-(found.values @ weights + intercept)))
        best = sorted(range(len(found.ids)), key=lambda row: (-chances[row], found.ids[row]))[:k]
        notes = [
            f"{found.ids[row]}: {_list_terms(found.values[row] * weights, found.names)}"
            for row in best[:_EXPLAINED_HITS]
        ]
        step = Step(1, "evidence", query.text, tuple(found.ids[row] for row in best), note="\n".join(notes))
        scores = {found.ids[row]: float(chances[row]) for row in best}
        return Retrieval(read_ranking(self.parts.passages, scores, self.source), (*steps, step))

    def features(self, queries: Sequence[Query], k: int) -> list[CandidateFeatures]:
        """Return the candidates of each question with their features and documents."""
        return [self._add_documents(found) for found, _ in self._find(queries, k)]

    def _add_documents(self, found: CandidateFeatures) -> CandidateFeatures:
        records = fetch_records(self.parts.passages, found.ids, ("doc_ids",))
        return replace(found, doc_ids=tuple(tuple(one) for one in records.column("doc_ids").to_pylist()))

    def _find(self, queries: Sequence[Query], k: int) -> list[tuple[CandidateFeatures, tuple[Step, ...]]]:
        check_queries(queries, k)
        vectors = self.encoder.encode_queries([query.text for query in queries])
        depth = max(k, self.settings.base_depth)
        ranked = [base.retrieve(queries, max(depth, self.settings.depth)) for base in self.bases]
        found = []
        for number, (query, vector) in enumerate(zip(queries, vectors, strict=True)):
            of_bases = [answers[number] for answers in ranked]
            rankings = [_list_passages(one) for one in of_bases]
            candidates, steps = self._one(query, vector, rankings, k)
            found.append((candidates, (*(step for one in of_bases for step in one.trace), *steps)))
        return found

    def _one(
        self, query: Query, vector: Floats, rankings: Sequence[Sequence[str]], k: int
    ) -> tuple[CandidateFeatures, tuple[Step, ...]]:
        walk, depth = LinkWalk(self.parts, query, vector), max(k, self.settings.base_depth)
        walk.find_candidates(k)
        walk.follow_links()
        links = walk.scores.total
        walk.follow_links()
        missing = {id for ranking in rankings for id in ranking[:depth]} - walk.scores.rows.keys()
        if missing:
            walk.look_up(sorted(missing))
        if not walk.scores.rows:
            return self._describe((), np.zeros((0, len(self.feature_names)))), tuple(walk.steps)
        links = np.concatenate([links, walk.scores.base[len(links) :]])
        values = build_features(walk, links, rankings)
        kept = self._choose(walk, links, rankings, depth, max(k, self.settings.candidates))
        ids = list(walk.scores.rows)
        return self._describe(tuple(ids[row] for row in kept), values[kept]), tuple(walk.steps)

    def _describe(self, ids: tuple[str, ...], values: Doubles) -> CandidateFeatures:
        names = self.feature_names
        return CandidateFeatures(ids, names, tuple(name not in MAY_COUNT_AGAINST for name in names), values)

    def _choose(
        self, walk: LinkWalk, links: Doubles, rankings: Sequence[Sequence[str]], depth: int, count: int
    ) -> list[int]:
        """Return the rows of the candidates."""
        rows = walk.scores.rows
        best = sorted(rows, key=lambda id: (-links[rows[id]], id))[:count]
        return sorted({rows[id] for ranking in (best, *(one[:depth] for one in rankings)) for id in ranking})


def list_feature_names(bases: Sequence[Scheme]) -> tuple[str, ...]:
    """Return the names of the features with these bases."""
    return (*FEATURES, *(f"rank:{registry.label(base)}" for base in bases))


def _list_passages(found: Retrieval) -> list[str]:
    """Return the passages of a ranking, each at the place of the first hit that it belongs to."""
    return list(dict.fromkeys(id for hit in found.hits for id in hit.passage_ids))


def _list_terms(terms: Doubles, names: Sequence[str]) -> str:
    order = np.argsort(-terms, kind="stable")[:_EXPLAINED_FEATURES]
    return ", ".join(f"{names[place]} {terms[place]:+.2f}" for place in order if terms[place] > 0)
