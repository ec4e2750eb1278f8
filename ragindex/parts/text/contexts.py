"""Contexts: for each passage one sentence that says what it is in its document.

The idea is Anthropic's "contextual retrieval" (2024): what a model says about a chunk in its document is indexed before
the chunk. There the model reads the whole document with every chunk; here it reads a bounded extract.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import BaseModel

from ragindex._util.canonical import encodable
from ragindex._util.text import many
from ragindex.english import split_sentences
from ragindex.interfaces import BuildContext, Part, Schema, SearchKind
from ragindex.llm.tasks import Failure, Task
from ragindex.parts.asking import PassageAnswers, PassageRow
from ragindex.parts.text.preceding import Surroundings, SurroundingTexts

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
    prose = (
        sentence
        for sentence in split_sentences(inputs["beginning"])
        if not sentence.startswith("#") and sentence != inputs["title"]
    )
    pieces = (below_title(inputs["title"], inputs["headings"]), bound_sentence(next(prose, "")))
    return RulePlacing(sentence=": ".join(piece for piece in pieces if piece))


PLACING_SENTENCE: Task[PlacingSentence] = Task(
    name="context",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "placing_sentence.jinja",
    output=PlacingSentence,
    rule=_place_by_rule,
    max_tokens=150,
    read=lambda text: PlacingSentence(sentence=text),
)


class PassageContexts(PassageAnswers):
    """One record per passage: a sentence that places it in its document, from one LLM call.

    The model reads the title, the headings, the beginning of the document's first passage and the end of the passage
    before. A passage is asked for again when one of these passages changes, by `surroundings`. Where the model gives
    no usable answer, the rule's sentence stands.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
    made_by_rules: ClassVar[str] = "Contexts of passages were made"
    one_record_each: ClassVar[bool] = True

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the part that says which passages a passage depends on."""
        return (Surroundings(),)

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the one task."""
        return (PLACING_SENTENCE,)

    def record_schema(self, context: BuildContext) -> Schema:
        """Return the schema: the sentence, "" where there is none; 1 if the rule made it because the model failed."""
        return Schema(stored=("text",), numbers=("failed",))

    def make_records(self, passages: Sequence[PassageRow], context: BuildContext) -> pa.RecordBatch:
        """Ask for the sentences of the passages with text."""
        surroundings: SurroundingTexts = context.inputs[0]
        inputs = [
            {
                **{name: row[name] for name in ("title", "headings", "text")},
                "beginning": beginning[:_BEGINNING],
                "previous": previous[-_PREVIOUS:],
            }
            for row, (beginning, previous) in zip(passages, surroundings.of(passages), strict=True)
        ]
        filled = [each for each in inputs if each["text"].strip()]
        answers = iter(context.llm.map(PLACING_SENTENCE, filled, again=True))
        sentences, failed = list[str](), list[float]()
        for each in inputs:
            answer = next(answers) if each["text"].strip() else PlacingSentence(sentence="")
            failed.append(float(isinstance(answer, Failure)))
            if isinstance(answer, Failure):
                answer = _place_by_rule(each)
            text = answer.sentence if isinstance(answer, RulePlacing) else bound_sentence(answer.sentence)
            sentences.append(encodable(text))
        return pa.record_batch(
            {
                "id": pa.array([row["id"] for row in passages], pa.string()),
                "text": pa.array(sentences, pa.string()),
                "failed": pa.array(failed, pa.float64()),
            }
        )

    def finish(self, context: BuildContext) -> None:
        """Note whether rules were used, for all passages or for those that the model failed on."""
        super().finish(context)
        batches = context.collection("records", self.record_schema(context)).scan(("failed",))
        failed = int(sum(sum(batch.column("failed").to_pylist()) for batch in batches))
        if failed:
            by = "was made by a rule, because the model gave none"
            context.note(f"The context of {many(failed, 'passage')} {by}. It is asked again with another model.")
