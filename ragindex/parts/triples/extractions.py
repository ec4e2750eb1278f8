"""Entities and triples of every passage, from one LLM call per passage or two, from rules, or from a file."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import BaseModel, Field

from ragindex._util.text import many
from ragindex.english import extract
from ragindex.errors import DataError
from ragindex.interfaces import BuildContext, Collection, ReadContext, Schema, SearchKind, Uses
from ragindex.llm.tasks import Task
from ragindex.parts.asking import PassageAnswers, PassageRow
from ragindex.parts.records import TEXTS
from ragindex.parts.triples.triple_json import (
    Extracted,
    OpenIE,
    TripleLists,
    clean_names,
    passage_key,
    read_openie,
    read_triples,
    to_json,
    well_formed,
)

_SHOWN_NOTES = 3


class ExtractionAnswer(BaseModel):
    """The answer of an LLM. Its triples are validated one by one, so a malformed one does not spoil the others."""

    entities: list[str]
    triples: TripleLists

    def extracted(self) -> Extracted:
        """Return the names, the triples, and the number of triples that have no known form."""
        triples, dropped = read_triples(self.triples)
        return Extracted(clean_names(self.entities), triples, dropped)


class RuleAnswer(ExtractionAnswer):
    """The answer of the rules; `note` says why it may be incomplete."""

    note: str

    def extracted(self) -> Extracted:
        """Return the names and triples, marked as made by rules."""
        triples, dropped = well_formed(self.triples)
        return Extracted(clean_names(self.entities), triples, dropped, "rules", self.note)


def _extract_by_rules(inputs: Mapping[str, Any]) -> RuleAnswer:
    extracted = extract(inputs["title"], inputs["text"], inputs["numbers_as_entities"])
    triples = [[triple.subject, triple.predicate, triple.object] for triple in extracted.triples]
    return RuleAnswer(entities=list(extracted.entities), triples=triples, note=" ".join(extracted.notes))


EXTRACT: Task[ExtractionAnswer] = Task(
    name="extract",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "extract.jinja",
    output=ExtractionAnswer,
    rule=_extract_by_rules,
    max_tokens=2048,
)


class NamesAnswer(BaseModel):
    """The names in a passage: the first of two calls."""

    entities: list[str]


class RelationsAnswer(BaseModel):
    """The triples of a passage between given names: the second of two calls."""

    triples: TripleLists

    def extracted(self, entities: Sequence[str]) -> Extracted:
        """Return these names, the triples, and the number of triples that have no known form."""
        return ExtractionAnswer(entities=list(entities), triples=self.triples).extracted()


class RuleRelations(RelationsAnswer):
    """The triples of the rules, with their note."""

    note: str

    def extracted(self, entities: Sequence[str]) -> Extracted:
        """Return these names and the triples, marked as made by rules."""
        return RuleAnswer(entities=list(entities), triples=self.triples, note=self.note).extracted()


def _relate_by_rules(inputs: Mapping[str, Any]) -> RelationsAnswer:
    relations = _extract_by_rules(inputs)
    return RuleRelations(triples=relations.triples, note=relations.note)


NAMES: Task[NamesAnswer] = Task(
    name="extract_names",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "names.jinja",
    output=NamesAnswer,
    rule=lambda inputs: NamesAnswer(entities=_extract_by_rules(inputs).entities),
    max_tokens=1024,
)
RELATE: Task[RelationsAnswer] = Task(
    name="extract_relations",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "relate.jinja",
    output=RelationsAnswer,
    rule=_relate_by_rules,
    max_tokens=2048,
)


class Extractions(PassageAnswers):
    """One record per passage: its named entities and its triples, from one LLM call (GeAR).

    With `calls=sequential` a first call lists the names, and a second, which is given them, the triples, as in
    HippoRAG (GeAR, appendix D and Table 7). The rules give the same either way. Malformed triples are dropped and
    counted. With an imported file, no LLM is asked: a passage that the file lacks has no triples, and is counted.
    `numbers_as_entities` applies to the rules, which otherwise leave out dates and numbers.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
    uses: ClassVar[Uses] = frozenset({"model", "prompts", "import"})
    one_record_each: ClassVar[bool] = True
    calls: Literal["joint", "sequential"] = Field(
        default="joint", description="Ask for names and triples in one call, or for names first."
    )
    numbers_as_entities: bool = Field(default=False, description="Rules only: count dates and numbers as entities.")

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the task for entities and triples together, or those of the two calls."""
        return (EXTRACT,) if self.calls == "joint" else (NAMES, RELATE)

    def check_import(self, file: Path) -> None:
        """Read the file once. Raises DataError if it cannot be read."""
        read_openie(file)

    def record_schema(self, context: BuildContext) -> Schema:
        """Return the schema.

        `triples` is a JSON list of [subject, predicate, object]; `content` is the passage's key in an imported file.
        """
        return Schema(
            stored=("triples", "source", "note", "content"),
            keywords=("passage_ids", "doc_ids", "entities"),
            numbers=("kept", "dropped"),
        )

    def make_records(self, passages: Sequence[PassageRow], context: BuildContext) -> pa.RecordBatch | None:
        """Extract from the passages, or look them up in the imported file."""
        file = None if context.imported is None else read_openie(context.imported)
        extracted = self._ask_model(passages, context) if file is None else _read_imported(passages, file)
        return (
            _build_records([row for row in passages if row["id"] in extracted], extracted, file is not None)
            if extracted
            else None
        )

    def finish(self, context: BuildContext) -> None:
        """Note what was dropped, what rules extracted, and how the file and the corpus differ."""
        records = context.collection("records", self.record_schema(context))
        for sentence in _write_notes(records):
            context.note(sentence)
        if context.imported is not None:
            for sentence in _write_import_notes(records, read_openie(context.imported)):
                context.note(sentence)
            read_openie.cache_clear()

    def open(self, context: ReadContext) -> Collection:
        """Return the collection; `ragindex.parts.triples.triple_json.from_json` parses its triples."""
        return context.collection("records")

    def _ask_model(self, passages: Sequence[Mapping[str, Any]], context: BuildContext) -> dict[str, Extracted]:
        blank = {passage["id"]: Extracted(source="blank") for passage in passages if not passage["text"].strip()}
        inputs = {
            passage["id"]: {
                "title": passage["title"],
                "text": passage["text"],
                "numbers_as_entities": self.numbers_as_entities,
            }
            for passage in passages
            if passage["id"] not in blank
        }
        if self.calls == "joint":
            answers = self.ask(context, EXTRACT, inputs)
            return {**blank, **{id: answer.extracted() for id, answer in answers.items()}}
        names = {id: clean_names(named.entities) for id, named in self.ask(context, NAMES, inputs).items()}
        related = self.ask(context, RELATE, {id: {**inputs[id], "names": names[id]} for id in names})
        return {**blank, **{id: answer.extracted(names[id]) for id, answer in related.items()}}


def _read_imported(passages: Sequence[Mapping[str, Any]], file: OpenIE) -> dict[str, Extracted]:
    missing = Extracted(source="missing")
    return {
        passage["id"]: file.passages.get(passage_key(passage["title"], passage["text"]), missing)
        for passage in passages
    }


def _build_records(
    passages: Sequence[Mapping[str, Any]], extracted: Mapping[str, Extracted], imported: bool
) -> pa.RecordBatch:
    rows = [extracted[passage["id"]] for passage in passages]
    keys = [passage_key(passage["title"], passage["text"]) if imported else "" for passage in passages]
    columns = {
        "id": pa.array([passage["id"] for passage in passages], pa.string()),
        "passage_ids": pa.array([[passage["id"]] for passage in passages], TEXTS),
        "doc_ids": pa.array([[passage["doc_id"]] for passage in passages], TEXTS),
        "entities": pa.array([row.entities for row in rows], TEXTS),
        "triples": pa.array([to_json(row.triples) for row in rows], pa.string()),
        "source": pa.array([row.source for row in rows], pa.string()),
        "note": pa.array([row.note for row in rows], pa.string()),
        "content": pa.array(keys, pa.string()),
        "kept": pa.array([float(len(row.triples)) for row in rows], pa.float64()),
        "dropped": pa.array([float(row.dropped) for row in rows], pa.float64()),
    }
    return pa.record_batch(columns)


# ---------------------------------------------------------------- notes


def _write_notes(records: Collection) -> list[str]:
    sources: Counter[str] = Counter()
    remarks: Counter[str] = Counter()
    well_formed_triples = dropped = 0
    for batch in records.scan(("source", "note", "kept", "dropped")):
        sources.update(batch.column("source").to_pylist())
        remarks.update(filter(None, batch.column("note").to_pylist()))
        well_formed_triples += int(sum(batch.column("kept").to_pylist()))
        dropped += int(sum(batch.column("dropped").to_pylist()))
    sentences = []
    if sources["rules"]:
        were = many(sources["rules"], "passage was", "passages were")
        sentences.append(f"{were} read by rules, not by a language model.")
    if sources["blank"]:
        sentences.append(f"{many(sources['blank'], 'passage has', 'passages have')} no text.")
    if dropped:
        sentences.append(f"{dropped:,} of {well_formed_triples + dropped:,} triples were malformed and dropped.")
    common = sorted(remarks.items(), key=lambda pair: (-pair[1], pair[0]))
    sentences += [f"{many(count, 'passage')}: {remark}" for remark, count in common[:_SHOWN_NOTES]]
    if rest := sum(count for _, count in common[_SHOWN_NOTES:]):
        sentences.append(f"{many(rest, 'passage')} with other remarks.")
    return sentences


def _write_import_notes(records: Collection, file: OpenIE) -> list[str]:
    contents = [key for batch in records.scan(("content",)) for key in batch.column("content").to_pylist()]
    imported = sum(key in file.passages for key in contents)
    if contents and not imported:
        raise DataError("extractions of passages of this corpus", f"{len(file.passages):,} others and none of them")
    unused = len(file.passages.keys() - set(contents))
    sentences = [
        f"Imported: {imported:,} of {len(contents):,} passages are in the file; the others have no triples. "
        f"{unused:,} of {len(file.passages):,} passages of the file are not in the corpus."
    ]
    if file.repeated:
        stand = many(file.repeated, "passage stands", "passages stand")
        sentences.append(f"{stand} in the file more than once: the first counts.")
    return sentences
