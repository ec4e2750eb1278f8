"""A part whose records are merged from several passages, for tests of sync."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa

from ragindex.filters import Ids, Overlaps
from ragindex.interfaces import BuildContext, Change, Collection, Part, ReadContext, Schema
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.vectors import Vectors
from ragindex.workspace.workspace import Workspace


class Words(Part[Collection]):
    """A part whose records are merged from several passages: each word with the passages that hold it."""

    version: ClassVar[int] = 1

    def inputs(self) -> tuple[Part[Any], ...]:
        return (Passages(),)

    @property
    def shares_records(self) -> bool:
        return True

    def passages_sharing_with(self, ids: Sequence[str], context: BuildContext) -> set[str]:
        shared = self.records(context).scan(("passage_ids",), Overlaps("passage_ids", tuple(ids)))
        return {id for batch in shared for row in batch.to_pylist() for id in row["passage_ids"]}

    def records(self, context: BuildContext) -> Collection:
        return context.collection("records", Schema(stored=("title", "text"), keywords=("passage_ids",)))

    def apply(self, change: Change, context: BuildContext) -> None:
        records = self.records(context)
        source: Collection = context.inputs[0]
        touched = [*change.upsert, *change.remove]
        texts = {r["id"]: r["text"] for r in source.get(list(change.upsert), ("text",)).to_pylist()}
        held = [
            r for b in records.scan(("passage_ids",), Overlaps("passage_ids", tuple(touched))) for r in b.to_pylist()
        ]
        keys = {r["id"] for r in held} | {word for text in texts.values() for word in text.split()}
        known = {
            r["id"]: set(r["passage_ids"])
            for b in records.scan(("passage_ids",), Ids(tuple(sorted(keys))))
            for r in b.to_pylist()
        }
        merged = {
            word: (known.get(word, set()) - set(touched)) | {id for id, text in texts.items() if word in text.split()}
            for word in keys
        }
        records.delete(sorted(word for word, passages in merged.items() if not passages))
        kept = sorted(word for word, passages in merged.items() if passages)
        if kept:
            columns = {
                "id": kept,
                "title": kept,
                "text": kept,
                "passage_ids": pa.array([sorted(merged[word]) for word in kept], pa.list_(pa.string())),
            }
            records.upsert(pa.RecordBatch.from_pydict(columns))

    def finish(self, context: BuildContext) -> None:
        (context.folder / "finished").write_text("yes")

    def open(self, context: ReadContext) -> Collection:
        assert (context.folder / "finished").read_text() == "yes"
        return context.collection("records")


def contents(workspace: Workspace) -> list[dict[str, Any]]:
    opened = workspace.open_part(Vectors(of=Words()))
    rows = [row for batch in opened.scan(("passage_ids", "vector")) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row["id"]))
