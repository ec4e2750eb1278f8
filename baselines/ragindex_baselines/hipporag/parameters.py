"""The parameters of HippoRAG."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from ragindex.plugins import registry
from ragindex.plugins.base import Plugin
from ragindex_baselines.hipporag.parts.phrase_graph import PhraseGraph

GraphField = Annotated[
    PhraseGraph, BeforeValidator(registry.part), PlainSerializer(registry.describe, return_type=dict[str, Any])
]


class Parameters(Plugin):
    """See HippoRAG."""

    mode: Literal["entities", "facts"] = "entities"
    graph: GraphField = PhraseGraph()
    facts: int = Field(default=5, ge=1)
    passage_weight: float = Field(default=0.05, ge=0)
    damping: float = Field(default=0.5, ge=0, lt=1)
    walk: Literal["push", "power"] = "push"
    tolerance: float = Field(default=3e-7, gt=0, lt=1)
