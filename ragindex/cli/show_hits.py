"""What a search found: as JSON, and for a person."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from ragindex.cli.console import clean, out
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
    paid = {"input_tokens": step.input_tokens, "output_tokens": step.output_tokens}
    found = {"triples": [_written(triple) for triple in step.triples], "paths": paths, "scores": list(step.scores)}
    return {**what, **found, "ms": step.ms, "note": step.note, **paid}


def step_from_json(value: Mapping[str, Any]) -> Step:
    """The other way. Raises KeyError and TypeError for what is no step."""
    triples = tuple(Triple(*triple) for triple in value["triples"])
    paths = tuple(tuple(Triple(*triple) for triple in path) for path in value["paths"])
    what = (value["iteration"], value["index"], value["query"], tuple(value["ids"]))
    paid = {name: value[name] for name in ("input_tokens", "output_tokens")}
    scores = tuple(float(score) for score in value["scores"])
    return Step(*what, triples=triples, paths=paths, ms=value["ms"], scores=scores, note=value["note"], **paid)


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
        out().print(Text(clean(_told(step)), style="dim"))
        for line in _lines(step):
            out().print(Text(clean(f"    {line}"), style="dim"))


def _told(step: Step) -> str:
    ids = ", ".join(step.ids[:5]) + (f", … ({len(step.ids)})" if len(step.ids) > 5 else "")
    paid = step.input_tokens + step.output_tokens
    tokens = f", {paid:,} tokens" if paid else ""
    asked = f"step {step.iteration}, {step.index}, {step.ms:.1f} ms{tokens}: {_start(step.query, 100)}"
    return asked + (f" → {ids}" if ids else "")


def _lines(step: Step) -> list[str]:
    """The note, then the first triples and paths, with the scores of the latter."""
    scores = [f"{score:.3f}  " for score in step.scores] or [""] * len(step.paths)
    paths = [("", (triple,)) for triple in step.triples] + list(zip(scores, step.paths, strict=False))
    shown = [_start(score + path_text(path), 200) for score, path in paths[:_SHOWN_TRIPLES]]
    return [*([_start(step.note, 200)] if step.note else []), *shown]


def path_text(path: Sequence[Triple]) -> str:
    """A path of triples as a person reads it; where one begins with what the last ended with, that is said once."""
    text, end = "", None
    for triple in path:
        subject = f"; {triple.subject}" if end is not None else triple.subject
        text += f"{'' if triple.subject == end else subject} –{triple.predicate}→ {triple.object}"
        end = triple.object
    return text


def _start(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
