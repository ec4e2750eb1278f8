"""Propositions: sentences that each state one fact and stand alone, with the entities they are about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
import regex
from pydantic import BaseModel, Field, StringConstraints, WithJsonSchema

from ragindex._util.canonical import encodable
from ragindex.english import extract
from ragindex.interfaces import BuildContext, Part, Schema, SearchKind
from ragindex.llm.tasks import Task
from ragindex.parts.asking import PassageAnswers, PassageRow
from ragindex.parts.records import TEXTS, unit_columns
from ragindex.parts.text.preceding import Preceding, PrecedingTexts
from ragindex.parts.triples.triple_json import clean_names, read_triples
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
        names = clean_names([entity.name for entity in self.entities])
        spellings = {_normalize_name(name): name for name in reversed(names)}
        for name, alias in (pair for entity in self.entities for pair in entity.pairs()):
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
        triplets, dropped = read_triples(self.triplets)
        sides = [side for triplet in triplets for side in (triplet.subject, triplet.object)]
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


_extract = lru_cache(maxsize=256)(extract)  # two tasks extract from the same batch of passages


def _find_entities_by_rule(inputs: Mapping[str, Any]) -> EntityList:
    extracted = _extract(inputs["title"], inputs["text"])
    return EntityList(entities=[Entity(name=name, type="name") for name in extracted.entities])


def _make_propositions_by_rule(inputs: Mapping[str, Any]) -> Facts:
    propositions = _extract(inputs["title"], inputs["text"]).propositions
    return Facts(
        propositions=[
            RuleFact(text=proposition.text, triplets=[], entities=list(proposition.entities))
            for proposition in propositions
        ]
    )


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


class Propositions(PassageAnswers):
    """One record per proposition, made in three LLM calls per passage: rewrite, entities, propositions (SiReRAG).

    The paragraph is rewritten with the preceding passage as context. A passage's own revision does not show
    that the preceding one has changed; the input `Preceding` does, so both passages are processed again.
    `entities` selects the entities of a proposition: with `listed`, the heads and tails of its triplets that
    are in the passage's list of entities, by their names or aliases; with `all`, all heads and tails (reading S1).
    The rules rewrite nothing, and name the entities of their propositions directly.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset({"text", "vectors"})
    made_by_rules: ClassVar[str] = "Propositions were made"
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

    def record_schema(self, context: BuildContext) -> Schema:
        """Return the schema of records that are searched by text, with `entities`, `position` and `dropped`."""
        schema = text_search_schema(context.language)
        return replace(schema, keywords=(*KEYWORD_FIELDS, "entities"), numbers=("position", "dropped"))

    def make_records(self, passages: Sequence[PassageRow], context: BuildContext) -> pa.RecordBatch | None:
        """Ask for the propositions of the passages with text; all three calls must succeed."""
        preceding: PrecedingTexts = context.inputs[0]
        rows = {row["id"]: row for row in passages if row["text"].strip()}
        rewritten = self.ask(
            context,
            REWRITE_PARAGRAPH,
            {
                id: {"title": row["title"], "text": row["text"], "previous": previous}
                for (id, row), previous in zip(rows.items(), preceding.of(list(rows.values())), strict=True)
            },
        )
        texts = {
            id: {"title": rows[id]["title"], "text": rewriting.of(rows[id]["text"])}
            for id, rewriting in rewritten.items()
        }
        listed = {id: answer.named() for id, answer in self.ask(context, ENTITIES, texts).items()}
        answers = self.ask(
            context, PROPOSITIONS, {id: {**texts[id], "entities": names.names} for id, names in listed.items()}
        )
        facts = [
            (id, position, encodable(fact.text.strip()), *fact.named(listed[id], self.entities))
            for id, answer in answers.items()
            for position, fact in enumerate(fact for fact in answer.propositions if encodable(fact.text.strip()))
        ]
        if not facts:
            return None
        ids, positions, statements, entities, dropped = zip(*facts, strict=True)
        record_ids = [f"{id}#p{position:04d}" for id, position in zip(ids, positions, strict=True)]
        return pa.record_batch(
            {
                **unit_columns("proposition", record_ids, statements, [rows[id] for id in ids]),
                "entities": pa.array(entities, TEXTS),
                "position": pa.array(map(float, positions), pa.float64()),
                "dropped": pa.array(map(float, dropped), pa.float64()),
            }
        )

    def finish(self, context: BuildContext) -> None:
        """Note how many triplets were dropped, and whether rules were used."""
        super().finish(context)
        records = context.collection("records", self.record_schema(context))
        dropped = sum(sum(batch.column("dropped").to_pylist()) for batch in records.scan(("dropped",)))
        if dropped:
            context.note(f"{int(dropped):,} malformed triplets were dropped.")
