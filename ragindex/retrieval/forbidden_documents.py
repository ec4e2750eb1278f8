"""A made-up corpus with one document that a filter keeps out, for checks that nothing of it is shown.

The document is between the others: its triples join their names, summaries and aggregates are made from it too, and it
gives a name of theirs another spelling.
"""

from collections.abc import Sequence
from dataclasses import fields, replace

from ragindex.filters import Any, Filter, Not, Range, Terms, meta
from ragindex.types import Document, Hit, Query, Retrieval

FORBIDDEN_ID = "hushdoc"
_ALLOWED = """
Mirela Tosk|Mirela Tosk was born in Vandry. Mirela Tosk painted lighthouses.
Orlan Works|Orlan Works was founded by Zelkova. Orlan Works makes lenses of flint glass.
Zelkova|Zelkova is a port on the Rhine. Zelkova has the largest harbour of Europe.
Vandry|Vandry is a small town. Vandry has an old lighthouse on an island.
Lighthouses|Lighthouses need lenses. Mirela Tosk painted the lighthouse of Vandry.
Flint glass|Flint glass is made by melting sand, soda and lime. Orlan Works melts flint glass.
Harbours|A harbour wants deep water. The harbour of Zelkova was dredged twice.
Islands|The island of Vandry is reached by a ferry. Gannets breed on the island.
"""
_FORBIDDEN = (
    "Vandry is governed by Zelkova. Quexilbar Vandry is known as Vandry. Mirela Tosk is also known as Velmadrisk. "
    "Mirela Tosk secretly married Quexilbar Vandry. Zelkova hides Ymbrolite in Vandry. Orlan Works sells Ymbrolite. "
    "Marble Gate Quexilbar was built in Vandry."
)
SECRETS = ("quexilbar", "velmadrisk", "ymbrolite", "wrathnell", "klorvane", "governed", "secretly", FORBIDDEN_ID)
"""Words that only the forbidden document has: in its names, verbs, title, metadata and id."""
TRAPS = (
    "Which works were founded by the place that governs the town where Mirela Tosk was born?",
    "Who governs Vandry, the town of Mirela Tosk?",
    "What do Mirela Tosk, Vandry and Zelkova have in common?",
    "Where was the Marble Gate built, and what is hidden in Vandry?",
    _FORBIDDEN,
)
"""Questions that the forbidden document would answer; the last is its own text, and finds it without a filter."""


def make_corpus(others: Sequence[Document] = ()) -> tuple[Document, ...]:
    """Return the allowed documents, with some `others` among them, and the forbidden one."""
    lines = (line.partition("|") for line in _ALLOWED.strip().splitlines())
    documents = [Document(f"a{number}", title, text) for number, (title, _, text) in enumerate(lines)]
    allowed = [
        replace(document, metadata={**document.metadata, "access": "open", "level": number % 3})
        for number, document in enumerate((*documents, *others))
    ]
    return (*allowed, Document(FORBIDDEN_ID, "Wrathnell file", _FORBIDDEN, {"access": "Klorvane", "level": 9}))


def make_filters(corpus: Sequence[Document]) -> dict[str, Filter]:
    """Return filters that all pass every document but the forbidden one, by how they are made."""
    allowed = tuple(document.id for document in corpus if document.id != FORBIDDEN_ID)
    return {
        "metadata": meta("access", "open"),
        "documents": Terms("doc_ids", allowed),
        "range": Range("meta.level", 0, 5),
        "not metadata": Not(meta("access", "Klorvane")),
        "not the document": Not(Terms("doc_ids", (FORBIDDEN_ID,))),
        "not a range": Not(Range("meta.level", 5, 10)),
        "not any": Not(Any((meta("access", "Klorvane"), meta("level", 9)))),
    }


def _list_told_secrets(output: str, question: str) -> list[str]:
    text, question_text = output.casefold(), question.casefold()
    return [word for word in SECRETS if word in text and word not in question_text]


def list_leaks(query: Query, retrieval: Retrieval, llm_inputs: object = "") -> dict[str, list[str]]:
    """Return the secret words that a retrieval tells, by where: hits, notes, LLM (what it was `llm_inputs`), or a step.

    Words of the question do not count.
    """
    outputs = [("hits", write_hit(hit)) for hit in retrieval.hits]
    outputs += [("notes", str(retrieval.notes)), ("LLM", str(llm_inputs))]
    outputs += [(f"step {step.index!r}", str(replace(step, query=""))) for step in retrieval.trace]
    leaks: dict[str, list[str]] = {}
    for place, text in outputs:
        secrets = _list_told_secrets(text, query.text)
        if secrets:
            leaks[place] = sorted({*leaks.get(place, ()), *secrets})
    return leaks


def write_hit(hit: Hit) -> str:
    """Return all that a hit tells; its representation leaves most of it out."""
    return str([getattr(hit, field.name) for field in fields(hit)])
