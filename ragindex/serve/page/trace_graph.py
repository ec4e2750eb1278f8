"""A trace as a graph: which fact or link led from one thing to the next, and to the hits.

Facts and paths of the steps are lines between entities and passages. A passage of the trace is its hit, if it is one.
From an entity, a line without words goes to the hits that name it. Where no facts are between entities, lines go from
the lists that were fused to the hits, with the ranks that these have there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import regex

from ragindex.retrieval.trace import IF_STOPPED
from ragindex.types import Hit, Step, Triple

_MOST_FACTS, _MOST_HITS, _MOST_LISTS, _MOST_NAMED = 12, 8, 6, 2
_LONGEST_TEXT = 20_000  # characters of a hit in which names are looked for

NodeKind = Literal["list", "entity", "passage", "hit"]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A list, an entity, a passage, or a hit with its rank (0: no hit)."""

    label: str
    kind: NodeKind
    rank: int = 0


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A line from one node to another, by their keys."""

    source: str
    target: str
    label: str = ""


@dataclass(slots=True)
class TraceGraph:
    """Nodes by key, in the order in which the trace tells of them, and the lines between them."""

    nodes: dict[str, GraphNode] = field(default_factory=dict)
    edges: list[GraphEdge] = field(default_factory=list)

    def join(self, source: str, target: str, label: str = "") -> None:
        """Add a line, unless it is there or begins where it ends."""
        edge = GraphEdge(source, target, label)
        if source != target and edge not in self.edges:
            self.edges.append(edge)


def list_trace_facts(trace: Sequence[Step]) -> list[Triple]:
    """Return the facts of the paths and triples of a trace, each once, in order."""
    facts = [triple for step in trace for triple in (*(one for path in step.paths for one in path), *step.triples)]
    return list(dict.fromkeys(facts))


def make_trace_graph(trace: Sequence[Step], hits: Sequence[Hit], titles: Mapping[str, str]) -> TraceGraph | None:
    """Return the graph of a trace, or None if there is nothing to draw. `titles` are those of passages, by id."""
    graph = TraceGraph()
    facts = list_trace_facts(trace)
    _add_facts(graph, facts, hits, titles)
    if any(node.kind == "entity" for node in graph.nodes.values()):
        _add_names(graph, facts, hits)
    else:
        _add_lists(graph, trace, hits)
    return graph if graph.edges else None


def _add_facts(graph: TraceGraph, facts: Sequence[Triple], hits: Sequence[Hit], titles: Mapping[str, str]) -> None:
    places = {id: rank for rank, hit in reversed(list(enumerate(hits, 1))) for id in (hit.id, *hit.passage_ids)}

    def add(name: str) -> str:
        if name in places:
            return _add_hit(graph, hits, places[name])
        if name in titles:
            graph.nodes.setdefault(f"passage {name}", GraphNode(titles[name] or name, "passage"))
            return f"passage {name}"
        graph.nodes.setdefault(f"entity {name.casefold()}", GraphNode(name, "entity"))
        return f"entity {name.casefold()}"

    for fact in facts:
        if fact.object in places or fact.object not in titles:  # a passage that is no hit leads nowhere
            graph.join(add(fact.subject), add(fact.object), fact.predicate)
        if len(graph.edges) == _MOST_FACTS:
            return


def _add_hit(graph: TraceGraph, hits: Sequence[Hit], rank: int) -> str:
    hit = hits[rank - 1]
    graph.nodes.setdefault(f"hit {rank}", GraphNode(hit.title or hit.id, "hit", rank))
    return f"hit {rank}"


def _add_names(graph: TraceGraph, facts: Sequence[Triple], hits: Sequence[Hit]) -> None:
    """Add lines from entities to the hits that name them: from the ends of facts that a hit names whole, if it does."""
    for rank, hit in enumerate(hits[:_MOST_HITS], start=1):
        text = f"{hit.title}\n{hit.text[:_LONGEST_TEXT]}".casefold()
        entities = {key.partition(" ")[2]: key for key, node in graph.nodes.items() if node.kind == "entity"}
        named = {name for name in entities if _names(text, name)}
        whole = [fact.object.casefold() for fact in facts if {fact.subject.casefold(), fact.object.casefold()} <= named]
        for name in list(dict.fromkeys(whole or sorted(named, key=list(entities).index)))[:_MOST_NAMED]:
            graph.join(entities[name], _add_hit(graph, hits, rank))


def _names(text: str, name: str) -> bool:
    return bool(name.strip()) and regex.search(rf"(?<!\w){regex.escape(name)}(?!\w)", text) is not None


def _add_lists(graph: TraceGraph, trace: Sequence[Step], hits: Sequence[Hit]) -> None:
    for key, name, ids in _list_lists(trace):
        ranks = {id: rank for rank, id in reversed(list(enumerate(ids, 1)))}
        for rank, hit in enumerate(hits[:_MOST_HITS], start=1):
            found = min((ranks[id] for id in (hit.id, *hit.passage_ids) if id in ranks), default=0)
            if found:
                graph.nodes.setdefault(key, GraphNode(name, "list"))
                graph.join(key, _add_hit(graph, hits, rank), str(found))


def _list_lists(trace: Sequence[Step]) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield key, name and ids of the first lists of a trace; none if there is only one, which is the ranking itself."""
    lists = [step for step in trace if step.ids and not step.paths and step.index != IF_STOPPED][:_MOST_LISTS]
    if len(lists) < 2:
        return
    several = lists[-1].iteration > lists[0].iteration
    for number, step in enumerate(lists):
        yield f"list {number}", f"{step.index}, round {step.iteration}" if several else step.index, step.ids
