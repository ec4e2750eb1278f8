"""Propositions: sentences that each state one fact and stand alone, with the entities they are about."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
import regex
from pydantic import BaseModel, Field, StringConstraints, WithJsonSchema

from ragindex.canonical import encodable
from ragindex.interfaces import BuildContext, Change, Collection, Part, ReadContext, Schema, Uses
from ragindex.llm import rules
from ragindex.llm.coerce import reshape
from ragindex.llm.offline import OfflineRules
from ragindex.llm.tasks import Task
from ragindex.parts.support.ask_llm import ask_for_passages
from ragindex.parts.support.records import TEXTS, find_record_ids, split_by_size, unit_columns
from ragindex.parts.text.preceding import Preceding, PrecedingTexts
from ragindex.parts.triples.triple_json import clean_names, well_formed
from ragindex.retrieval.hits import KEYWORD_FIELDS, text_search_schema

_PROMPTS = Path(__file__).parent / "prompts"
_UNCHANGED = regex.compile(r"\W*unchanged\W*", regex.IGNORECASE)
_TRIPLETS = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3},
    "description": "each a list of exactly three texts: head, predicate, tail",
}


# ---------------------------------------------------------------- tasks


class RewrittenParagraph(BaseModel):
    """A paragraph in which every sentence can be understood alone, or `(unchanged)` where it is so already."""

    paragraph: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]

    def of(self, text: str) -> str:
        """Return the paragraph, given the `text` that was to be rewritten."""
        return text if _UNCHANGED.fullmatch(self.paragraph) else self.paragraph


class Entity(BaseModel):
    """A name, the type of what it names, and its other names in the paragraph."""

    name: str
    type: str
    aliases: list[str] = []

    def pairs(self) -> list[tuple[str, str]]:
        """Return the name with each of its aliases; a blank name has none."""
        return [(name, alias) for name in clean_names([self.name]) for alias in clean_names(self.aliases)]


class EntityList(BaseModel):
    """The entities of a paragraph."""

    entities: list[Entity]

    def named(self) -> "ListedNames":
        """Return the names, and by which of them each spelling goes; a name goes by itself, else by the first."""
        names = clean_names([one.name for one in self.entities])
        spellings = {_normalize_name(name): name for name in reversed(names)}
        for name, alias in (pair for one in self.entities for pair in one.pairs()):
            spellings.setdefault(_normalize_name(alias), name)
        return ListedNames(names, spellings)


@dataclass(frozen=True, slots=True)
class ListedNames:
    """The names of a passage's list, and the name by each normalized spelling of it, aliases included."""

    names: tuple[str, ...]
    spellings: Mapping[str, str]

    def find(self, name: str) -> str | None:
        """Return the listed name that a spelling goes by; None if it is not listed."""
        return self.spellings.get(_normalize_name(name))


class Fact(BaseModel):
    """One proposition. Its triplets are validated one by one, so a malformed one does not spoil the others."""

    text: str
    triplets: Annotated[list[Any], WithJsonSchema(_TRIPLETS)]

    def named(self, listed: ListedNames, which: Literal["listed", "all"]) -> tuple[tuple[str, ...], int]:
        """Return the entities among heads and tails, and the number of malformed triplets.

        With `which="listed"`, only entities that match a name in `listed` or an alias of it are returned, by that name.
        """
        triplets, dropped = well_formed(reshape(self.triplets, list[tuple[str, str, str]]))
        sides = [side for one in triplets for side in (one.subject, one.object)]
        if which == "all":
            return clean_names(sides), dropped
        return clean_names([name for side in sides if (name := listed.find(side)) is not None]), dropped


class RuleFact(Fact):
    """A proposition made by rules, which name its entities and make no triplets."""

    entities: list[str]

    def named(self, listed: ListedNames, which: Literal["listed", "all"]) -> tuple[tuple[str, ...], int]:
        """Return the entities that the rules named, and 0."""
        return clean_names(self.entities), 0


class Facts(BaseModel):
    """The propositions of a paragraph, in order."""

    propositions: list[Fact]


def _normalize_name(name: str) -> str:
    return " ".join(name.casefold().split())


def _keep_paragraph(inputs: Mapping[str, Any]) -> RewrittenParagraph:
    """Return the text unchanged: the rules for propositions resolve pronouns themselves."""
    return RewrittenParagraph(paragraph=inputs["text"])


_extract = lru_cache(maxsize=256)(rules.extract)  # two tasks extract from the same batch of passages


def _find_entities_by_rule(inputs: Mapping[str, Any]) -> EntityList:
    found = _extract(inputs["title"], inputs["text"])
    return EntityList(entities=[Entity(name=name, type="name") for name in found.entities])


def _make_propositions_by_rule(inputs: Mapping[str, Any]) -> Facts:
    found = _extract(inputs["title"], inputs["text"]).propositions
    return Facts(propositions=[RuleFact(text=one.text, triplets=[], entities=list(one.entities)) for one in found])


REWRITE_PARAGRAPH: Task[RewrittenParagraph] = Task(
    name="rewrite",
    version=2,
    prompt=_PROMPTS / "rewrite.jinja",
    output=RewrittenParagraph,
    rule=_keep_paragraph,
    max_tokens=2048,
    read=lambda text: RewrittenParagraph(paragraph=text),
)
ENTITIES: Task[EntityList] = Task(
    name="entities",
    version=2,
    prompt=_PROMPTS / "entities.jinja",
    output=EntityList,
    rule=_find_entities_by_rule,
    max_tokens=2048,
)
PROPOSITIONS: Task[Facts] = Task(
    name="propositions",
    version=1,
    prompt=_PROMPTS / "propositions.jinja",
    output=Facts,
    rule=_make_propositions_by_rule,
    max_tokens=4096,
)


# ---------------------------------------------------------------- the part


class Propositions(Part[Collection]):
    """One record per proposition, made in three LLM calls per passage: rewrite, entities, propositions (SiReRAG).

    The paragraph is rewritten with the preceding passage as context. A passage's own revision does not show
    that the preceding one has changed; the input `Preceding` does, so both passages are processed again.
    `entities` selects the entities of a proposition: with `listed`, the heads and tails of its triplets that
    are in the passage's list of entities, by their names or aliases; with `all`, all heads and tails (reading S1).
    The rules rewrite nothing, and name the entities of their propositions directly.
    """

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"model", "prompts"})
    entities: Literal["listed", "all"] = Field(
        default="listed",
        description="Entities of a proposition: those of the passage's list that its triplets name, or all "
        "that they name (S1).",
    )

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the part that orders the passages of each document."""
        return (Preceding(),)

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the tasks in the order of the calls."""
        return (REWRITE_PARAGRAPH, ENTITIES, PROPOSITIONS)

    def apply(self, change: Change, context: BuildContext) -> None:
        """Replace the propositions of the batch's passages; passages that fail lose the ones they had."""
        records = context.collection("records", _build_schema(context.language))
        passages = {one["id"]: one for one in context.passages(list(change.upsert)).to_pylist()}
        rows = self._asked(passages, context)
        records.delete(find_record_ids(records, [*change.remove, *change.upsert]))
        for start, stop in split_by_size([len(passages[row.passage_id]["metadata"]) for row in rows]):
            records.upsert(_build_records(rows[start:stop], passages))

    def finish(self, context: BuildContext) -> None:
        """Note how many triplets were dropped, and whether rules were used."""
        if context.llm.id == OfflineRules.id:
            context.note("Propositions were made by rules, not by a language model.")
        records = context.collection("records", _build_schema(context.language))
        dropped = sum(sum(batch.column("dropped").to_pylist()) for batch in records.scan(("dropped",)))
        if dropped:
            context.note(f"{int(dropped):,} malformed triplets were dropped.")

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of propositions."""
        return context.collection("records")

    def _asked(self, passages: Mapping[str, Mapping[str, Any]], context: BuildContext) -> list["Proposition"]:
        """Return the propositions of the passages for which all three calls succeeded."""
        preceding: PrecedingTexts = context.inputs[0]
        rows = [one for one in passages.values() if one["text"].strip()]
        before = preceding.of(rows)
        inputs = {
            one["id"]: {"title": one["title"], "text": one["text"], "previous": previous}
            for one, previous in zip(rows, before, strict=True)
        }
        rewritten = ask_for_passages(context, REWRITE_PARAGRAPH, inputs)
        texts = {
            id: {"title": passages[id]["title"], "text": one.of(passages[id]["text"])} for id, one in rewritten.items()
        }
        listed = {id: one.named() for id, one in ask_for_passages(context, ENTITIES, texts).items()}
        found = ask_for_passages(
            context, PROPOSITIONS, {id: {**texts[id], "entities": one.names} for id, one in listed.items()}
        )
        return [row for id, facts in found.items() for row in self._propositions(id, facts, listed[id])]

    def _propositions(self, id: str, facts: Facts, listed: ListedNames) -> Iterable["Proposition"]:
        texts = [(encodable(fact.text.strip()), fact) for fact in facts.propositions]
        for position, (text, fact) in enumerate(pair for pair in texts if pair[0]):
            yield Proposition(id, position, text, *fact.named(listed, self.entities))


@dataclass(frozen=True, slots=True)
class Proposition:
    """One record: the `position`-th proposition of its passage, with the number of `dropped` malformed triplets."""

    passage_id: str
    position: int
    text: str
    entities: tuple[str, ...]
    dropped: int


def _build_schema(language: str) -> Schema:
    return replace(
        text_search_schema(language), keywords=(*KEYWORD_FIELDS, "entities"), numbers=("position", "dropped")
    )


def _build_records(rows: Sequence[Proposition], passages: Mapping[str, Mapping[str, Any]]) -> pa.RecordBatch:
    ids = [f"{row.passage_id}#p{row.position:04d}" for row in rows]
    texts, owners = [row.text for row in rows], [passages[row.passage_id] for row in rows]
    columns = {
        **unit_columns("proposition", ids, texts, owners),
        "entities": pa.array([row.entities for row in rows], TEXTS),
        "position": pa.array([float(row.position) for row in rows], pa.float64()),
        "dropped": pa.array([float(row.dropped) for row in rows], pa.float64()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
