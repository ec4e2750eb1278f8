"""Graphs of traces, worked out by hand."""

from ragindex.retrieval.trace import IF_STOPPED
from ragindex.serve.page.trace_graph import (
    GAP,
    NODE_WIDTH,
    GraphEdge,
    GraphNode,
    TraceGraph,
    draw_graph,
    make_trace_graph,
)
from ragindex.types import Hit, Step, Triple


def hit(id: str, title: str, text: str) -> Hit:
    return Hit(f"{id}#0", "passage", (f"{id}#0",), (id,), title, text, 1.0, "made")


ADA, TOWN, OTTER = (
    hit("ada", "Ada", "Ada Lovelace was born in London."),
    hit("town", "London", "London lies on the Thames."),
    hit("otter", "Otter", "Otters swim in the Londoner Bach."),
)


def test_facts_lead_to_the_hits_that_name_them() -> None:
    """A hit that names both ends of a fact is led to from its object; names are whole words."""
    facts = (Triple("Ada Lovelace", "born in", "London"), Triple("London", "lies on", "Thames"))
    graph = make_trace_graph([Step(1, "triples", "q", triples=facts), Step(1, "passages", "q")], [ADA, TOWN, OTTER], {})
    assert graph is not None
    assert graph.nodes == {
        "entity ada lovelace": GraphNode("Ada Lovelace", "entity"),
        "entity london": GraphNode("London", "entity"),
        "entity thames": GraphNode("Thames", "entity"),
        "hit 1": GraphNode("Ada", "hit", 1),
        "hit 2": GraphNode("London", "hit", 2),
    }
    assert graph.edges == [
        GraphEdge("entity ada lovelace", "entity london", "born in"),
        GraphEdge("entity london", "entity thames", "lies on"),
        GraphEdge("entity london", "hit 1"),
        GraphEdge("entity thames", "hit 2"),
    ]
    columns = {node.title: (node.x - 4) / (NODE_WIDTH + GAP) for node in draw_graph(graph).nodes if node.kind != "hit"}
    assert columns == {"Ada Lovelace": 0, "London": 1, "Thames": 2}
    assert {(node.rank, (node.x - 4) / (NODE_WIDTH + GAP)) for node in draw_graph(graph).nodes if node.rank} == {
        (1, 3),
        (2, 3),
    }


def test_links_lead_from_passage_to_hit_and_lists_come_first() -> None:
    steps = [
        Step(1, "text", "q", ("town#0", "far#0")),
        Step(1, "vectors", "q", ("far#0", "town#0")),
        Step(
            1,
            "links",
            "far#0, town#0",
            ("ada#0",),
            paths=((Triple("far#0", "london", "ada#0"),), (Triple("town#0", "x", "gone#0"),)),
        ),
    ]
    graph = make_trace_graph(steps, [TOWN, ADA], {"far#0": "Far away", "gone#0": "No hit"})
    assert graph is not None
    assert graph.nodes == {
        "passage far#0": GraphNode("Far away", "passage"),
        "hit 2": GraphNode("Ada", "hit", 2),
        "list 0": GraphNode("text", "list"),
        "list 1": GraphNode("vectors", "list"),
        "hit 1": GraphNode("London", "hit", 1),
    }
    assert graph.edges == [
        GraphEdge("passage far#0", "hit 2", "london"),
        GraphEdge("list 0", "hit 1", "1"),
        GraphEdge("list 1", "hit 1", "2"),
    ]
    assert [node.x for node in draw_graph(graph).nodes if node.title == "vectors"] == [4]


def test_one_list_is_the_ranking_itself_and_not_drawn() -> None:
    steps = [Step(1, "text", "q", ("town#0",)), Step(1, IF_STOPPED, "q", ("town#0",))]
    assert make_trace_graph(steps, [TOWN], {}) is None
    assert make_trace_graph([], [], {}) is None


def test_rounds_are_told_apart() -> None:
    rounds = [Step(1, "base", "q", ("town#0",)), Step(2, "base", "r", ("ada#0",))]
    graph = make_trace_graph(rounds, [ADA, TOWN], {})
    assert graph is not None
    assert [node.label for node in graph.nodes.values() if node.kind == "list"] == ["base, round 1", "base, round 2"]


def test_a_large_hostile_trace_stays_small() -> None:
    loops = tuple(Triple(f"{n}" * 3000, "p" * 3000, f"{n + 1}" * 3000) for n in range(300))
    knot = tuple(Triple(a, "to", b) for a in "abc" for b in "abc")
    for facts in (loops, knot):
        graph = make_trace_graph([Step(1, "triples", "q", triples=facts)], [ADA] * 100, {})
        assert graph is not None
        drawing = draw_graph(graph)
        assert len(drawing.edges) <= 12 + 8 * 2
        assert drawing.width <= 4 * NODE_WIDTH + 3.5 * GAP + 8
        assert max(len(line) for node in drawing.nodes for line in node.lines) <= 22
        assert max(len(edge.title) for edge in drawing.edges) <= 1000


def test_words_of_lines_cover_neither_boxes_nor_one_another() -> None:
    graph = TraceGraph()
    for number in range(8):
        for key in ("all", f"leaf {number}"):
            graph.nodes[key] = GraphNode(key, "entity")
        graph.join("all", f"leaf {number}", f"relation {number}")
    drawing = draw_graph(graph)
    labels = [(edge.x, edge.y, len(edge.label) * 6.2) for edge in drawing.edges if edge.label]
    assert len(labels) >= 6
    for place, (x, y, width) in enumerate(labels):
        for other_x, other_y, other in labels[place + 1 :]:
            assert abs(x - other_x) >= (width + other) / 2 or abs(y - other_y) >= 13
        assert all(x + width / 2 <= node.x or x - width / 2 >= node.x + NODE_WIDTH for node in drawing.nodes)
