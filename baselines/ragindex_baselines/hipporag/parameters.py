"""The parameters of HippoRAG."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from ragindex.interfaces import Scheme
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField
from ragindex.plugins import registry
from ragindex_baselines.hipporag.parts.phrase_graph import PhraseGraph

GraphField = Annotated[
    PhraseGraph, BeforeValidator(registry.part), PlainSerializer(registry.describe, return_type=dict[str, Any])
]


class HippoRAGParameters(Scheme):
    """Parameters of HippoRAG, in a module of their own for the retriever to import."""

    mode: Literal["entities", "facts"] = Field(
        default="entities",
        description="Start at entities of the question (HippoRAG), or at triples near it (HippoRAG 2).",
    )
    graph: GraphField = Field(default=PhraseGraph(), description="Graph of phrases and passages.")
    over: PassagesField = OVER_PASSAGES
    facts: int = Field(default=5, ge=1, description="With mode=facts: triples nearest the question.")
    passage_weight: float = Field(
        default=0.05, ge=0, description="With mode=facts: weight of passages in the reset distribution."
    )
    damping: float = Field(
        default=0.5, ge=0, lt=1, description="Probability of following an edge instead of resetting."
    )
    walk: Literal["push", "power"] = Field(
        default="push",
        description="How PageRank is computed: by local push, or by power iteration over the whole graph.",
    )
    tolerance: float = Field(default=3e-7, gt=0, lt=1, description="Residual at which the walk stops.")
