"""Nodes of trees: texts that name the passages they are made from. Reading, ordering, and writing them as records."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ragindex._util.canonical import load_stored_json
from ragindex.corpus import passage_text
from ragindex.corpus.chunking import split_passage_id
from ragindex.errors import UsageError
from ragindex.interfaces import BuildContext, Collection, Floats, Schema
from ragindex.parts.records import DIGEST, TEXTS, encode_records, encoded_fields, encoded_text
from ragindex.retrieval.hits import HIT_FIELDS, KEYWORD_FIELDS, STORED_FIELDS, build_filter_fields, text_search_schema
from ragindex.types import Metadata

_NODE_FIELDS = ("level", "children", "tree")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A text and its sources; `metadata` is by document id.

    A leaf made of a record that is no tree node has level 0, no children and no `tree`.
    """

    id: str
    kind: str
    title: str
    text: str
    passage_ids: tuple[str, ...]
    doc_ids: tuple[str, ...]
    metadata: Mapping[str, Metadata]
    vector: Floats
    level: int = 0
    children: tuple[str, ...] = ()
    tree: str = ""

    @property
    def full_text(self) -> str:
        """Return the text that is encoded and summarised: title, newline, text."""
        return passage_text(self.title, self.text)

    @property
    def order(self) -> tuple[tuple[str, int], str]:
        """Return the sort key: the position of the first passage, then the id."""
        return (passage_order(self.passage_ids[0]) if self.passage_ids else ("", -1), self.id)


def passage_order(id: str) -> tuple[str, int]:
    """Return a sort key for passage ids: by document, and by number within a document."""
    passage_id = split_passage_id(id)
    return (id, -1) if passage_id is None else (passage_id[0], passage_id[2])


def merged(nodes: Sequence[Node]) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, Metadata]]:
    """Return the passages, documents and metadata of a node made from `nodes`, in the order of the source."""
    passages = sorted({id for node in nodes for id in node.passage_ids}, key=passage_order)
    metadata = {id: fields for node in nodes for id, fields in node.metadata.items()}
    documents = sorted({id for node in nodes for id in node.doc_ids})
    return tuple(passages), tuple(documents), {id: metadata[id] for id in documents if id in metadata}


# ---------------------------------------------------------------- reading


def leaves(records: Collection, context: BuildContext, wanted_by: str) -> list[Node]:
    """Return the records of a searchable collection as nodes, in the order of the source.

    Vectors are read from the collection if it has them, and encoded otherwise: a record without one is reported as
    failed and left out. Raises UsageError as `read_leaves` does.
    """
    if records.schema.dimensions is not None:
        return read_leaves(records, wanted_by)
    rows = [row for batch in records.scan(_list_fields(records, wanted_by)) for row in batch.to_pylist()]
    encoded, vectors = encode_records([encoded_text(row) for row in rows], [row["id"] for row in rows], context)
    return _build_leaves([rows[row] for row in encoded], vectors)


def read_leaves(records: Collection, wanted_by: str) -> list[Node]:
    """Return the records of a collection with vectors as nodes, in the order of the source.

    Nodes of other trees keep their level, children and tree. Raises UsageError if the collection lacks a field that
    hits need; `wanted_by` is named in the message.
    """
    batches = list(records.scan((*_list_fields(records, wanted_by), "vector")))
    rows = [row for batch in batches for row in batch.drop_columns(["vector"]).to_pylist()]
    vectors = np.concatenate([np.empty((0, records.schema.dimensions or 0), np.float32), *map(_read_vectors, batches)])
    return _build_leaves(rows, vectors)


def _list_fields(records: Collection, wanted_by: str) -> tuple[str, ...]:
    missing = set(HIT_FIELDS) - set(records.fields())
    if missing:
        raise UsageError(
            f"{wanted_by} needs records with {', '.join(HIT_FIELDS)}; {', '.join(sorted(missing))} is missing."
        )
    known = [name for name in _NODE_FIELDS if name in records.fields()]
    return tuple(dict.fromkeys((*HIT_FIELDS, *encoded_fields(records), *known)))


def _build_leaves(rows: Sequence[Mapping[str, Any]], vectors: Floats) -> list[Node]:
    return sorted((_build_leaf(*pair) for pair in zip(rows, vectors, strict=True)), key=lambda node: node.order)


def _read_vectors(batch: pa.RecordBatch) -> Floats:
    flat: Floats = batch.column("vector").flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(batch), batch.schema.field("vector").type.list_size)


def _build_leaf(row: Mapping[str, Any], vector: Floats) -> Node:
    metadata = load_stored_json(row["metadata"]) if row["metadata"] else {}
    passages, documents = tuple(row["passage_ids"]), tuple(row["doc_ids"])
    plain = (row["id"], row["kind"], row["title"], row["text"])
    level, children = int(row.get("level", 0)), tuple(row.get("children", ()))
    return Node(*plain, passages, documents, metadata, vector, level, children, row.get("tree", ""))


# ---------------------------------------------------------------- writing


def schema(
    language: str,
    dimensions: int,
    stored: Iterable[str] = (),
    keywords: Iterable[str] = (),
    numbers: Iterable[str] = (),
) -> Schema:
    """Return the schema of a collection with text, vectors, a digest for `replace_records`, and additional fields."""
    return replace(
        text_search_schema(language),
        stored=(*STORED_FIELDS, *stored, DIGEST),
        keywords=(*KEYWORD_FIELDS, *keywords),
        numbers=tuple(numbers),
        dimensions=dimensions,
    )


def columns(nodes: Sequence[Node], dimensions: int) -> dict[str, pa.Array]:
    """Return the columns that `ragindex.retrieval.hits` reads, and the vectors."""
    vectors = np.concatenate([np.empty(0, np.float32), *(node.vector for node in nodes)])
    by_document = [json.dumps(dict(node.metadata), ensure_ascii=False) if node.metadata else "" for node in nodes]
    return {
        **{name: pa.array([getattr(node, name) for node in nodes], pa.string()) for name in _TEXT_FIELDS},
        "metadata": pa.array(by_document, pa.string()),
        **{name: pa.array([getattr(node, name) for node in nodes], TEXTS) for name in KEYWORD_FIELDS},
        **build_filter_fields([node.metadata.get(id, {}) for id in node.doc_ids] for node in nodes),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors, pa.float32()), dimensions),
    }


_TEXT_FIELDS = ("id", "kind", "title", "text")
