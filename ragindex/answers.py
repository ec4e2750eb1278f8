"""What a search found: as JSON, and for a person."""

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from ragindex.console import clean, out
from ragindex.types import Retrieval, Step, Triple

_SHOWN_TRIPLES = 10


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
    trace = [step_as_json(step) for step in found.trace]
    return {"question": question, "hits": hits, "trace": trace, "notes": list(found.notes)}


def step_as_json(step: Step) -> dict[str, Any]:
    """A step with its triples as lists of three."""
    paths = [[_written(triple) for triple in path] for path in step.paths]
    what = {"iteration": step.iteration, "index": step.index, "query": step.query, "ids": list(step.ids)}
    return {**what, "triples": [_written(triple) for triple in step.triples], "paths": paths, "ms": step.ms}


def step_from_json(value: Mapping[str, Any]) -> Step:
    """The other way. Raises KeyError and TypeError for what is no step."""
    triples = tuple(Triple(*triple) for triple in value["triples"])
    paths = tuple(tuple(Triple(*triple) for triple in path) for path in value["paths"])
    what = (value["iteration"], value["index"], value["query"], tuple(value["ids"]))
    return Step(*what, triples=triples, paths=paths, ms=value["ms"])


def _written(triple: Triple) -> list[str]:
    return [triple.subject, triple.predicate, triple.object]


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
        for path in (*((triple,) for triple in step.triples), *step.paths)[:_SHOWN_TRIPLES]:
            steps = "; ".join(" | ".join(_written(triple)) for triple in path)
            out().print(Text(clean(f"    {_start(steps, 200)}"), style="dim"))


def _start(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
