"""The steps of local search, as functions of what was looked up."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import pyarrow as pa

from ragindex.interfaces import SearchResult
from ragindex.llm.answer_question import build_context
from ragindex.parts.triples.triple_json import from_json
from ragindex.parts.triples.triples import triple_text
from ragindex.types import Triple
from ragindex_baselines.graphrag.parts.merge_triples import relation_id

GraphRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Nearby:
    """An entity near the question: its key, the passages that name it (an Arrow list), its strongest neighbours."""

    key: str
    passage_ids: pa.Array
    neighbours: tuple[str, ...]


def read_nearby(found: SearchResult) -> list[Nearby]:
    """The entities of a search that was asked for `passage_ids` and `neighbours`, nearest first."""
    passages, neighbours = (found.records.column(name) for name in ("passage_ids", "neighbours"))
    return [Nearby(key, passages[row].values, tuple(neighbours[row].as_py())) for row, key in enumerate(found.ids)]


def rank_passages(entities: Sequence[Nearby], k: int, passing: Container[str] | None) -> list[str]:
    """The first `k` passages, entity by entity, each once; of those in `passing`, where a filter says so."""
    found: dict[str, None] = {}
    for entity in entities:
        ids = (id for part in _slices(entity.passage_ids) for id in part if passing is None or id in passing)
        found.update(dict.fromkeys(islice((id for id in ids if id not in found), k - len(found))))
    return list(found)


def _slices(ids: pa.Array, size: int = 100) -> Iterator[list[str]]:
    """An entity of every passage has as many: no more of them are read than are wanted."""
    return (ids.slice(start, size).to_pylist() for start in range(0, len(ids), size))


def candidate_relations(entities: Sequence[Nearby], each: int) -> list[str]:
    """The ids of all pairs of these entities, whether there is such a relation or not, and of `each` of their own."""
    keys = [entity.key for entity in entities]
    between = [relation_id(*pair) for pair in combinations(keys, 2)]
    others = [relation_id(entity.key, other) for entity in entities for other in entity.neighbours[:each]]
    return list(dict.fromkeys([*between, *others])) if each else []


def rank_relations(entities: Sequence[Nearby], relations: Iterable[GraphRow], limit: int) -> list[GraphRow]:
    """At most `limit` relations: those between two of the entities first, then those with shared outsiders.

    An outsider is the better the more of the entities it has relations with; then the heavier relation comes first.
    """
    keys = {entity.key for entity in entities}
    rows = list(relations)
    inside = [row for row in rows if {row["source"], row["target"]} <= keys]
    outside = [row for row in rows if not {row["source"], row["target"]} <= keys]
    shared = Counter(_outsider(row, keys) for row in outside)
    inside.sort(key=lambda row: (-row["weight"], row["id"]))
    outside.sort(key=lambda row: (-shared[_outsider(row, keys)], -row["weight"], row["id"]))
    return [*inside, *outside][:limit]


def _outsider(row: GraphRow, keys: Container[str]) -> str:
    return str(row["target"] if row["source"] in keys else row["source"])


def rank_communities(memberships: Iterable[GraphRow]) -> list[str]:
    """Communities by how many of the entities they have; of equal ones that of the nearest entity first."""
    return [community for community, _ in Counter(str(row["community"]) for row in memberships).most_common()]


def filter_rows(rows: Iterable[GraphRow], passing: Container[str] | None) -> list[GraphRow]:
    """Rows all of whose passages are in `passing`: no text that a filter keeps out is handed on."""
    return [row for row in rows if passing is None or all(id in passing for id in row["passage_ids"])]


def collect_triples(relations: Iterable[GraphRow]) -> list[Triple]:
    """The triples that the relations were made from."""
    return [triple for row in relations for triple in from_json(row["triples"])]


def write_notes(
    reports: Sequence[str], triples: Sequence[Triple], report_tokens: int, triple_tokens: int
) -> tuple[str, ...]:
    """Reports, then one text with a triple a line; each of at most so many tokens, the last of them cut."""
    said = _within(reports, report_tokens)
    lines = _within([" ".join(triple_text(triple).split()) for triple in triples], triple_tokens)
    return (*said, "\n".join(lines)) if lines else said


def _within(texts: Sequence[str], tokens: int) -> tuple[str, ...]:
    return build_context((), texts, tokens).notes if tokens else ()
