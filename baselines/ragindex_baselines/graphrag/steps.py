"""The steps of local search, as pure functions of the records that were looked up."""

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
from ragindex_baselines.graphrag.merge_triples import relation_id

GraphRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Nearby:
    """An entity near the question: its key, its passages (an Arrow list), and its strongest neighbours."""

    key: str
    passage_ids: pa.Array
    neighbours: tuple[str, ...]


def read_nearby(found: SearchResult) -> list[Nearby]:
    """Return the entities of a search for the fields `passage_ids` and `neighbours`, nearest first."""
    passages, neighbours = (found.records.column(name) for name in ("passage_ids", "neighbours"))
    return [Nearby(key, passages[row].values, tuple(neighbours[row].as_py())) for row, key in enumerate(found.ids)]


def rank_passages(entities: Sequence[Nearby], k: int) -> list[str]:
    """Return the first `k` distinct passages, entity by entity."""
    found: dict[str, None] = {}
    for entity in entities:
        ids = (id for part in _slice_ids(entity.passage_ids) for id in part)
        found.update(dict.fromkeys(islice((id for id in ids if id not in found), k - len(found))))
    return list(found)


def _slice_ids(ids: pa.Array, size: int = 100) -> Iterator[list[str]]:
    """Yield slices of a list of ids.

    An entity of every passage has as many ids, so no more are read than are wanted.
    """
    return (ids.slice(start, size).to_pylist() for start in range(0, len(ids), size))


def candidate_relations(entities: Sequence[Nearby], each: int) -> list[str]:
    """Return the ids of relations to look up: all pairs of these entities, and `each` relations of every entity.

    A pair need not have a relation.
    """
    keys = [entity.key for entity in entities]
    between = [relation_id(*pair) for pair in combinations(keys, 2)]
    others = [relation_id(entity.key, other) for entity in entities for other in entity.neighbours[:each]]
    return list(dict.fromkeys([*between, *others])) if each else []


def rank_relations(entities: Sequence[Nearby], relations: Iterable[GraphRow], limit: int) -> list[GraphRow]:
    """Return at most `limit` relations: those between two of the entities first, then those with outsiders.

    Relations with outsiders are sorted by the number of entities that the outsider is related to, then by
    weight.
    """
    keys = {entity.key for entity in entities}
    rows = list(relations)
    inside = [row for row in rows if {row["source"], row["target"]} <= keys]
    outside = [row for row in rows if not {row["source"], row["target"]} <= keys]
    shared = Counter(_find_outsider(row, keys) for row in outside)
    inside.sort(key=lambda row: (-row["weight"], row["id"]))
    outside.sort(key=lambda row: (-shared[_find_outsider(row, keys)], -row["weight"], row["id"]))
    return [*inside, *outside][:limit]


def _find_outsider(row: GraphRow, keys: Container[str]) -> str:
    return str(row["target"] if row["source"] in keys else row["source"])


def rank_communities(memberships: Iterable[GraphRow]) -> list[str]:
    """Return communities by the number of entities they contain; ties in the order of the nearest entity."""
    return [community for community, _ in Counter(str(row["community"]) for row in memberships).most_common()]


def filter_rows(rows: Iterable[GraphRow], passing: Container[str] | None) -> list[GraphRow]:
    """Return the rows with all passages in `passing`, so that no text that the filter excludes is passed on."""
    return [row for row in rows if passing is None or all(id in passing for id in row["passage_ids"])]


def collect_triples(relations: Iterable[GraphRow]) -> list[Triple]:
    """Return the triples that the relations were made from."""
    return [triple for row in relations for triple in from_json(row["triples"])]


def write_notes(
    reports: Sequence[str], triples: Sequence[Triple], report_tokens: int, triple_tokens: int
) -> tuple[str, ...]:
    """Return the reports, then one text with a triple per line, each group cut to its limit of tokens."""
    said = _pack_texts(reports, report_tokens)
    lines = _pack_texts([" ".join(triple_text(triple).split()) for triple in triples], triple_tokens)
    return (*said, "\n".join(lines)) if lines else said


def _pack_texts(texts: Sequence[str], tokens: int) -> tuple[str, ...]:
    return build_context((), texts, tokens).notes if tokens else ()
