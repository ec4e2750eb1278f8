"""Communities of the entity graph, and a report on each of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import graspologic_native
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel, Field, StringConstraints
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ragindex._util.canonical import digest
from ragindex.english import summarise
from ragindex.interfaces import BuildContext, Collection, Part, ReadContext, Schema, SearchKind, Uses
from ragindex.llm.answer_question import build_context
from ragindex.llm.tasks import Task
from ragindex.parts.asking import AskingPart
from ragindex.parts.records import DIGEST, TEXTS, Integers, replace_records
from ragindex.parts.triples.triple_json import from_json
from ragindex.parts.triples.triples import triple_text
from ragindex.plugins.registry import PartField, of_class
from ragindex_baselines.graphrag.entity_graph import EntityGraph, OpenEntityGraph

_BATCH = 2_000  # communities written per batch
_MEMBER_TOKENS = 500  # for the members' names in a report's prompt
_RULE_FINDINGS, _RULE_WORDS, _RULE_NAMES = 5, 60, 3


# ---------------------------------------------------------------- the task


_NonEmptyText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Report(BaseModel):
    """A report on a community."""

    title: _NonEmptyText
    summary: _NonEmptyText
    findings: list[str]

    def text(self) -> str:
        """Return title, summary, and one line per finding."""
        findings = [" ".join(finding.split()) for finding in self.findings]
        return "\n".join([self.title, self.summary, *(f"- {finding}" for finding in findings if finding)])


def _write_report_by_rule(inputs: Mapping[str, Any]) -> Report:
    """Make a report of the first members' names, the most informative sentences, and the first statements."""
    sentences = [f"{statement}." for statement in inputs["statements"]]
    title = ", ".join(inputs["members"][:_RULE_NAMES])
    summary = summarise(sentences, _RULE_WORDS, inputs["language"])
    return Report(title=title, summary=summary or title, findings=sentences[:_RULE_FINDINGS])


REPORT: Task[Report] = Task(
    name="community_report",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "report.jinja",
    output=Report,
    rule=_write_report_by_rule,
    max_tokens=1024,
)


# ---------------------------------------------------------------- the part


_REPORT_SCHEMA = Schema(stored=("title", "text", DIGEST), keywords=("entities", "passage_ids"))
_MEMBERSHIP_SCHEMA = Schema(stored=("community", DIGEST))


@dataclass(frozen=True, slots=True)
class Reports:
    """The collections that Communities opens.

    `reports`, by community id: `title`, `text`, `entities` (keys of the members, by number of relations), and
    `passage_ids` (all passages that the report may be based on). `memberships`, by entity key: the
    `community` of each entity that has one. A community whose report failed has no record in `reports`.
    """

    reports: Collection
    memberships: Collection


class Communities(AskingPart[Reports]):
    """Communities of entities by the Leiden algorithm, and an LLM's report on each of them (GraphRAG).

    Communities of more than `max_size` entities are split again, down to `level`. An entity belongs to the
    deepest community that contains it, so to at most one. With `largest_component`, entities outside the
    largest connected component belong to none. A report is made from the members' names and the statements
    about them, starting with those that join two members, up to `input_tokens` tokens (estimated). A community with
    fewer than `least_statements` has nothing to sum up: its report is made of them by rule, and no model is asked.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
    uses: ClassVar[Uses] = frozenset({"model", "prompts", "seed"})
    made_by_rules: ClassVar[str] = "Reports were made"
    of: Annotated[PartField, of_class(EntityGraph)] = Field(default=EntityGraph(), description="Graph of entities.")
    max_size: int = Field(default=10, ge=2, description="Entities of a community; larger ones are split.")
    level: int = Field(default=2, ge=0, description="Times a community is split at most.")
    largest_component: bool = Field(
        default=True, description="Only entities of the largest connected component belong to communities."
    )
    input_tokens: int = Field(
        default=4000, ge=100, description="Tokens that the LLM is shown for a report (estimated)."
    )
    least_statements: int = Field(
        default=3, ge=0, description="Statements from which the LLM is asked; smaller reports are made by rule."
    )

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the graph."""
        return (self.of,)

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the task of the reports."""
        return (REPORT,)

    def finish(self, context: BuildContext) -> None:
        """Find all communities and request their reports; known answers come from the LLM cache.

        A report that fails is reported to the context, and the next sync asks for it again.
        """
        entities, communities = self._find_communities(context.inputs[0], context.seed)
        inputs = {
            community.id: {**community.inputs(self.input_tokens), "language": context.language}
            for community in communities
        }
        for_llm = {id: each for id, each in inputs.items() if len(each["statements"]) >= self.least_statements}
        reports = {id: _write_report_by_rule(each) for id, each in inputs.items() if id not in for_llm}
        reports |= self.ask(context, REPORT, for_llm, "communities: reports")
        reported = [(community, reports[community.id]) for community in communities if community.id in reports]
        replace_records(context.collection("reports", _REPORT_SCHEMA), _build_report_records(reported))
        replace_records(context.collection("memberships", _MEMBERSHIP_SCHEMA), _build_membership_records(communities))
        members = sum(len(community.members) for community in communities)
        largest = max((len(community.members) for community in communities), default=0)
        context.note(
            f"{len(communities):,} communities of {members:,} of {entities:,} entities; the largest has {largest:,}. "
            f"{len(reported):,} have a report.",
            detail=True,
        )
        if reported:
            self.note_rules(context)

    def open(self, context: ReadContext) -> Reports:
        """Return the two collections."""
        return Reports(context.collection("reports"), context.collection("memberships"))

    def _find_communities(self, graph: OpenEntityGraph, seed: int) -> tuple[int, list["Community"]]:
        """Return the number of entities, and the communities."""
        entities = _read_rows(graph.entities, ("name", "text", "passage_ids", "degree"))
        relations = _read_rows(graph.relations, ("source", "target", "triples", "weight"))
        relations.sort(key=lambda row: (row["source"], row["target"]))
        places = {row["id"]: place for place, row in enumerate(entities)}
        ends = [(places[row["source"]], places[row["target"]]) for row in relations]
        communities = find_communities(
            np.array(ends, np.int64).reshape(-1, 2),
            np.array([row["weight"] for row in relations], np.float64),
            max_size=self.max_size,
            level=self.level,
            largest_component=self.largest_component,
            seed=seed,
        )
        return len(entities), _build_communities(communities, entities, relations, ends)


@dataclass(frozen=True, slots=True)
class Community:
    """Rows of entities, those with most relations first, and rows of the relations between them, likewise."""

    members: tuple[Mapping[str, Any], ...]
    relations: tuple[Mapping[str, Any], ...]

    @property
    def id(self) -> str:
        """Return a hash of the members, which is stable as long as they are."""
        return digest(sorted(row["id"] for row in self.members))

    @property
    def passage_ids(self) -> list[str]:
        """Return all passages that name a member, sorted."""
        return sorted({id for row in self.members for id in row["passage_ids"]})

    def inputs(self, tokens: int) -> dict[str, Any]:
        """Return the names and statements for the prompt, within the limit of tokens."""
        joining = (triple_text(triple) for row in self.relations for triple in from_json(row["triples"]))
        others = (line for row in self.members for line in row["text"].split("\n"))
        statements = dict.fromkeys(" ".join(text.split()) for text in (*joining, *others))
        names = [row["name"] for row in self.members]
        statement_texts = build_context((), [text for text in statements if text], tokens).notes
        return {"members": list(build_context((), names, _MEMBER_TOKENS).notes), "statements": list(statement_texts)}


def _build_communities(
    clusters: Sequence[Sequence[int]],
    entities: Sequence[Mapping[str, Any]],
    relations: Sequence[Mapping[str, Any]],
    ends: Sequence[tuple[int, int]],
) -> list[Community]:
    number_of = {place: number for number, places in enumerate(clusters) for place in places}
    inside: list[list[int]] = [[] for _ in clusters]
    for row, (low, high) in enumerate(ends):
        if number_of.get(low, -1) == number_of.get(high, -2):
            inside[number_of[low]].append(row)
    degrees = [row["degree"] for row in entities]
    communities = []
    for places, rows in zip(clusters, inside, strict=True):
        ranked = sorted(places, key=lambda place: (-degrees[place], place))
        rows.sort(key=lambda row: (-degrees[ends[row][0]] - degrees[ends[row][1]], row))
        communities.append(Community(tuple(entities[place] for place in ranked), tuple(relations[row] for row in rows)))
    return communities


def _read_rows(records: Collection, fields: Sequence[str]) -> list[dict[str, Any]]:
    rows = [row for batch in records.scan(fields) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row["id"]))


def _build_report_records(reported: Sequence[tuple[Community, Report]]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(reported), _BATCH):
        some = reported[start : start + _BATCH]
        columns = {
            "id": pa.array([community.id for community, _ in some], pa.string()),
            "title": pa.array([report.title for _, report in some], pa.string()),
            "text": pa.array([report.text() for _, report in some], pa.string()),
            "entities": pa.array([[row["id"] for row in community.members] for community, _ in some], TEXTS),
            "passage_ids": pa.array([community.passage_ids for community, _ in some], TEXTS),
        }
        yield pa.record_batch(columns)


def _build_membership_records(communities: Sequence[Community]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(communities), _BATCH):
        pairs = [
            (row["id"], community.id) for community in communities[start : start + _BATCH] for row in community.members
        ]
        columns = [pa.array([pair[side] for pair in pairs], pa.string()) for side in (0, 1)]
        yield pa.RecordBatch.from_arrays(columns, names=["id", "community"])


# ---------------------------------------------------------------- the Leiden algorithm


_SEED_LIMIT = 1 << 63


def find_communities(
    pairs: Integers, weights: npt.NDArray[np.float64], *, max_size: int, level: int, largest_component: bool, seed: int
) -> list[tuple[int, ...]]:
    """Return disjoint sets of nodes, each sorted, in order of their first nodes.

    `pairs` (n, 2) are the edges: sorted, without duplicates and self-loops. Communities of more than
    `max_size` nodes are split again, at most `level` times; one that the algorithm cannot split (a clique, a
    star) stays as it is. With `largest_component`, only nodes of the largest connected component are in a
    community (of equally large components, the one with the least node). Source: Traag, Waltman and van Eck
    2019, in graspologic's hierarchical form. The work of each split is linear in the edges; the same input
    and seed give the same result.
    """
    if largest_component and len(pairs):
        inside = _find_largest_component(pairs)
        pairs, weights = pairs[inside], weights[inside]
    if not len(pairs):
        return []
    edges = [(str(low), str(high), each) for (low, high), each in zip(pairs.tolist(), weights.tolist(), strict=True)]
    assignments = graspologic_native.hierarchical_leiden(edges, max_cluster_size=max_size, seed=seed % _SEED_LIMIT)
    deepest: dict[int, tuple[int, int]] = {}
    for assignment in assignments:
        if assignment.level <= level:
            node = int(assignment.node)
            deepest[node] = max(deepest.get(node, (-1, -1)), (assignment.level, assignment.cluster))
    members: dict[tuple[int, int], list[int]] = {}
    for node in sorted(deepest):
        members.setdefault(deepest[node], []).append(node)
    return [tuple(nodes) for nodes in members.values()]


def _find_largest_component(pairs: Integers) -> npt.NDArray[np.bool_]:
    nodes, places = np.unique(pairs, return_inverse=True)
    low, high = places.reshape(pairs.shape).T
    joined = coo_array((np.ones(len(pairs), np.int8), (low, high)), shape=(len(nodes), len(nodes)))
    _, component = connected_components(joined, directed=False)
    largest = np.bincount(component).argmax()  # components are numbered by their least node
    in_it: npt.NDArray[np.bool_] = component[low] == largest
    return in_it
