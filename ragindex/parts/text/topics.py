"""Topics: what each passage is about, in a few words. Passages of one topic need not share their words.

SiReRAG clusters passages by them, to see what that groups together of what questions need
(eval/ragindex_eval/metrics/tree_coverage.py).
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
import regex
from pydantic import BaseModel, StringConstraints

from ragindex.canonical import encodable
from ragindex.interfaces import BuildContext, Change, Collection, Part, ReadContext, Uses
from ragindex.llm.offline import OfflineRules
from ragindex.llm.rules.words import ENGLISH_FUNCTION_WORDS, PAST_VERBS, PREPOSITIONS, RELATIVES
from ragindex.llm.tasks import Task
from ragindex.parts.support.ask_llm import ask_for_passages
from ragindex.parts.support.records import find_record_ids, unit_columns
from ragindex.retrieval.hits import text_search_schema
from ragindex.text_analysis import token_spans

_KIND = regex.compile(r"\b(?:is|was|are|were)\s+(?:an?|the|one of the)\s+((?:[\p{L}\p{N}'’-]+\s*){1,6})")
_NUMBER = regex.compile(r"\p{N}+")
_ENDS = PREPOSITIONS | RELATIVES | PAST_VERBS | {"and", "or"}
_WORDS = 3


class Topic(BaseModel):
    """What a text is about, at a high level."""

    topic: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def _by_rule(inputs: Mapping[str, Any]) -> Topic:
    """What kind of thing the first sentence that says so says it is; else the most frequent words."""
    found = _KIND.search(inputs["text"])
    kind = _kind(found[1].split()) if found else ""
    return Topic(topic=kind or _frequent(f"{inputs['title']}\n{inputs['text']}", inputs["language"]))


def _kind(words: list[str]) -> str:
    end = next((at for at, word in enumerate(words) if word.lower() in _ENDS or word.endswith("ed")), len(words))
    return " ".join(word for word in words[:end] if not _NUMBER.fullmatch(word))


def _frequent(text: str, language: str) -> str:
    """The three most frequent words as they are first written; of equal ones the first. The text, without any."""
    spelt: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for token, start, end in token_spans(text, language):
        if text[start:end].lower() not in ENGLISH_FUNCTION_WORDS and not _NUMBER.fullmatch(token):
            spelt.setdefault(token, text[start:end])
            counts[token] += 1
    return " ".join(spelt[token] for token, _ in counts.most_common(_WORDS)) or text.strip()


TOPIC: Task[Topic] = Task(
    name="topic",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "topic.jinja",
    output=Topic,
    rule=_by_rule,
    max_tokens=100,
    read=lambda text: Topic(topic=text),
)


class Topics(Part[Collection]):
    """One record a passage with text: what it is about, in one call."""

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"model", "prompts"})

    def tasks(self) -> tuple[Task[Any], ...]:
        """One a passage."""
        return (TOPIC,)

    def apply(self, change: Change, context: BuildContext) -> None:
        """Replace the topics of the batch's passages; those that fail lose what they had."""
        records = context.collection("records", text_search_schema(context.language))
        passages = {one["id"]: one for one in context.passages(list(change.upsert)).to_pylist()}
        inputs = {
            id: {"title": one["title"], "text": one["text"], "language": context.language}
            for id, one in passages.items()
            if one["text"].strip()
        }
        found = ask_for_passages(context, TOPIC, inputs)
        records.delete(find_record_ids(records, [*change.remove, *change.upsert]))
        if found:
            ids, texts = [f"{id}#topic" for id in found], [encodable(one.topic) for one in found.values()]
            columns = unit_columns("topic", ids, texts, [passages[id] for id in found])
            records.upsert(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))

    def finish(self, context: BuildContext) -> None:
        """Say what the rules did."""
        if context.llm.id == OfflineRules.id:
            context.note("Topics were made by rules, not by a language model.")

    def open(self, context: ReadContext) -> Collection:
        """The collection."""
        return context.collection("records")
