"""Propositions: sentences that each state one fact and stand alone, with the entities they are about."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import BaseModel, Field, StringConstraints, WithJsonSchema

from ragindex.canonical import encodable
from ragindex.interfaces import BuildContext, Change, Collection, Part, ReadContext, Schema, Uses
from ragindex.llm import rules
from ragindex.llm.coerce import reshape
from ragindex.llm.offline import OfflineRules
from ragindex.llm.tasks import Task
from ragindex.parts.support.ask_llm import ask_for_passages
from ragindex.parts.support.records import TEXTS, find_record_ids, unit_columns
from ragindex.parts.text.preceding import Preceding, PrecedingTexts
from ragindex.parts.triples.triple_json import clean_names, well_formed
from ragindex.retrieval.hits import KEYWORD_FIELDS, text_search_schema

_PROMPTS = Path(__file__).parent / "prompts"
_TRIPLETS = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "string"}},
    "description": "each a list of exactly three texts: head, predicate, tail",
}


# ---------------------------------------------------------------- tasks


class RewrittenParagraph(BaseModel):
    """A paragraph whose sentences stand alone."""

    paragraph: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Entity(BaseModel):
    """A name, and what kind of thing it names."""

    name: str
    type: str


class EntityList(BaseModel):
    """The entities of a paragraph."""

    entities: list[Entity]


class Fact(BaseModel):
    """One proposition. Its triplets are looked at one by one: a malformed one does not spoil the others."""

    text: str
    triplets: Annotated[list[Any], WithJsonSchema(_TRIPLETS)]

    def named(self, listed: Sequence[str], which: Literal["listed", "all"]) -> tuple[tuple[str, ...], int]:
        """The entities among heads and tails, and how many triplets were malformed."""
        triplets, dropped = well_formed(reshape(self.triplets, list[tuple[str, str, str]]))
        sides = [side for one in triplets for side in (one.subject, one.object)]
        if which == "all":
            return clean_names(sides), dropped
        by_key = {_key(name): name for name in reversed(listed)}
        return clean_names([by_key[_key(side)] for side in sides if _key(side) in by_key]), dropped


class RuleFact(Fact):
    """A proposition of the rules, which name its entities and make no triplets."""

    entities: list[str]

    def named(self, listed: Sequence[str], which: Literal["listed", "all"]) -> tuple[tuple[str, ...], int]:
        """What the rules named."""
        return clean_names(self.entities), 0


class Facts(BaseModel):
    """The propositions of a paragraph, in order."""

    propositions: list[Fact]


def _key(name: str) -> str:
    return " ".join(name.casefold().split())


def _as_it_is(inputs: Mapping[str, Any]) -> RewrittenParagraph:
    """The rules that make propositions resolve pronouns themselves."""
    return RewrittenParagraph(paragraph=inputs["text"])


_extract = lru_cache(maxsize=256)(rules.extract)  # a batch of passages, for two tasks


def _entities_by_rules(inputs: Mapping[str, Any]) -> EntityList:
    found = _extract(inputs["title"], inputs["text"])
    return EntityList(entities=[Entity(name=name, type="name") for name in found.entities])


def _propositions_by_rules(inputs: Mapping[str, Any]) -> Facts:
    found = _extract(inputs["title"], inputs["text"]).propositions
    return Facts(propositions=[RuleFact(text=one.text, triplets=[], entities=list(one.entities)) for one in found])


REWRITE_PARAGRAPH: Task[RewrittenParagraph] = Task(
    name="rewrite",
    version=1,
    prompt=_PROMPTS / "rewrite.jinja",
    output=RewrittenParagraph,
    rule=_as_it_is,
    max_tokens=2048,
    read=lambda text: RewrittenParagraph(paragraph=text),
)
ENTITIES: Task[EntityList] = Task(
    name="entities",
    version=1,
    prompt=_PROMPTS / "entities.jinja",
    output=EntityList,
    rule=_entities_by_rules,
    max_tokens=2048,
)
PROPOSITIONS: Task[Facts] = Task(
    name="propositions",
    version=1,
    prompt=_PROMPTS / "propositions.jinja",
    output=Facts,
    rule=_propositions_by_rules,
    max_tokens=4096,
)


# ---------------------------------------------------------------- the part


class Propositions(Part[Collection]):
    """One record a proposition, made in three calls a passage: rewrite, entities, propositions (SiReRAG).

    The paragraph is rewritten with the one before it in its document as context. A passage's own revision does not
    show that the one before has changed; the part is made from `Preceding`, which does, so both are made again.
    `entities` of a proposition: those of the passage's list among the heads and tails of its triplets (listed), or all
    heads and tails (all; reading S1). Rules rewrite nothing; their propositions name their entities themselves.
    """

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"model", "prompts"})
    entities: Literal["listed", "all"] = Field(
        default="listed",
        description="Entities of a proposition: those of the passage's list that its triplets name, or all "
        "that they name (S1).",
    )

    def inputs(self) -> tuple[Part[Any], ...]:
        """The corpus, with the order of each document's passages."""
        return (Preceding(),)

    def tasks(self) -> tuple[Task[Any], ...]:
        """In the order they are asked."""
        return (REWRITE_PARAGRAPH, ENTITIES, PROPOSITIONS)

    def apply(self, change: Change, context: BuildContext) -> None:
        """Replace the propositions of the batch's passages; those that fail lose what they had."""
        records = context.collection("records", _schema(context.language))
        passages = {one["id"]: one for one in context.passages(list(change.upsert)).to_pylist()}
        rows = self._asked(passages, context)
        records.delete(find_record_ids(records, [*change.remove, *change.upsert]))
        if rows:
            records.upsert(_records(rows, passages))

    def finish(self, context: BuildContext) -> None:
        """Say what was dropped, and what the rules did."""
        if context.llm.id == OfflineRules.id:
            context.note("Propositions were made by rules, not by a language model.")
        records = context.collection("records", _schema(context.language))
        dropped = sum(sum(batch.column("dropped").to_pylist()) for batch in records.scan(("dropped",)))
        if dropped:
            context.note(f"{int(dropped):,} malformed triplets were dropped.")

    def open(self, context: ReadContext) -> Collection:
        """The collection."""
        return context.collection("records")

    def _asked(self, passages: Mapping[str, Mapping[str, Any]], context: BuildContext) -> list["Proposition"]:
        """The propositions of the passages that got all three answers."""
        preceding: PrecedingTexts = context.inputs[0]
        rows = [one for one in passages.values() if one["text"].strip()]
        before = preceding.of(rows)
        inputs = {
            one["id"]: {"title": one["title"], "text": one["text"], "previous": previous}
            for one, previous in zip(rows, before, strict=True)
        }
        rewritten = ask_for_passages(context, REWRITE_PARAGRAPH, inputs)
        texts = {id: {"title": passages[id]["title"], "text": one.paragraph} for id, one in rewritten.items()}
        listed = {
            id: clean_names([each.name for each in one.entities])
            for id, one in ask_for_passages(context, ENTITIES, texts).items()
        }
        found = ask_for_passages(
            context, PROPOSITIONS, {id: {**texts[id], "entities": one} for id, one in listed.items()}
        )
        return [row for id, facts in found.items() for row in self._propositions(id, facts, listed[id])]

    def _propositions(self, id: str, facts: Facts, listed: Sequence[str]) -> Iterable["Proposition"]:
        texts = [(encodable(fact.text.strip()), fact) for fact in facts.propositions]
        for position, (text, fact) in enumerate(pair for pair in texts if pair[0]):
            yield Proposition(id, position, text, *fact.named(listed, self.entities))


@dataclass(frozen=True, slots=True)
class Proposition:
    """One record: the `position`-th proposition of its passage; `dropped` of its triplets were malformed."""

    passage_id: str
    position: int
    text: str
    entities: tuple[str, ...]
    dropped: int


def _schema(language: str) -> Schema:
    return replace(
        text_search_schema(language), keywords=(*KEYWORD_FIELDS, "entities"), numbers=("position", "dropped")
    )


def _records(rows: Sequence[Proposition], passages: Mapping[str, Mapping[str, Any]]) -> pa.RecordBatch:
    ids = [f"{row.passage_id}#p{row.position:04d}" for row in rows]
    texts, owners = [row.text for row in rows], [passages[row.passage_id] for row in rows]
    columns = {
        **unit_columns("proposition", ids, texts, owners),
        "entities": pa.array([row.entities for row in rows], TEXTS),
        "position": pa.array([float(row.position) for row in rows], pa.float64()),
        "dropped": pa.array([float(row.dropped) for row in rows], pa.float64()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
