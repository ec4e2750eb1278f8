"""Aliases of entities, judged by an LLM: every pair of names that `same_as` finds in either way."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import pyarrow as pa
from pydantic import BaseModel, Field

from ragindex.interfaces import BuildContext, Collection, Part, ReadContext, SearchKind
from ragindex.llm.tasks import Task
from ragindex.parts.asking import AskingPart
from ragindex.parts.records import replace_records
from ragindex.plugins.registry import PartField, of_class
from ragindex_retrievers.griever.parts.same_as import RECORDS, SAME_AS_SCHEMA, SameAs

_BATCH = 2_000  # records written at once
_MAX_STATEMENTS = 3  # statements per name in the prompt
_LONGEST_NAME, _LONGEST_STATEMENT = 200, 300  # characters
_TRIPLE = ("subject", "object", "subject_key", "object_key", "passage_ids", "text")

NameRow: TypeAlias = Mapping[str, Any]


class Verdict(BaseModel):
    """Output of the task: whether two names stand for one thing."""

    same: bool


def _judge_by_rule(inputs: Mapping[str, Any]) -> Verdict:
    """Return the verdict of the rule: whether `of` found the pair (see JudgedSameAs)."""
    return Verdict(same=inputs["found"])


SAME_AS: Task[Verdict] = Task(
    name="same_as",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "same_as.jinja",
    output=Verdict,
    rule=_judge_by_rule,
    max_tokens=100,
)


class JudgedSameAs(AskingPart[Collection]):
    """Pairs of names that an LLM judges to be one entity (GRIEVER; reading V2). It is asked about each pair once.

    It judges the pairs of `of` and those that `of` would find with `by=embedding`; a pair found both ways holds
    in the passages that `of` gives. With each name the LLM sees a few triples of the passages where the pair
    holds, first those that name both. Offline, the rule accepts the pairs of `of` and no others. Records are
    those of `same_as`.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
    made_by_rules: ClassVar[str] = "Aliases were judged"
    of: Annotated[PartField, of_class(SameAs)] = Field(default=SameAs(), description="Pairs of names to judge.")

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return both kinds of pairs, and the triples that state something about the names."""
        return (self.of, self.of.model_copy(update={"by": "embedding"}), self.of.of.over)

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the LLM task, which runs once per pair."""
        return (SAME_AS,)

    def finish(self, context: BuildContext) -> None:
        """Ask about all pairs; answers that were paid for come from the call cache.

        A pair without a usable answer is counted and left out, and the next sync asks again.
        """
        same, near, triples = context.inputs
        pairs = {**_read_pairs(near, likely=False), **_read_pairs(same, likely=True)}
        judged = [pairs[id] for id in sorted(pairs)]
        statements = _read_statements(triples, judged)
        inputs = {pair["id"]: {"names": _describe_names(pair, statements), "found": pair["likely"]} for pair in judged}
        verdicts = self.ask(context, SAME_AS, inputs, "judged_same_as: pairs")
        joined = [pair for pair in judged if pair["id"] in verdicts and verdicts[pair["id"]].same]
        blocks = (joined[start : start + _BATCH] for start in range(0, len(joined), _BATCH))
        records = (pa.RecordBatch.from_pylist(block, RECORDS) for block in blocks)
        replace_records(context.collection("records", SAME_AS_SCHEMA), records)
        context.note(_describe_judgement(judged, joined), detail=True)
        if pairs:
            self.note_rules(context)

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of accepted pairs, with the records of `same_as`."""
        return context.collection("records")


def _read_pairs(records: Collection, *, likely: bool) -> dict[str, NameRow]:
    fields = [name for name in RECORDS.names if name != "id"]
    return {row["id"]: {**row, "likely": likely} for batch in records.scan(fields) for row in batch.to_pylist()}


def _describe_judgement(judged: Sequence[NameRow], joined: Sequence[NameRow]) -> str:
    likely, near = ([pair for pair in judged if pair["likely"] is is_likely] for is_likely in (True, False))
    count = sum(pair["likely"] for pair in joined)
    return (
        f"{count:,} of {len(likely):,} pairs of names that same_as found are taken for one, and "
        f"{len(joined) - count:,} of {len(near):,} whose vectors are near."
    )


# ---------------------------------------------------------------- statements in the prompt


class Statement(NamedTuple):
    """Triple seen from one of its entities: how that entity is `written` there, and the key of the `other` one."""

    id: str
    passage: str
    text: str
    written: str
    other: str


def _read_statements(triples: Collection, pairs: Sequence[NameRow]) -> Mapping[str, Sequence[Statement]]:
    """Return all triples of the entities in the pairs, by entity key."""
    alias_keys = {key for pair in pairs for key in pair["aliases"]}
    statements: dict[str, list[Statement]] = defaultdict(list)
    for row in (row for batch in triples.scan(_TRIPLE) for row in batch.to_pylist()):
        for side, far in (("subject", "object"), ("object", "subject")):
            (key,), (other,), (passage,) = row[f"{side}_key"], row[f"{far}_key"], row["passage_ids"]
            if key in alias_keys:
                statements[key].append(Statement(row["id"], passage, row["text"], row[side], other))
    return statements


def _describe_names(pair: NameRow, statements: Mapping[str, Sequence[Statement]]) -> list[dict[str, Any]]:
    """Return both names with their first statements where the pair holds; those that name both come first."""
    first, second = pair["aliases"]
    holds = {*pair["passage_ids"]}
    descriptions = []
    for key, other in ((first, second), (second, first)):
        ranked = sorted(
            (statement.other != other, statement) for statement in statements[key] if statement.passage in holds
        )
        texts = dict.fromkeys(
            _shorten_line(ranked_statement.text, _LONGEST_STATEMENT) for _, ranked_statement in ranked
        )
        name = _shorten_line(ranked[0][1].written, _LONGEST_NAME)
        descriptions.append({"name": name, "statements": list(texts)[:_MAX_STATEMENTS]})
    return descriptions


def _shorten_line(text: str, longest: int) -> str:
    """Put a text on one line, so that it cannot imitate another part of the prompt."""
    return " ".join(text.split())[:longest]
