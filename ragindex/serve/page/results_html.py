"""What one method found, as a piece of HTML: its hits with the words that matched, times, tokens, steps and graph.

Texts of documents and models are untrusted. The templates escape everything, all of it is bounded, and a document's
link is shown only if it is http or https.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ragindex.llm.tokens import count_text_tokens
from ragindex.retrieval.formatting import format_path, format_positions, place_snippet
from ragindex.retrieval.matching import QuestionWord, find_matches, find_question_words, find_window
from ragindex.serve.page.trace_graph import NODE_WIDTH, draw_graph, list_trace_facts, make_trace_graph
from ragindex.serve.searching import ServedSearch, find_link
from ragindex.types import Hit, Step

_SNIPPET, _TEXT, _TITLE = 320, 20_000, 300  # characters
_STEPS, _IDS, _FACTS, _NOTE, _LOOKED_UP = 30, 8, 8, 600, 200

Pieces = Sequence[tuple[str, bool]]
"""The pieces of a text, and whether each matches a word of the question."""


@dataclass(frozen=True, slots=True)
class HitView:
    """A hit as shown. `document` is the id that a judgement of it is of, "" if it has several or none.

    `more` is the whole text, if `pieces` are only its best part.
    """

    rank: int
    title: str
    url: str
    document: str
    place: str
    score: str
    pieces: Pieces
    more: Pieces


@dataclass(frozen=True, slots=True)
class StepView:
    """A step as shown, a row of a table."""

    iteration: int
    index: str
    hits: str
    facts: str
    note: str
    ms: str
    tokens: int


@dataclass(frozen=True, slots=True)
class TimedSearch:
    """A search and its duration."""

    search: ServedSearch
    ms: float


def render_template(name: str, **values: Any) -> str:
    """Render a template of the page; everything that it is given is escaped."""
    return _load_templates().get_template(name).render(**values)


@cache
def _load_templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_results(timed: TimedSearch) -> str:
    """Return the HTML of what a method found."""
    served, spent = timed.search, timed.search.paid
    language, trace = served.state.language, served.retrieval.trace
    words = find_question_words(served.order.query, language)
    graph = make_trace_graph(trace, served.hits, _find_titles(served))
    counted = [count_text_tokens(f"{hit.title}\n{hit.text}", served.state.tokenizer) for hit in served.hits]
    return render_template(
        "results.html",
        method=served.method,
        ms=f"{timed.ms:.3g}" if timed.ms < 100 else f"{timed.ms:.0f}",
        hit_tokens=sum(tokens.tokens for tokens in counted),
        estimated=any(tokens.estimated for tokens in counted),
        model_tokens=spent.input_tokens + spent.output_tokens,
        money="" if not spent.money else f"${spent.money:.4f}",
        hits=[_view_hit(rank, hit, words, language) for rank, hit in enumerate(served.hits, start=1)],
        notes=[note[:_NOTE] for note in served.retrieval.notes[:_FACTS]],
        steps=[_view_step(step) for step in trace[:_STEPS]],
        more_steps=len(trace[_STEPS:]),
        drawing=None if graph is None else draw_graph(graph),
        caption=_caption(trace),
        node_width=NODE_WIDTH,
    )


def _caption(trace: Sequence[Step]) -> str:
    """Return what the lines of the drawing are."""
    facts = list_trace_facts(trace)
    if not facts:
        return "the lists that it fused, with the ranks that the hits have there"
    if any(step.triples for step in trace):
        return "facts that it went by; a line without words leads to a hit that has the name"
    return "what led from one to the next"


def mark_matches(text: str, words: Sequence[QuestionWord], language: str) -> Pieces:
    """Return the pieces of a text, those that match a word of the question marked."""
    pieces: list[tuple[str, bool]] = []
    end = 0
    for start, stop in _merge_spans(find_matches(text, words, language)):
        pieces += [(text[end:start], False)] if end < start else []
        pieces.append((text[start:stop], True))
        end = stop
    return [*pieces, (text[end:], False)] if end < len(text) else pieces


def _merge_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans that do not overlap, in order."""
    merged = list[tuple[int, int]]()
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _view_hit(rank: int, hit: Hit, words: Sequence[QuestionWord], language: str) -> HitView:
    text = hit.text[:_TEXT]
    start, end = find_window(text, words, language, _SNIPPET) if len(text) > _SNIPPET else (0, len(text))
    pieces = mark_matches(text[start:end], words, language)
    if start:
        pieces = [("… ", False), *pieces]
    if end < len(text):
        pieces = [*pieces, (" …", False)]
    document = hit.doc_ids[0] if len(hit.doc_ids) == 1 else ""
    return HitView(
        rank,
        (hit.title or document or hit.kind)[:_TITLE],
        next((url for value in hit.metadata.values() if (url := find_link(value))), ""),
        document,
        _place(hit, start)[:_TITLE],
        f"{hit.score:.3g}",
        pieces,
        mark_matches(text, words, language) if (start, end) != (0, len(text)) else (),
    )


def _place(hit: Hit, start: int) -> str:
    """Return document, page and headings of a hit shown from a character on; how many documents, if it has several.

    Documents may have the same title, so the document is named unless it is the title.
    """
    if len(hit.doc_ids) > 1:
        return f"{hit.kind} of {len(hit.doc_ids)} documents"
    known = [position for position in place_snippet(hit, start) if position.page is not None or position.headings]
    return format_positions(known[:3], hit.title) or ", ".join(id for id in hit.doc_ids if id != hit.title)


def _view_step(step: Step) -> StepView:
    paths = [format_path(path) for path in step.paths[:_FACTS]]
    facts = [f"{triple.subject} –{triple.predicate}→ {triple.object}" for triple in step.triples[:_FACTS]]
    more = len(step.ids) - _IDS
    ids = ", ".join(step.ids[:_IDS]) + (f" and {more} more" if more > 0 else "")
    return StepView(
        step.iteration,
        step.index[:_TITLE],
        ids[:_NOTE],
        "; ".join((*paths, *facts))[:_NOTE],
        step.note[:_NOTE],
        f"{step.ms:.3g}",
        step.input_tokens + step.output_tokens,
    )


def _find_titles(hits: ServedSearch) -> dict[str, str]:
    """Return the titles of the passages that facts and paths of the trace name by their ids."""
    facts = list_trace_facts(hits.retrieval.trace)[:_LOOKED_UP]
    names = {name for fact in facts for name in (fact.subject, fact.object)}
    index = hits.state.index
    owner = index.finished_documents().owner
    owners = {name: owner(name) for name in names}
    documents = index.read(sorted({id for id in owners.values() if id}))
    titles = {document.id: document.title or document.id for document in documents}
    return {name: titles[id] for name, id in owners.items() if id in titles}
