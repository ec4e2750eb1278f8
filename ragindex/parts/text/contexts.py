"""Contexts: for each passage one sentence that says what it is in its document.

The idea is Anthropic's "contextual retrieval" (2024): what a model says about a chunk in its document is indexed before
the chunk. There the model reads the whole document with every chunk; here it reads a bounded extract.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import BaseModel

from ragindex.canonical import encodable
from ragindex.counts import many
from ragindex.english import split_sentences
from ragindex.interfaces import BuildContext, Change, Collection, Part, ReadContext, Schema, Uses
from ragindex.llm.offline import OfflineRules
from ragindex.llm.tasks import Failure, Task
from ragindex.parts.text.preceding import Surroundings, SurroundingTexts

SCHEMA = Schema(stored=("text",), numbers=("failed",))
"""Per passage: its sentence, "" where there is none, and 1 if the rule made it because the model failed."""
_BEGINNING = 1_500
_PREVIOUS = 1_000
_LONGEST = 300
"""Characters of what a task reads of the document's beginning, and before the passage, and of a sentence."""


class PlacingSentence(BaseModel):
    """A sentence that places a passage in its document; "" if there is nothing to say."""

    sentence: str


class RulePlacing(PlacingSentence):
    """What the rule says, which is no whole sentence."""


def bound_sentence(text: str) -> str:
    """Return the first sentence of a text on one line, at most 300 characters of it, to the end of a word."""
    line = " ".join(next(iter(split_sentences(" ".join(text.split()))), "").split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST].rpartition(' ')[0] or line[:_LONGEST]} …"


def below_title(title: str, headings: str) -> str:
    """Return a path of headings ("A › B") without a first one that repeats the title."""
    first, _, rest = headings.partition(" › ")
    return rest if first == title else headings


def _place_by_rule(inputs: Mapping[str, Any]) -> RulePlacing:
    """Return the headings below the title and the first sentence of the document that is no heading: "Tides: The …"."""
    prose = (one for one in split_sentences(inputs["beginning"]) if not one.startswith("#") and one != inputs["title"])
    found = (below_title(inputs["title"], inputs["headings"]), bound_sentence(next(prose, "")))
    return RulePlacing(sentence=": ".join(one for one in found if one))


PLACING_SENTENCE: Task[PlacingSentence] = Task(
    name="context",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "placing_sentence.jinja",
    output=PlacingSentence,
    rule=_place_by_rule,
    max_tokens=150,
    read=lambda text: PlacingSentence(sentence=text),
)


class PassageContexts(Part[Collection]):
    """One record per passage: a sentence that places it in its document, from one LLM call.

    The model reads the title, the headings, the beginning of the document's first passage and the end of the passage
    before. A passage is asked for again when one of these passages changes, by `surroundings`. Where the model gives
    no usable answer, the rule's sentence stands.
    """

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"model", "prompts"})

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the part that says which passages a passage depends on."""
        return (Surroundings(),)

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the one task."""
        return (PLACING_SENTENCE,)

    def apply(self, change: Change, context: BuildContext) -> None:
        """Replace the sentences of the batch's passages."""
        records = context.collection("records", SCHEMA)
        records.delete(change.remove)
        passages = context.passages(list(change.upsert)).to_pylist()
        if not passages:
            return
        surroundings: SurroundingTexts = context.inputs[0]
        inputs = [
            {
                **{name: one[name] for name in ("title", "headings", "text")},
                "beginning": beginning[:_BEGINNING],
                "previous": previous[-_PREVIOUS:],
            }
            for one, (beginning, previous) in zip(passages, surroundings.of(passages), strict=True)
        ]
        filled = [one for one in inputs if one["text"].strip()]
        answers = iter(context.llm.map(PLACING_SENTENCE, filled, again=True))
        sentences, failed = list[str](), list[float]()
        for one in inputs:
            answer = next(answers) if one["text"].strip() else None
            failed.append(float(isinstance(answer, Failure)))
            if isinstance(answer, Failure):
                answer = _place_by_rule(one)
            rule = isinstance(answer, RulePlacing)
            sentences.append("" if answer is None else answer.sentence if rule else bound_sentence(answer.sentence))
        ids, texts = [one["id"] for one in passages], [encodable(one) for one in sentences]
        columns = [pa.array(ids, pa.string()), pa.array(texts, pa.string()), pa.array(failed, pa.float64())]
        records.upsert(pa.RecordBatch.from_arrays(columns, names=["id", "text", "failed"]))

    def finish(self, context: BuildContext) -> None:
        """Note whether rules were used."""
        if context.llm.id == OfflineRules.id:
            context.note("Contexts of passages were made by rules, not by a language model.")
        batches = context.collection("records", SCHEMA).scan(("failed",))
        failed = int(sum(sum(batch.column("failed").to_pylist()) for batch in batches))
        if failed:
            by = "was made by a rule, because the model gave none"
            context.note(f"The context of {many(failed, 'passage')} {by}. Ask again with: ragindex index --rebuild")

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of sentences."""
        return context.collection("records")
