"""The scheme `evidence`: candidates of several methods, ranked by weighted features."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, ValidationError, field_validator, model_validator

from ragindex._util.canonical import digest
from ragindex.errors import UsageError
from ragindex.interfaces import CandidateFeatures, Encoder, Floats, OpenIndex, Part, Retriever
from ragindex.parts.records import Doubles, Integers
from ragindex.plugins import registry
from ragindex.plugins.registry import SchemeField, label
from ragindex.plugins.strict_models import Strict
from ragindex.retrieval.fusion import raise_scores
from ragindex.retrieval.hits import check_queries, fetch_hits, fetch_records
from ragindex.retrieval.stages import record_ranking
from ragindex.types import Query, Retrieval, Step
from ragindex_retrievers.hop import Hop, HopRetriever
from ragindex_retrievers.links.lookups import LinksParameters
from ragindex_retrievers.links.method import FollowedLinks, LinkParts, LinkWalk, link_parts, open_parts

_EXPLAINED_HITS, _EXPLAINED_FEATURES = 10, 3


class Evidence(LinksParameters):
    """Candidates of `links` and other methods, ranked by a logistic regression fitted to judged questions.

    The features are the scores of `links`, its links of two hops by kind, and the reciprocal rank in each of `bases`,
    with what the second questions add where a base is `hop` (ragindex_retrievers.links.evidence). The candidates are
    the best `candidates` by `links` and the best `base_depth` of each base. `weights` is `links` (link features only),
    `hop` (with `hop` as base), `graphs` (with `hipporag(mode=facts)`, `hipporag` and `sirerag(ranking=lifted)` as
    bases), or a file that `ragindex tune` made from judged questions; it brings its bases along. The score of a hit is
    the probability of the model.
    """

    version: ClassVar[int] = 2
    order_depends_on_filter: ClassVar[bool] = True
    weights: str = Field(default="links", description="links, hop, graphs, or a file that `ragindex tune` wrote.")
    bases: tuple[SchemeField, ...] = Field(
        default=(), description="Methods whose ranks are features. Default: those that the weights were fitted with."
    )
    candidates: int = Field(default=60, ge=1, description="Best passages by `links` that are candidates.")
    base_depth: int = Field(default=15, ge=1, description="Best passages of each base that are candidates.")
    kept: int = Field(
        default=0,
        ge=0,
        description="Best passages by cosine, BM25 and title that stay before all others, as in `links`.",
    )

    @field_validator("weights")
    @classmethod
    def _name_content(cls, weights: str) -> str:
        return resolve_weights(weights)

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

    parts: LinkParts
    encoder: Encoder
    bases: tuple[Retriever, ...]
    settings: Evidence
    source: str

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, in the order of their columns."""
        bases = self.settings.bases
        ranks = (f"rank:{registry.label(base)}" for base in bases)
        return (*FEATURES, *ranks, *(f"second_question:{label(base)}" for base in bases if isinstance(base, Hop)))

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Rank the candidates of each question by the model."""
        model = read_weights(self.settings.weights)
        weights = np.array([model.weights.get(name, 0.0) for name in self.feature_names])
        candidates = self._find(queries, k)
        return [
            self._rank(query, candidate, weights, model.intercept, k)
            for query, candidate in zip(queries, candidates, strict=True)
        ]

    def _rank(
        self,
        query: Query,
        candidates: "_Candidates",
        weights: Doubles,
        intercept: float,
        k: int,
    ) -> Retrieval:
        features, first = candidates.features, candidates.first
        chances = 1 / (1 + np.exp(-(features.values @ weights + intercept)))
        by_chance = sorted(range(len(features.ids)), key=lambda row: (-chances[row], features.ids[row]))
        ranked = sorted(by_chance, key=lambda row: first.get(features.ids[row], len(first)))
        record_ranking("evidence", (features.ids[row] for row in ranked), k)
        best = ranked[:k]
        notes = [
            f"{features.ids[row]}: {_list_terms(features.values[row] * weights, features.names)}"
            for row in best[:_EXPLAINED_HITS]
        ]
        step = Step(1, "evidence", query.text, tuple(features.ids[row] for row in best), note="\n".join(notes))
        raised = raise_scores([float(chances[row]) for row in best])
        scores = {features.ids[row]: score for row, score in zip(best, raised, strict=True)}
        return Retrieval(fetch_hits(self.parts.passages, scores, self.source), (*candidates.steps, step))

    def features(self, queries: Sequence[Query], k: int) -> list[CandidateFeatures]:
        """Return the candidates of each question with their features and documents."""
        answers = []
        for candidates in self._find(queries, k):
            features = candidates.features
            records = fetch_records(self.parts.passages, features.ids, ("doc_ids",))
            doc_ids = tuple(map(tuple, records.column("doc_ids").to_pylist()))
            answers.append(replace(features, doc_ids=doc_ids))
        return answers

    def _find(self, queries: Sequence[Query], k: int) -> list["_Candidates"]:
        check_queries(queries, k)
        vectors = self.encoder.encode_queries([query.text for query in queries])
        depth = max(k, self.settings.base_depth)
        ranked = [self._ask(base, queries, max(depth, self.settings.depth)) for base in self.bases]
        candidates = []
        for query, vector, *of_bases in zip(queries, vectors, *ranked, strict=True):
            # each passage has the place of the first hit that it belongs to
            rankings = [list(dict.fromkeys(id for hit in base.hits for id in hit.passage_ids)) for base, _ in of_bases]
            gains = [gain for _, gain in of_bases if gain is not None]
            described = self._describe_query(query, vector, rankings, gains, k)
            steps = (*(step for base, _ in of_bases for step in base.trace), *described.steps)
            candidates.append(replace(described, steps=steps))
        return candidates

    def _ask(
        self, base: Retriever, queries: Sequence[Query], k: int
    ) -> list[tuple[Retrieval, Mapping[str, float] | None]]:
        """Return the results of a base, and what second questions add to each passage, if it asks any."""
        if isinstance(base, HopRetriever):
            return [*base.retrieve_with_gains(queries, k)]
        return [(answer, None) for answer in base.retrieve(queries, k)]

    def _describe_query(
        self,
        query: Query,
        vector: Floats,
        rankings: Sequence[Sequence[str]],
        gains: Sequence[Mapping[str, float]],
        k: int,
    ) -> "_Candidates":
        walk, depth = LinkWalk(self.parts, query, vector), max(k, self.settings.base_depth)
        walk.find_candidates(k)
        walk.follow_links()
        links = walk.scores.total
        walk.follow_links()
        missing = {id for ranking in rankings for id in ranking[:depth]} - walk.scores.rows.keys()
        if missing:
            walk.look_up(sorted(missing))
        if not walk.scores.rows:
            return _Candidates(self._describe((), np.zeros((0, len(self.feature_names)))), tuple(walk.steps), {})
        links = np.concatenate([links, walk.scores.base[len(links) :]])
        values = build_features(walk, links, rankings, gains)
        ids, rows = list(walk.scores.rows), walk.scores.rows
        scored, most = sorted(rows, key=lambda id: (-links[rows[id]], id)), max(k, self.settings.candidates)
        record_ranking("candidates", scored, most)
        best = scored[:most]
        first = walk.scores.find_first(self.settings.kept)
        all_rankings = (first, best, *(ranking[:depth] for ranking in rankings))
        chosen = sorted({rows[id] for ranking in all_rankings for id in ranking})
        features = self._describe(tuple(ids[row] for row in chosen), values[chosen])
        return _Candidates(features, tuple(walk.steps), {id: place for place, id in enumerate(first)})

    def _describe(self, ids: tuple[str, ...], values: Doubles) -> CandidateFeatures:
        names = self.feature_names
        return CandidateFeatures(ids, names, tuple(name not in MAY_COUNT_AGAINST for name in names), values)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The candidates of a question, the steps that found them, and the places of those that stay first."""

    features: CandidateFeatures
    steps: tuple[Step, ...]
    first: Mapping[str, int]


def _list_terms(terms: Doubles, names: Sequence[str]) -> str:
    order = np.argsort(-terms, kind="stable")[:_EXPLAINED_FEATURES]
    return ", ".join(f"{names[place]} {terms[place]:+.2f}" for place in order if terms[place] > 0)


# ---------------------------------------------------------------- the features of candidates


FEATURES = (
    "cosine",
    "bm25",
    "named",
    "links",
    "mentioned",
    "mentions",
    "mentioned_new",
    "mentions_new",
    "seeds",
    "second_hop",
    "support",
    "cosine_rank",
    "bm25_rank",
    "links_rank",
)
"""Cosine and BM25 score, min-max normalized over the candidates; whether the question names the passage; its score by
`links`; the best link from a seed, and to one, as the seed's score times the link's weight; the same times what is new
beyond the seed; the share of the seeds that are linked; the best link of the second hop; for a seed, the best link to
a passage, as that passage's base score times the weight; and reciprocal ranks, 1 / (5 + rank)."""
MAY_COUNT_AGAINST = frozenset(
    ("mentioned", "mentions", "mentioned_new", "mentions_new", "seeds", "second_hop", "support")
)
"""Features that may have negative weights: much that is linked without adding anything is a hub. Scores and ranks may
not."""
_RANK_CONSTANT = 5


def build_features(
    walk: LinkWalk, links: Doubles, rankings: Sequence[Sequence[str]], gains: Sequence[Mapping[str, float]] = ()
) -> Doubles:
    """Return the features of all passages that a walk of two hops reached, (passages, FEATURES, rankings and gains).

    `links` are the scores after the first hop, base scores for passages reached later; `rankings` are those of other
    methods, best first, each of which gives the reciprocal rank of each passage. `gains` are what second questions add
    to each passage.
    """
    scores, count = walk.scores, len(walk.scores.rows)
    first, second = walk.hops
    backward = np.array([link.backward for link in first.links], np.bool_)
    forth, back = _strengths(first) * ~backward, _strengths(first) * backward
    pairs = np.unique(np.stack([first.passages, first.seeds]), axis=1)
    seeds_linked = np.bincount(pairs[0], minlength=count).astype(np.float64)  # in either direction
    columns = [
        scores.dense,
        scores.text,
        scores.named.astype(np.float64),
        links,
        _keep_largest(count, first.passages, forth),
        _keep_largest(count, first.passages, back),
        _keep_largest(count, first.passages, forth * first.new),
        _keep_largest(count, first.passages, back * first.new),
        seeds_linked / max(1, walk.settings.seeds),
        _keep_largest(count, second.passages, _strengths(second)),
        _keep_largest(count, first.seeds, scores.base[first.passages] * _weights(first)),
        *(_rank(values, list(scores.rows)) for values in (scores.dense, scores.text, links)),
        *(_reciprocal_ranks(ranking, scores.rows) for ranking in rankings),
        *(np.array([gain.get(id, 0.0) for id in scores.rows]) for gain in gains),
    ]
    return np.stack(columns, axis=1)


def _weights(hop: FollowedLinks) -> Doubles:
    return np.array([link.weight for link in hop.links], np.float64)


def _strengths(hop: FollowedLinks) -> Doubles:
    return hop.seed_scores * _weights(hop)


def _keep_largest(count: int, places: Integers, values: Doubles) -> Doubles:
    """Return the largest of the values at each place, 0 where there is none."""
    largest = np.zeros(count)
    np.maximum.at(largest, places, values)
    return largest


def _rank(values: Doubles, ids: Sequence[str]) -> Doubles:
    """Return reciprocal ranks by value, equal values by id; 0 where the value is 0."""
    order = sorted(range(len(ids)), key=lambda row: (-values[row], ids[row]))
    ranks = np.empty(len(ids))
    ranks[order] = np.arange(1, len(ids) + 1)
    return np.where(values > 0, 1 / (_RANK_CONSTANT + ranks), 0.0)


def _reciprocal_ranks(ranking: Sequence[str], rows: Mapping[str, int]) -> Doubles:
    values = np.zeros(len(rows))
    for rank, id in enumerate(ranking, start=1):
        if id in rows:
            values[rows[id]] = 1 / (_RANK_CONSTANT + rank)
    return values


# ---------------------------------------------------------------- weights, stored as JSON


_SHIPPED = Path(__file__).parent / "weights"
_HASH_LENGTH = 12
_MOST_BYTES = 1_000_000


class FeatureWeights(Strict):
    """A calibrated logistic regression: the probability that a passage belongs to the answer is
    1 / (1 + exp(-(intercept + sum of weight × feature))).

    `bases` are the specifications of the methods whose ranks are features, `rank:LABEL` each, and
    `second_question:LABEL` of each `hop` among them; `made_from` says on what questions the weights were fitted, and
    `questions` has their ids (ragindex.corpus.judgements.question_id).
    """

    made_from: str
    questions: tuple[str, ...] = ()
    bases: tuple[Any, ...] = ()
    intercept: float = Field(allow_inf_nan=False)
    weights: Mapping[str, Annotated[float, Field(allow_inf_nan=False)]]


def resolve_weights(weights: str) -> str:
    """Return the path of weights with a hash of their content appended, so that it names this content alone.

    Names of sets that come with the package stay as they are. Raises UsageError if the file cannot be read, or if
    `weights` has a hash and the content has changed.
    """
    name, _, known = weights.partition("#")
    if name in list_shipped():
        return name
    actual = digest(read_weights(name).model_dump(mode="json", exclude={"questions"}))[:_HASH_LENGTH]
    if known and known != actual:
        raise UsageError(
            f"The weights in {name} have changed: expected {known}, found {actual}. "
            f"To use them as they are now, write weights={name}."
        )
    return f"{name}#{actual}"


def read_weights(weights: str) -> FeatureWeights:
    """Read weights by the name of a set that comes with the package, or by a path. Raises UsageError."""
    name = weights.partition("#")[0]
    path = _SHIPPED / f"{name}.json" if name in list_shipped() else Path(name)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{name} has more than {_MOST_BYTES:,} bytes; weights are a small JSON file.")
        return FeatureWeights.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(
            f"There are no weights {name!r}: expected a JSON file as `ragindex tune` writes it, "
            f"or one of {', '.join(list_shipped())}."
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        wrong = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise UsageError(f"{name} has no weights as `ragindex tune` writes them. {wrong}") from error
    except ValueError as error:
        raise UsageError(f"{name} has no weights as `ragindex tune` writes them. It is not JSON: {error}") from error


def list_shipped() -> Sequence[str]:
    """Return the names of the sets that come with the package."""
    return sorted(path.stem for path in _SHIPPED.glob("*.json"))
