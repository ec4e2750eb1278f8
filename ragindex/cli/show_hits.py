"""Output of the hits and steps of a retrieval as text."""

from collections.abc import Sequence

from rich.padding import Padding
from rich.text import Text

from ragindex._util.text import many
from ragindex.cli.console import stdout, strip_controls
from ragindex.retrieval.formatting import format_path, format_positions, place_snippet
from ragindex.retrieval.matching import QuestionWord, find_matches, find_question_words, find_window
from ragindex.types import Retrieval, Step

_SHOWN_TRIPLES = 10
_WINDOW = 400
"""Characters of a passage that are shown."""


def print_hits(question: str, retrieval: Retrieval, method: str, language: str, *, full: bool, explain: bool) -> None:
    """Print the method and the part of each hit that matches, with `full` all of it, with `explain` also each step."""
    words = find_question_words(question, language)
    found = f"{many(len(retrieval.hits), 'hit')} by {method}" if retrieval.hits else f"No results with {method}."
    stdout().print(Text(strip_controls(found), "dim" if retrieval.hits else ""))
    for rank, hit in enumerate(retrieval.hits, start=1):
        name = strip_controls(hit.title or hit.id)
        start = 0 if full else find_window(hit.text, words, language, _WINDOW)[0]
        place = strip_controls(format_positions(place_snippet(hit, start), hit.title) or ", ".join(hit.doc_ids))
        stdout().print(Text.assemble((f"{rank}. {name}", "bold"), f"  {hit.score:.4f}  ", (place, "dim")))
        stdout().print(
            mark_words(hit.text if full else cut_to_match(hit.text, words, language, _WINDOW), words, language)
        )
    several = len({step.iteration for step in retrieval.trace}) > 1
    for number, step in enumerate(retrieval.trace if explain else (), start=1):
        tokens = step.input_tokens + step.output_tokens
        cost = f", {many(tokens, 'token')}" if tokens else ""
        iteration = f", iteration {step.iteration}" if several else ""
        summary = f"Step {number}: {step.index}{iteration}, {step.ms:.1f} ms{cost}"
        stdout().print(Text(strip_controls(summary), style="bold dim"))
        for line in _format_details(step):
            stdout().print(Padding.indent(Text(strip_controls(line), style="dim"), 4))
    if explain and retrieval.trace:
        stdout().print(Text("The times include opening the index; ragindex compare measures latency.", style="dim"))


def mark_words(text: str, words: Sequence[QuestionWord], language: str) -> Text:
    """Return the text for a terminal, with the question's words in bold."""
    marked = Text(strip_controls(text))
    for start, end in find_matches(text, words, language):
        marked.stylize("bold", start, end)
    return marked


def cut_to_match(text: str, words: Sequence[QuestionWord], language: str, longest: int) -> str:
    """Return the part of a text with most of the question's words, with "…" where something is left out."""
    start, end = find_window(text, words, language, longest)
    before, after = text[:start].strip(), text[end:].strip()
    return f"{'… ' * bool(before)}{text[start:end]}{' …' * bool(after)}"


def _format_details(step: Step) -> list[str]:
    """Return lines with the query, the first ids, the note and the first triples and scored paths of a step."""
    ids = ", ".join(step.ids[:5]) + (f", … ({len(step.ids)})" if len(step.ids) > 5 else "")
    lines = [f"asked: {_truncate(step.query, 100)}", *([f"found: {ids}"] if ids else [])]
    scores = [f"{score:.3f}  " for score in step.scores] or [""] * len(step.paths)
    paths = [("", (triple,)) for triple in step.triples] + list(zip(scores, step.paths, strict=False))
    shown = [_truncate(score + format_path(path), 200) for score, path in paths[:_SHOWN_TRIPLES]]
    return [*lines, *([_truncate(step.note, 200)] if step.note else []), *shown]


def _truncate(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
