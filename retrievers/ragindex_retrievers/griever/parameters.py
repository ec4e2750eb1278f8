"""The parameters of GRIEVER."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from ragindex.interfaces import Scheme
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.base_field import FlatField
from ragindex.plugins import registry
from ragindex.plugins.registry import PartField, of_class
from ragindex_retrievers.griever.matching import Pooling
from ragindex_retrievers.griever.rewriting import RewriteOrder

TriplesField: TypeAlias = Annotated[PartField, of_class(Triples)]


class GrieverParameters(Scheme):
    """Parameters of `ragindex_retrievers.griever.scheme.Griever`, which describes them."""

    triples: TriplesField = Field(default=Triples(), description="Triples that paths are made of.")
    base: FlatField = Field(
        default_factory=lambda: registry.scheme("composed"), description="Flat scheme that finds the first passages."
    )
    over: PassagesField = OVER_PASSAGES
    base_k: int | None = Field(default=None, ge=1, description="Passages asked for in each iteration. null: k.")
    follow: FlatField = Field(
        default_factory=lambda: registry.scheme("hybrid"),
        description="Flat scheme that finds the passages of later iterations.",
    )
    same_as: Literal["evidence", "embedding", "llm", "none"] = Field(
        default="evidence",
        description="How aliases were found: by evidence, by embedding, by an LLM that judges both, or not at "
        "all (V2).",
    )
    split: bool = Field(default=True, description="Split a question into sub-queries (V3).")
    connectors: tuple[str, ...] | None = Field(
        default=None, description="Words that a question is split at. null: those of the corpus's language."
    )
    clauses: int = Field(default=8, ge=1, description="Sub-queries per question at most.")
    fire_full: bool = Field(default=True, description="Search with the whole question besides its sub-queries (V3).")
    combine: Literal["union", "rrf", "subgraph"] = Field(
        default="union",
        description="How the results of sub-queries are combined: each passage with its best score, reciprocal rank "
        "fusion, or one sub-graph that all extend (V3).",
    )
    iterations: int = Field(default=2, ge=1, description="Iterations of search (Algorithm 1).")
    exclude: Literal["all", "last"] = Field(
        default="all",
        description="Passages that a later iteration excludes: all found before, or those of the last iteration (V4).",
    )
    join: Literal["shortlist", "all"] = Field(
        default="shortlist",
        description="Entities that a later iteration must share: those of the shortlist, or of all its triples (V4).",
    )
    join_best: int | None = Field(
        default=None, ge=1, description="Join on entities of this many best triples only. null: of all (V4)."
    )
    shortlist: Literal["partial", "full", "none"] = Field(
        default="partial", description="Search triples by partial triples, by full triples, or not at all (V6)."
    )
    partial_scope: Literal["corpus", "passage"] = Field(
        default="corpus", description="Partial triples over the corpus, or per passage (V1)."
    )
    t_max: int = Field(
        default=30,
        ge=1,
        description="Partial triples (with shortlist=full: triples) that choose a shortlist, at most (t_max, V6).",
    )
    ngrams: Literal["tokens", "texts"] = Field(
        default="tokens", description="N-grams of a question: pooled token vectors, or encoded texts."
    )
    pool: Pooling = Field(default="mean", description="How token vectors of an n-gram are pooled.")
    max_ngram: int = Field(default=6, ge=1, description="Longest n-gram, in tokens or words.")
    triple_score: Literal["subquery", "question"] = Field(
        default="subquery",
        description="What triples are scored against: the sub-query that found them, or the question (V3).",
    )
    predicate_score: Literal["matcher", "query"] = Field(
        default="matcher", description="Predicates are scored by the matcher, or by the whole query (V8)."
    )
    frequency: Literal["passages", "triples", "objects"] = Field(
        default="passages", description="What discounts common partial triples: passages, triples or objects (V8)."
    )
    extend_any: bool = Field(default=False, description="Extend a path at any of its triples, not only the last (V9).")
    keep_prefixes: bool = Field(default=True, description="Keep a path beside its extensions (V9).")
    retrieval_weight: float = Field(
        default=1.0, ge=0, description="Weight of the retrieval score in a passage's score. 0: paths alone (V10)."
    )
    retrieval_score: Literal["question", "query"] = Field(
        default="question",
        description="Retrieval score of a passage: its cosine with the question, or with the query that found it where "
        "that is greater (V10).",
    )
    rewrite: bool = Field(
        default=True, description="Replace parts of the question by the entities that were found (V11)."
    )
    rewrite_order: RewriteOrder = Field(
        default="triple",
        description="What is replaced first: the mention of the best triple, or the best matched entity (V11).",
    )
    rewrites: int = Field(default=1, ge=1, description="Mentions replaced in a question per iteration at most (V11).")
    entity_threshold: float = Field(default=0.7, description="Score from which an entity is put into the question.")
    predicate_threshold: float = Field(
        default=0.5, description="Score from which a predicate counts as matched in rewriting."
    )
    rrf_k: float = Field(default=60, ge=0, description="Constant of reciprocal rank fusion.")

    @model_validator(mode="after")
    def _check_question(self) -> Self:
        if self.triple_score == "question" and not self.fire_full:
            raise ValueError("triple_score=question scores against the whole question, so it needs fire_full=true")
        return self
