"""The parameters of GRIEVER."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.base_field import FlatField
from ragindex.plugins import registry
from ragindex.plugins.base import Plugin
from ragindex.plugins.registry import PartField, of_class
from ragindex_retrievers.griever.matching import Pool
from ragindex_retrievers.griever.paths import PassageScore

TriplesField: TypeAlias = Annotated[PartField, of_class(Triples)]


class Parameters(Plugin):
    """See Griever."""

    triples: TriplesField = Triples()
    base: FlatField = Field(default_factory=lambda: registry.scheme("composed"))
    base_k: int | None = Field(default=None, ge=1)
    follow: FlatField = Field(default_factory=lambda: registry.scheme("hybrid"))
    same_as: Literal["evidence", "embedding", "llm", "none"] = "evidence"
    split: bool = True
    connectors: tuple[str, ...] | None = None
    clauses: int = Field(default=8, ge=1)
    fire_full: bool = True
    combine: Literal["union", "rrf"] = "union"
    iterations: int = Field(default=2, ge=1)
    exclude: Literal["all", "last"] = "all"
    join: Literal["shortlist", "all"] = "shortlist"
    numbers: bool = True
    shortlist: Literal["partial", "full", "none"] = "partial"
    partial_scope: Literal["corpus", "passage"] = "corpus"
    t_max: int = Field(default=30, ge=1)
    ngrams: Literal["tokens", "texts"] = "tokens"
    pool: Pool = "mean"
    max_ngram: int = Field(default=6, ge=1)
    predicate_score: Literal["matcher", "query"] = "matcher"
    frequency: Literal["triples", "objects", "passages"] = "triples"
    extend_any: bool = False
    extend_within: bool = False
    keep_prefixes: bool = True
    path_score: Literal["mean", "cosine"] = "mean"
    passage_score: PassageScore = "product"
    retrieval_weight: float = Field(default=0.0, ge=0)
    rewrite: bool = True
    rewrites: int = Field(default=1, ge=1)
    entity_threshold: float = 0.7
    predicate_threshold: float = 0.5
    rrf_k: float = Field(default=60, ge=0)
