"""A trace as a graph: which fact or link led from one thing to the next and to the hits; and its drawing in columns.

Facts and paths of the steps are lines between entities and passages. A passage of the trace is its hit, if it is one.
From an entity, a line without words goes to the hits that name it. Where no facts are between entities, lines go from
the lists that were fused to the hits, with the ranks that these have there.

A node stands in the column after the one that first led to it. Nodes are ordered by what leads to them, so that few
lines cross. Words that would cover others are left out of the drawing; they are the titles of their lines.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from textwrap import wrap
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
    facts = [triple for step in trace for triple in (*(fact for path in step.paths for fact in path), *step.triples)]
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
        entity_names = {name for name in entities if _names(text, name)}
        between = [
            fact.object.casefold()
            for fact in facts
            if {fact.subject.casefold(), fact.object.casefold()} <= entity_names
        ]
        for name in list(dict.fromkeys(between or sorted(entity_names, key=list(entities).index)))[:_MOST_NAMED]:
            graph.join(entities[name], _add_hit(graph, hits, rank))


def _names(text: str, name: str) -> bool:
    return bool(name.strip()) and regex.search(rf"(?<!\w){regex.escape(name)}(?!\w)", text) is not None


def _add_lists(graph: TraceGraph, trace: Sequence[Step], hits: Sequence[Hit]) -> None:
    for key, name, ids in _list_lists(trace):
        ranks = {id: rank for rank, id in reversed(list(enumerate(ids, 1)))}
        for rank, hit in enumerate(hits[:_MOST_HITS], start=1):
            best_rank = min((ranks[id] for id in (hit.id, *hit.passage_ids) if id in ranks), default=0)
            if best_rank:
                graph.nodes.setdefault(key, GraphNode(name, "list"))
                graph.join(key, _add_hit(graph, hits, rank), str(best_rank))


def _list_lists(trace: Sequence[Step]) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield key, name and ids of the first lists of a trace; none if there is only one, which is the ranking itself."""
    lists = [step for step in trace if step.ids and not step.paths and step.index != IF_STOPPED][:_MOST_LISTS]
    if len(lists) < 2:
        return
    several = lists[-1].iteration > lists[0].iteration
    for number, step in enumerate(lists):
        yield f"list {number}", f"{step.index}, round {step.iteration}" if several else step.index, step.ids


NODE_WIDTH, GAP, PITCH, MARGIN = 176, 124, 46, 4
_LINE_LETTERS, _LABEL_LETTERS = 22, 19
_LETTER_WIDTH, _LABEL_HEIGHT = 6.2, 13.0
_MOST_COLUMNS = 4
_PLACES_ON_LINE, _PLACES_OF_RANKS = (0.5, 0.38, 0.62, 0.27, 0.73), (0.8, 0.7, 0.86, 0.6)


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A box with one or two lines of text; `y` is its middle."""

    x: float
    y: float
    height: float
    lines: tuple[str, ...]
    title: str
    kind: str
    rank: int


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """A curve as SVG path data, with its arrow head, and its words where they do not cover others ("" if they do)."""

    path: str
    head: str
    title: str
    label: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """A drawing in pixels."""

    width: float
    height: float
    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]


def draw_graph(graph: TraceGraph) -> GraphDrawing:
    """Place a graph in columns."""
    columns = _order_columns(graph, _choose_columns(graph))
    rows = max(map(len, columns))
    nodes = {
        key: _draw_node(graph.nodes[key], column, MARGIN + PITCH * ((rows - len(keys)) / 2 + row + 0.5))
        for column, keys in enumerate(columns)
        for row, key in enumerate(keys)
    }
    width = len(columns) * NODE_WIDTH + (len(columns) - 1) * GAP + 2 * MARGIN
    turns = any(nodes[edge.target].x <= nodes[edge.source].x for edge in graph.edges)
    return GraphDrawing(
        width + (GAP / 2 if turns else 0),
        rows * PITCH + 2 * MARGIN,
        tuple(nodes.values()),
        tuple(_draw_edges(graph.edges, nodes)),
    )


def _choose_columns(graph: TraceGraph) -> dict[str, int]:
    """Return the column of each node. Hits stand last, unless passages lead to one another: then lists stand first."""
    columns: dict[str, int] = {}
    led_to = {edge.target for edge in graph.edges if graph.nodes[edge.source].kind != "list"}
    from_lists = [edge for edge in graph.edges if graph.nodes[edge.source].kind == "list" and edge.target not in led_to]
    for edge in [*from_lists, *graph.edges]:
        first = columns.setdefault(edge.source, 0)
        columns.setdefault(edge.target, min(first + 1, _MOST_COLUMNS - 1))
    if any(node.kind == "entity" for node in graph.nodes.values()):
        inner = [column for key, column in columns.items() if graph.nodes[key].kind != "hit"]
        last = min(max(inner), _MOST_COLUMNS - 2) + 1
        columns = {
            key: last if graph.nodes[key].kind == "hit" else min(column, last - 1) for key, column in columns.items()
        }
    return columns


def _order_columns(graph: TraceGraph, columns: Mapping[str, int]) -> list[list[str]]:
    """Return the keys of each column, ordered by the mean place of the nodes that lead to them."""
    ordered: list[list[str]] = []
    places: dict[str, float] = {}
    for column in sorted(set(columns.values())):
        order = {key: _mean_place(graph.edges, key, places) for key in graph.nodes if columns.get(key) == column}
        ordered.append(sorted(order, key=lambda key: graph.nodes[key].rank))
        ordered[-1].sort(key=order.__getitem__)
        places |= {key: (row + 0.5) / len(order) for row, key in enumerate(ordered[-1])}
    return ordered


def _mean_place(edges: Sequence[GraphEdge], key: str, places: Mapping[str, float]) -> float:
    return fmean([places[edge.source] for edge in edges if edge.target == key and edge.source in places] or [0.5])


def _draw_node(node: GraphNode, column: int, y: float) -> DrawnNode:
    lines = _break_label(node.label, _LINE_LETTERS - (3 if node.rank else 0))
    return DrawnNode(
        MARGIN + column * (NODE_WIDTH + GAP), y, 14 + 14 * len(lines), lines, node.label[:500], node.kind, node.rank
    )


def _break_label(label: str, letters: int) -> tuple[str, ...]:
    """Return a label in at most two lines. Wide letters count twice."""
    wide = any(unicodedata.east_asian_width(letter) in "WF" for letter in label)
    return tuple(wrap(label[:200], letters // 2 if wide else letters, max_lines=2, placeholder="…")) or ("—",)


def _draw_edges(edges: Sequence[GraphEdge], nodes: Mapping[str, DrawnNode]) -> Iterator[DrawnEdge]:
    used_boxes: list[tuple[float, float, float, float]] = [
        (node.x, node.y - node.height / 2, node.x + NODE_WIDTH, node.y + node.height / 2) for node in nodes.values()
    ]
    for edge in edges:
        source, target = nodes[edge.source], nodes[edge.target]
        points, points_right = _choose_curve(source, target)
        places = _PLACES_OF_RANKS if source.kind == "list" else _PLACES_ON_LINE
        x, y, label = _place_label(edge.label, points, places, used_boxes)
        (start, *inner), (tip_x, tip_y) = points[:3], points[3]
        path = f"M{_write(start)}C{_write(inner[0])} {_write(inner[1])} {_write((tip_x, tip_y))}"
        back = tip_x - 7 if points_right else tip_x + 7
        head = f"M{_write((tip_x, tip_y))}L{_write((back, tip_y - 3.5))} {_write((back, tip_y + 3.5))}Z"
        title = " ".join(filter(None, (source.title, f"–{edge.label}→" if edge.label else "→", target.title)))
        yield DrawnEdge(path, head, title[:1000], label, x, y)


def _choose_curve(source: DrawnNode, target: DrawnNode) -> tuple[list[tuple[float, float]], bool]:
    """Return the four points of a curve, and whether it ends to the right; if not, it turns round."""
    start, middle = (source.x + NODE_WIDTH, source.y), (source.x + NODE_WIDTH + target.x) / 2
    if target.x > source.x:
        return [start, (middle, source.y), (middle, target.y), (target.x, target.y)], True
    end = (target.x + NODE_WIDTH, target.y)
    out = max(start[0], end[0]) + GAP / 2
    return [start, (out, source.y), (out, target.y), end], False


def _place_label(
    label: str,
    points: Sequence[tuple[float, float]],
    places: Sequence[float],
    used_boxes: list[tuple[float, float, float, float]],
) -> tuple[float, float, str]:
    """Return a place on a curve at which a label covers nothing, and the label, "" if there is no such place."""
    text = label if len(label) <= _LABEL_LETTERS else f"{label[: _LABEL_LETTERS - 1]}…"
    half = len(text) * _LETTER_WIDTH / 2 + 3
    for along in places if text else ():
        x, y = _find_point(points, along)
        box = (x - half, y - _LABEL_HEIGHT / 2, x + half, y + _LABEL_HEIGHT / 2)
        if not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in used_boxes):
            used_boxes.append(box)
            return x, y, text
    return 0.0, 0.0, ""


def _find_point(points: Sequence[tuple[float, float]], along: float) -> tuple[float, float]:
    """Return the point of a cubic Bézier curve (de Casteljau's construction)."""
    while len(points) > 1:
        points = [(a[0] + (b[0] - a[0]) * along, a[1] + (b[1] - a[1]) * along) for a, b in pairwise(points)]
    return points[0]


def _write(point: tuple[float, float]) -> str:
    return f"{point[0]:.1f},{point[1]:.1f}"
