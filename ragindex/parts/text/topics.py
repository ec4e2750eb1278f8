"""Topics: what each passage is about, in a few words. Passages on the same topic need not share any word.

SiReRAG clusters passages by topic to measure how much of the evidence that questions need such clusters bring
together (eval/ragindex_eval/run/tree_coverage.py).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
import regex
from pydantic import BaseModel, StringConstraints

from ragindex._util.canonical import encodable
from ragindex.english.words import ENGLISH_FUNCTION_WORDS, PAST_VERBS, PREPOSITIONS, RELATIVES
from ragindex.interfaces import BuildContext, Schema, SearchKind
from ragindex.llm.tasks import Task
from ragindex.parts.asking import PassageAnswers, PassageRow
from ragindex.parts.records import unit_columns
from ragindex.retrieval.hits import text_search_schema
from ragindex.text_analysis import token_spans

_IS_A_PHRASE = regex.compile(r"\b(?:is|was|are|were)\s+(?:an?|the|one of the)\s+((?:[\p{L}\p{N}'’-]+\s*){1,6})")
_NUMBER = regex.compile(r"\p{N}+")
_END_WORDS = PREPOSITIONS | RELATIVES | PAST_VERBS | {"and", "or"}
_FREQUENT_WORDS = 3


class Topic(BaseModel):
    """The high-level topic of a text."""

    topic: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def _find_topic_by_rule(inputs: Mapping[str, Any]) -> Topic:
    """Return the first "is a …" phrase of the text as its topic, or its most frequent words if there is none."""
    match = _IS_A_PHRASE.search(inputs["text"])
    kind = _trim_phrase(match[1].split()) if match else ""
    return Topic(topic=kind or _find_frequent_words(f"{inputs['title']}\n{inputs['text']}", inputs["language"]))


def _trim_phrase(words: list[str]) -> str:
    end = next((at for at, word in enumerate(words) if word.lower() in _END_WORDS or word.endswith("ed")), len(words))
    return " ".join(word for word in words[:end] if not _NUMBER.fullmatch(word))


def _find_frequent_words(text: str, language: str) -> str:
    """Return the three most frequent words in their first spelling, or the whole text if it has none.

    Of equally frequent words, the first ones win.
    """
    spelt: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for token, start, end in token_spans(text, language):
        if text[start:end].lower() not in ENGLISH_FUNCTION_WORDS and not _NUMBER.fullmatch(token):
            spelt.setdefault(token, text[start:end])
            counts[token] += 1
    return " ".join(spelt[token] for token, _ in counts.most_common(_FREQUENT_WORDS)) or text.strip()


TOPIC: Task[Topic] = Task(
    name="topic",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "topic.jinja",
    output=Topic,
    rule=_find_topic_by_rule,
    max_tokens=100,
    read=lambda text: Topic(topic=text),
)


class Topics(PassageAnswers):
    """One record per passage with text: its topic, from one LLM call."""

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset({"text", "vectors"})
    made_by_rules: ClassVar[str] = "Topics were made"

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the one task."""
        return (TOPIC,)

    def record_schema(self, context: BuildContext) -> Schema:
        """Return the schema of records that are searched by text."""
        return text_search_schema(context.language)

    def make_records(self, passages: Sequence[PassageRow], context: BuildContext) -> pa.RecordBatch | None:
        """Ask for the topic of each passage with text."""
        rows = {row["id"]: row for row in passages if row["text"].strip()}
        language = context.language
        topics = self.ask(
            context,
            TOPIC,
            {id: {"title": row["title"], "text": row["text"], "language": language} for id, row in rows.items()},
        )
        if not topics:
            return None
        texts = [encodable(answer.topic) for answer in topics.values()]
        return pa.record_batch(
            unit_columns("topic", [f"{id}#topic" for id in topics], texts, [rows[id] for id in topics])
        )
