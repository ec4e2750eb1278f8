"""Output of the hits and steps of a retrieval, as text or JSON."""

from typing import Any

from rich.text import Text

from ragindex.cli.console import stdout, strip_controls
from ragindex.retrieval.positions import format_positions, position_to_json
from ragindex.retrieval.steps import format_path, step_to_json
from ragindex.types import Retrieval, Step

_SHOWN_TRIPLES = 10


def retrieval_to_json(question: str, retrieval: Retrieval) -> dict[str, Any]:
    """Return a retrieval as JSON: `{"question", "hits", "trace", "notes"}`."""
    hits = [
        {
            "id": hit.id,
            "kind": hit.kind,
            "score": hit.score,
            "title": hit.title,
            "text": hit.text,
            "doc_ids": list(hit.doc_ids),
            "passage_ids": list(hit.passage_ids),
            "positions": [position_to_json(position) for position in hit.positions],
            "metadata": {id: dict(value) for id, value in hit.metadata.items()},
            "source": hit.source,
        }
        for hit in retrieval.hits
    ]
    trace = [step_to_json(step) for step in retrieval.trace]
    return {"question": question, "hits": hits, "trace": trace, "notes": list(retrieval.notes)}


def print_hits(retrieval: Retrieval, explain: bool) -> None:
    """Print the hits; with `explain`, also print each step of the retrieval."""
    if not retrieval.hits:
        stdout().print("No results.")
    for rank, hit in enumerate(retrieval.hits, start=1):
        name = strip_controls(hit.title or hit.id)
        place = strip_controls(format_positions(hit.positions, hit.title) or ", ".join(hit.doc_ids))
        stdout().print(Text.assemble((f"{rank}. {name}", "bold"), f"  {hit.score:.4f}  ", (place, "dim")))
        stdout().print(Text(strip_controls(_truncate(hit.text, 400))))
    for step in retrieval.trace if explain else ():
        stdout().print(Text(strip_controls(_summarize_step(step)), style="dim"))
        for line in _format_details(step):
            stdout().print(Text(strip_controls(f"    {line}"), style="dim"))


def _summarize_step(step: Step) -> str:
    ids = ", ".join(step.ids[:5]) + (f", … ({len(step.ids)})" if len(step.ids) > 5 else "")
    tokens = step.input_tokens + step.output_tokens
    cost = f", {tokens:,} tokens" if tokens else ""
    summary = f"step {step.iteration}, {step.index}, {step.ms:.1f} ms{cost}: {_truncate(step.query, 100)}"
    return summary + (f" → {ids}" if ids else "")


def _format_details(step: Step) -> list[str]:
    """Return lines with the note and the first triples and scored paths of a step."""
    scores = [f"{score:.3f}  " for score in step.scores] or [""] * len(step.paths)
    paths = [("", (triple,)) for triple in step.triples] + list(zip(scores, step.paths, strict=False))
    shown = [_truncate(score + format_path(path), 200) for score, path in paths[:_SHOWN_TRIPLES]]
    return [*([_truncate(step.note, 200)] if step.note else []), *shown]


def _truncate(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
