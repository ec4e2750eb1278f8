"""The part `links`: what each passage is called, and where its text may mention others."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from ragindex.corpus.chunking import split_passage_id
from ragindex.english import strip_brackets
from ragindex.interfaces import BuildContext, Change, Collection, Part, ReadContext, Schema, SearchKind
from ragindex.parts.records import TEXTS
from ragindex.text_analysis import analyse
from ragindex.types import HYPERLINKS
from ragindex_retrievers.links import names

KEYS, UNTITLED_KEYS, TITLE = "keys", "untitled_keys", "title"
CONFIRMED, UNCONFIRMED = "confirmed", "unconfirmed"
_SCHEMA = Schema(stored=("windows",), keywords=("passage_ids", "doc_ids", KEYS, UNTITLED_KEYS, TITLE, "mentions"))
"""`keys`: the passage's names; `untitled_keys`: those that it would have without a title; `title`: in the first passage
of a document with a title, whether its text has a word of it; `mentions`: beginnings of the names that may stand in its
text; `windows`: the words that names are looked for in, as names.write_windows writes them."""


class PassageLinks(Part[Collection]):
    """One record per passage, made from its own text alone: no encoder, no model, and no graph of the whole corpus.

    Which passages mention each other is found when a question is asked: a passage that is added later is linked from
    the passages that mention it already, and a longer name that is added later is preferred to a shorter one.
    """

    version: ClassVar[int] = 2
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()

    def apply(self, change: Change, context: BuildContext) -> None:
        """Write the records of the batch, and delete those of removed passages."""
        records = context.collection("records", _SCHEMA)
        records.delete(change.remove)
        if change.upsert:
            records.upsert(_build_records(context.passages(list(change.upsert)).to_pylist(), context.language))

    def open(self, context: ReadContext) -> Collection:
        """Return the collection."""
        return context.collection("records")


def _build_records(passages: list[Mapping[str, Any]], language: str) -> pa.RecordBatch:
    windows = [names.find_windows(passage["text"], _find_targets(passage)) for passage in passages]
    columns = {
        "id": pa.array([passage["id"] for passage in passages], pa.string()),
        "passage_ids": pa.array([[passage["id"]] for passage in passages], TEXTS),
        "doc_ids": pa.array([[passage["doc_id"]] for passage in passages], TEXTS),
        KEYS: pa.array([_find_keys(passage, passage["title"]) for passage in passages], TEXTS),
        UNTITLED_KEYS: pa.array([_find_keys(passage, "") for passage in passages], TEXTS),
        TITLE: pa.array([_judge_title(passage, language) for passage in passages], TEXTS),
        "mentions": pa.array([names.list_prefixes(window) for window in windows], TEXTS),
        "windows": pa.array([names.write_windows(window) for window in windows], pa.string()),
    }
    return pa.record_batch(columns)


def _find_keys(passage: Mapping[str, Any], title: str) -> list[str]:
    return names.find_keys(title, passage["text"], passage["doc_id"], passage["own_headings"])


def _judge_title(passage: Mapping[str, Any], language: str) -> list[str]:
    """Return whether the first passage of a document has a word of its title; nothing for other passages."""
    place = None if passage["id"] == passage["doc_id"] else split_passage_id(passage["id"])
    title = set(analyse(strip_brackets(passage["title"]), language))
    if not title or (place is not None and place[2] > 0):
        return []
    return [UNCONFIRMED if title.isdisjoint(analyse(passage["text"], language)) else CONFIRMED]


def _find_targets(passage: Mapping[str, Any]) -> list[str]:
    """Return the documents that the passage's hyperlinks point to; those of HTML pages are in the metadata."""
    stored = json.loads(passage["metadata"]).get(HYPERLINKS, ())
    links = stored if isinstance(stored, list) else []
    pairs = [(str(pair[0]), str(pair[1])) for pair in links if isinstance(pair, list) and len(pair) == 2]
    return names.find_targets(passage["text"], passage["doc_id"], pairs)
