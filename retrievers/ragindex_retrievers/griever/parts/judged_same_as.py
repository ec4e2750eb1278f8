"""Aliases of entities, judged by a language model: every pair of names that same_as finds in one way or another."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import pyarrow as pa
from pydantic import BaseModel, Field

from ragindex.interfaces import BuildContext, Collection, Part, ReadContext, Uses
from ragindex.llm.offline import OfflineRules
from ragindex.llm.tasks import Failure, Task
from ragindex.parts.support import replace_all
from ragindex.plugins.registry import PartField, of_class
from ragindex.progress import progress_bar
from ragindex_retrievers.griever.parts.same_as import RECORDS, SAME_AS_SCHEMA, SameAs

_BATCH = 2_000  # records written at once
_SHOWN = 3  # statements of each name
_LONGEST_NAME, _LONGEST_STATEMENT = 200, 300  # characters
_TRIPLE = ("subject", "object", "subject_key", "object_key", "passage_ids", "text")

NameRow: TypeAlias = Mapping[str, Any]


class Verdict(BaseModel):
    """Whether two names stand for one thing."""

    same: bool


def _by_rule(inputs: Mapping[str, Any]) -> Verdict:
    """What was found says so, or not: see JudgedSameAs."""
    return Verdict(same=inputs["found"])


SAME_AS: Task[Verdict] = Task(
    name="same_as",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "same_as.jinja",
    output=Verdict,
    rule=_by_rule,
    max_tokens=100,
)


class JudgedSameAs(Part[Collection]):
    """Those pairs of names that a language model takes for one (GRIEVER; reading V2), each asked about once.

    It judges the pairs of `of`, and those that `of` would find by=embedding; a pair of both holds where `of` says. With
    each name it sees a few triples of the passages where the pair holds, first those that name both. By rule the pairs
    of `of` are one, and no others. Records are those of same_as.
    """

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"model", "prompts"})
    of: Annotated[PartField, of_class(SameAs)] = Field(default=SameAs(), description="Pairs of names to judge.")

    def inputs(self) -> tuple[Part[Any], ...]:
        """Both kinds of pairs, and the triples that the names stand in."""
        return (self.of, self.of.model_copy(update={"by": "embedding"}), self.of.of.over)

    def tasks(self) -> tuple[Task[Any], ...]:
        """One, for each pair."""
        return (SAME_AS,)

    def finish(self, context: BuildContext) -> None:
        """Ask about all pairs; answers that were paid for come from the call cache.

        A pair without a usable answer is counted and left out, and the next sync asks again.
        """
        found, near, triples = context.inputs
        pairs = {**_pairs(near, found=False), **_pairs(found, found=True)}
        judged = [pairs[id] for id in sorted(pairs)]
        joined = _joined(judged, _statements(triples, judged), context)
        replace_all.replace_records(context.collection("records", SAME_AS_SCHEMA), _records(joined))
        context.note(_said(judged, joined))
        if pairs and context.llm.id == OfflineRules.id:
            context.note("Aliases were judged by rules, not by a language model.")

    def open(self, context: ReadContext) -> Collection:
        """As same_as; all pairs of names that were taken for one."""
        return context.collection("records")


def _pairs(records: Collection, *, found: bool) -> dict[str, NameRow]:
    fields = [name for name in RECORDS.names if name != "id"]
    return {row["id"]: {**row, "found": found} for batch in records.scan(fields) for row in batch.to_pylist()}


def _joined(
    pairs: Sequence[NameRow], statements: Mapping[str, Sequence["Statement"]], context: BuildContext
) -> list[NameRow]:
    inputs = ({"names": _names(pair, statements), "found": pair["found"]} for pair in pairs)
    with progress_bar("judged_same_as: pairs", len(pairs)) as advance:
        answers = context.llm.map(SAME_AS, inputs, again=True, progress=advance)
    for pair, answer in zip(pairs, answers, strict=True):
        if isinstance(answer, Failure):
            context.failed(pair["id"], answer.reason)
    return [pair for pair, answer in zip(pairs, answers, strict=True) if isinstance(answer, Verdict) and answer.same]


def _records(pairs: Sequence[NameRow]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(pairs), _BATCH):
        yield pa.RecordBatch.from_pylist(pairs[start : start + _BATCH], RECORDS)


def _said(judged: Sequence[NameRow], joined: Sequence[NameRow]) -> str:
    likely, near = ([pair for pair in judged if pair["found"] is found] for found in (True, False))
    one = sum(pair["found"] for pair in joined)
    return (
        f"{one:,} of {len(likely):,} pairs of names that same_as found are taken for one, and "
        f"{len(joined) - one:,} of {len(near):,} whose vectors are near."
    )


# ---------------------------------------------------------------- what a name is shown with


class Statement(NamedTuple):
    """A triple as one of its entities has it: the entity as it is written there, and the key of the other one."""

    id: str
    passage: str
    text: str
    written: str
    other: str


def _statements(triples: Collection, pairs: Sequence[NameRow]) -> Mapping[str, Sequence[Statement]]:
    """By the keys of the pairs, all triples."""
    wanted = {key for pair in pairs for key in pair["aliases"]}
    found: dict[str, list[Statement]] = defaultdict(list)
    for row in (row for batch in triples.scan(_TRIPLE) for row in batch.to_pylist()):
        for side, far in (("subject", "object"), ("object", "subject")):
            (key,), (other,), (passage,) = row[f"{side}_key"], row[f"{far}_key"], row["passage_ids"]
            if key in wanted:
                found[key].append(Statement(row["id"], passage, row["text"], row[side], other))
    return found


def _names(pair: NameRow, statements: Mapping[str, Sequence[Statement]]) -> list[dict[str, Any]]:
    """The two names with their first statements where the pair holds, those that name both before others."""
    first, second = pair["aliases"]
    holds = {*pair["passage_ids"]}
    shown = []
    for key, other in ((first, second), (second, first)):
        held = sorted((one.other != other, one) for one in statements[key] if one.passage in holds)
        texts = dict.fromkeys(_line(one.text, _LONGEST_STATEMENT) for _, one in held)
        shown.append({"name": _line(held[0][1].written, _LONGEST_NAME), "statements": list(texts)[:_SHOWN]})
    return shown


def _line(text: str, longest: int) -> str:
    """A text of documents on one line, so that it cannot look like another part of the prompt."""
    return " ".join(text.split())[:longest]
