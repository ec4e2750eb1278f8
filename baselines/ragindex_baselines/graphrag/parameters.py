"""The parameters of GraphRAG."""

from typing import Annotated

from pydantic import Field

from ragindex.interfaces import Scheme
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField
from ragindex.plugins.registry import PartField, of_class
from ragindex_baselines.graphrag.parts.communities import Communities


class GraphRAGParameters(Scheme):
    """Parameters of GraphRAG, in a module of their own for the retriever to import."""

    communities: Annotated[PartField, of_class(Communities)] = Field(
        default=Communities(), description="Communities of entities, with reports."
    )
    over: PassagesField = OVER_PASSAGES
    entities: int = Field(default=10, ge=1, description="Entities nearest the question.")
    relations: int = Field(default=10, ge=0, le=50, description="Relations per entity.")
    note_tokens: int = Field(default=300, ge=0, description="Tokens of reports in the notes (estimated).")
    relation_tokens: int = Field(
        default=700, ge=0, description="Tokens of relations in the notes (estimated). 0: none."
    )
