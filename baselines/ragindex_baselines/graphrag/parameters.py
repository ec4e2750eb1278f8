"""The parameters of GraphRAG."""

from typing import Annotated

from pydantic import Field

from ragindex.plugins.base import Plugin
from ragindex.plugins.registry import PartField, of_class
from ragindex_baselines.graphrag.parts.communities import Communities


class Parameters(Plugin):
    """See GraphRAG."""

    communities: Annotated[PartField, of_class(Communities)] = Communities()
    entities: int = Field(default=10, ge=1)
    relations: int = Field(default=10, ge=0, le=50)
    note_tokens: int = Field(default=300, ge=0)
    relation_tokens: int = Field(default=700, ge=0)
