"""Hits and retrievals as JSON values."""

from collections.abc import Mapping
from typing import Any

from ragindex.retrieval.positions import position_to_json
from ragindex.retrieval.steps import step_to_json
from ragindex.types import HYPERLINKS, Hit, Retrieval


def hit_to_json(hit: Hit) -> dict[str, Any]:
    """Return the fields of a hit as JSON values, without the hyperlinks of its documents, which may be many."""
    metadata: Mapping[str, Mapping[str, Any]] = hit.metadata
    return {
        "id": hit.id,
        "kind": hit.kind,
        "score": hit.score,
        "title": hit.title,
        "text": hit.text,
        "doc_ids": list(hit.doc_ids),
        "passage_ids": list(hit.passage_ids),
        "positions": [position_to_json(position) for position in hit.positions],
        "metadata": {
            id: {key: one for key, one in value.items() if key != HYPERLINKS} for id, value in metadata.items()
        },
        "source": hit.source,
    }


def retrieval_to_json(question: str, retrieval: Retrieval) -> dict[str, Any]:
    """Return a retrieval as JSON: `{"question", "hits", "trace", "notes"}`."""
    trace = [step_to_json(step) for step in retrieval.trace]
    hits = [hit_to_json(hit) for hit in retrieval.hits]
    return {"question": question, "hits": hits, "trace": trace, "notes": list(retrieval.notes)}
