"""What a search found: as JSON, and for a person."""

from typing import Any

from rich.text import Text

from ragindex.console import clean, out
from ragindex.types import Retrieval


def as_json(question: str, found: Retrieval) -> dict[str, Any]:
    """`{"question", "hits", "trace", "notes"}`."""
    hits = [
        {
            "id": hit.id,
            "kind": hit.kind,
            "score": hit.score,
            "title": hit.title,
            "text": hit.text,
            "doc_ids": list(hit.doc_ids),
            "passage_ids": list(hit.passage_ids),
            "metadata": {id: dict(value) for id, value in hit.metadata.items()},
            "source": hit.source,
        }
        for hit in found.hits
    ]
    steps = [
        {"iteration": s.iteration, "index": s.index, "query": s.query, "ids": list(s.ids), "ms": s.ms}
        for s in found.trace
    ]
    return {"question": question, "hits": hits, "trace": steps, "notes": list(found.notes)}


def show(found: Retrieval, explain: bool) -> None:
    """Print the hits and, to explain, each step."""
    if not found.hits:
        out().print("Nothing was found.")
    for rank, hit in enumerate(found.hits, start=1):
        name, documents = clean(hit.title or hit.id), clean(", ".join(hit.doc_ids))
        out().print(Text.assemble((f"{rank}. {name}", "bold"), f"  {hit.score:.4f}  ", (documents, "dim")))
        out().print(Text(clean(_start(hit.text, 400))))
    for step in found.trace if explain else ():
        ids = ", ".join(step.ids[:5]) + (f", … ({len(step.ids)})" if len(step.ids) > 5 else "")
        said = f"step {step.iteration}, {step.index}, {step.ms:.1f} ms: {_start(step.query, 100)} → {ids}"
        out().print(Text(clean(said), style="dim"))


def _start(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
