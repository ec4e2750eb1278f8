"""The interfaces of ragindex: base classes of plugins, and protocols of the objects that plugins open and use.

A plugin is a frozen pydantic model: its fields are its parameters, serialized as JSON. Its `open` method returns the
working object. See docs/tutorials/writing-a-retriever.md for a complete plugin.
"""

from ragindex.interfaces.encoders import (
    Encoder,
    EncoderPlugin,
    EncodingFailure,
    FittedEncoderPlugin,
    Floats,
    QueryEncoder,
    TokenEmbeddings,
    TokenEncoder,
)
from ragindex.interfaces.llm import LLM, LLMPlugin, LLMSettings, PaidPlugin
from ragindex.interfaces.methods import (
    CandidateFeatures,
    ChunkedIndex,
    FeatureRetriever,
    OpenIndex,
    PositionLookup,
    Retriever,
    Scheme,
    SearchingRetriever,
)
from ragindex.interfaces.parts import (
    BuildContext,
    Change,
    ChunkedPlugin,
    Part,
    PartContext,
    ReadContext,
    SearchKind,
    Uses,
)
from ragindex.interfaces.stores import (
    Collection,
    FilterQuery,
    InMemoryVectors,
    RecordBatch,
    Schema,
    SearchRequest,
    SearchResult,
    Store,
    StorePlugin,
    TextQuery,
    VectorQuery,
)

__all__ = [
    "LLM",
    "BuildContext",
    "CandidateFeatures",
    "Change",
    "ChunkedIndex",
    "ChunkedPlugin",
    "Collection",
    "Encoder",
    "EncoderPlugin",
    "EncodingFailure",
    "FeatureRetriever",
    "FilterQuery",
    "FittedEncoderPlugin",
    "Floats",
    "InMemoryVectors",
    "LLMPlugin",
    "LLMSettings",
    "OpenIndex",
    "PaidPlugin",
    "Part",
    "PartContext",
    "PositionLookup",
    "QueryEncoder",
    "ReadContext",
    "RecordBatch",
    "Retriever",
    "Schema",
    "Scheme",
    "SearchKind",
    "SearchRequest",
    "SearchResult",
    "SearchingRetriever",
    "Store",
    "StorePlugin",
    "TextQuery",
    "TokenEmbeddings",
    "TokenEncoder",
    "Uses",
    "VectorQuery",
]
