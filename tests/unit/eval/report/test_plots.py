import math
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex_eval.report.plots import (
    Axis,
    Curve,
    Dot,
    DotGroup,
    Figure,
    Point,
    draw_curves,
    draw_dots,
    draw_scatter,
    svg,
)
from ragindex_eval.report.plots.axes import at_values, scale
from ragindex_eval.report.plots.charts import apart

PERCENT = Axis("R@5, percent", low=0.0, high=100.0)
MILLISECONDS = Axis("milliseconds", log=True)
K = Axis("k")
UGLY = "</text></svg><script>document.title='x'</script>\" onload=\"x\" javascript:alert(1) ' &amp; "
SVG = "{http://www.w3.org/2000/svg}"


def parsed(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)


def texts(drawing: str, kind: str = "label") -> list[str]:
    """The texts of a kind, without what is shown on pointing at them."""
    elements = [
        element for element in parsed(drawing).iter(f"{SVG}text") if kind in (element.get("class") or "").split()
    ]
    return [element.text or "" for element in elements]


def places(drawing: str) -> list[tuple[float, float]]:
    """Where marks stand."""
    moves = [element.get("transform") for element in parsed(drawing).iter(f"{SVG}path")]
    return [tuple(map(float, move[10:-1].split())) for move in moves if move is not None]  # type: ignore[misc]


def whiskers(drawing: str) -> list[tuple[float, ...]]:
    """x1, y1, x2, y2 of the long lines of whiskers."""
    lines = [element for element in parsed(drawing).iter(f"{SVG}line") if element.get("class") == "whisker"]
    return [tuple(float(line.attrib[name]) for name in ("x1", "y1", "x2", "y2")) for line in lines[::3]]


def tooltips(drawing: str) -> list[str]:
    return [element.text or "" for element in parsed(drawing).iter(f"{SVG}title")][1:]


# ---------------------------------------------------------------- ticks and scales


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0, 100], ["0", "20", "40", "60", "80", "100"]),
        ([44.8, 62.5], ["40", "45", "50", "55", "60", "65"]),
        ([96.1, 100], ["95", "96", "97", "98", "99", "100"]),
        ([0.0], ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5"]),
        ([100.0], ["97.5", "98.0", "98.5", "99.0", "99.5", "100.0"]),
        ([50.0, 50.0], ["48.5", "49.0", "49.5", "50.0", "50.5", "51.0", "51.5"]),
        ([], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
    ],
)
def test_linear_ticks_are_round_and_stay_within_what_exists(values: list[float], ticks: list[str]) -> None:
    axis = scale(PERCENT, [Figure(value) for value in values], 0, 100)
    assert [text for _, text in axis.ticks] == ticks


def test_values_have_places_on_scales() -> None:
    axis = scale(Axis("difference"), [Figure(-3.2), Figure(1234.0)], 0, 100)
    assert [text for _, text in axis.ticks] == ["−250", "0", "250", "500", "750", "1,000", "1,250"]
    assert (axis.at(-250), axis.at(500), axis.at(1250)) == (0, 50, 100)
    axis = scale(MILLISECONDS, [Figure(1.0), Figure(100.0)], 40, 240)
    assert [axis.at(value) for value in (1, 10, 100)] == pytest.approx([40, 140, 240])
    axis = scale(MILLISECONDS, [Figure(0.0), Figure(1.0), Figure(100.0)], 40, 240)  # 0 stands beside it
    assert (axis.at(0.0), axis.at(1.0), axis.at(100.0)) == pytest.approx((40, 66, 240))


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.21, 7.98], ["0.2", "0.5", "1", "2", "5", "10"]),
        ([16.0, 17.2], ["10", "20"]),
        ([10.0], ["5", "10", "20"]),
        ([0.07, 1400], ["0.1", "1", "10", "100", "1,000"]),
        ([1e-9, 1e9], ["1e-09", "1e-05", "0.1", "1,000", "1e+07"]),
        ([0.0, 3.0, 30.0], ["0", "2", "5", "10", "20", "50"]),
        ([0.0], ["0", "1", "2", "5", "10"]),
    ],
)
def test_logarithmic_ticks(values: list[float], ticks: list[str]) -> None:
    axis = scale(MILLISECONDS, [Figure(value) for value in values], 0, 400)
    assert [text for _, text in axis.ticks] == ticks


def test_the_ticks_of_k_are_the_ks_that_have_room() -> None:
    assert at_values([5, 10, 20], 0, 300, 22).ticks == ((5, "5"), (10, "10"), (20, "20"))
    assert at_values([1, 2, 3, 100], 0, 100, 22).ticks == ((1, "1"), (3, "3"), (100, "100"))
    assert at_values([5], 0, 100, 22).at(5) == 50


@given(st.lists(st.floats(), max_size=6), st.booleans(), st.booleans())
def test_every_value_has_a_place_on_every_scale(values: list[float], log: bool, turned: bool) -> None:
    figures = [Figure(value) for value in values]
    start, end = (300.0, 20.0) if turned else (20.0, 300.0)
    axis = scale(Axis("x", log=log), figures, start, end)
    assert 2 <= len(axis.ticks) <= 9
    for value in [value for figure in figures for value in figure.values] + [tick for tick, _ in axis.ticks]:
        assert 20 - 1e-9 <= axis.at(value) <= 300 + 1e-9


# ---------------------------------------------------------------- dots


def test_dots_stand_where_their_figures_are() -> None:
    rows = (Dot("a", 0, Figure(0.0)), Dot("b", 1, Figure(50.0, (25.0, 75.0))), Dot("c", 2, Figure(100.0)))
    drawing = draw_dots("R@5", [DotGroup("", rows)], PERCENT)
    left, right = svg.width("a") + 32, 384.0
    middle = (left + right) / 2
    assert [x for x, _ in places(drawing)[1::2]] == pytest.approx([left, middle, right], abs=0.01)
    assert [y for _, y in places(drawing)[1::2]] == [14.5, 35.5, 56.5]
    quarter = (right - left) / 4
    assert whiskers(drawing) == [pytest.approx((middle - quarter, 35.5, middle + quarter, 35.5), abs=0.01)]
    assert texts(drawing) == ["a", "b", "c"]
    assert texts(drawing, "tick") == ["0", "20", "40", "60", "80", "100"]
    assert tooltips(drawing) == ["a: 0.00", "b: 50.0 (25.0 to 75.0)", "c: 100"]


def test_groups_stand_below_one_another_under_their_headings() -> None:
    groups = [DotGroup(f"{hops} hops · 9 questions", (Dot("bm25", 0, Figure(10.0 * hops)),)) for hops in (2, 3)]
    drawing = draw_dots("by hops", groups, PERCENT)
    assert texts(drawing, "heading") == ["2 hops · 9 questions", "3 hops · 9 questions"]
    assert [y for _, y in places(drawing)[1::2]] == [40.5, 87.5]


def test_what_was_not_measured_is_named() -> None:
    dots = draw_dots("x", [DotGroup("", (Dot("a", 0, Figure(None)), Dot("b", 1, Figure(math.nan))))], PERCENT)
    assert texts(dots, "tick")[-2:] == ["not measured", "not measured"]
    assert parsed(dots).findtext(f"{SVG}desc") == "a: not measured; b: not measured"
    points = [Point("a", 0, Figure(None), Figure(60.0)), Point("b", 1, Figure(2.0), Figure(50.0))]
    scatter = draw_scatter("x", points, MILLISECONDS, PERCENT)
    curves = draw_curves("x", [Curve("b", 0, {5: Figure(40.0)}), Curve("a", 1, {5: Figure(None)})], K, PERCENT)
    for drawing in (scatter, curves):
        assert texts(drawing, "tick")[-1] == "not measured: a"
        assert len(places(drawing)) == 1


def test_long_labels_lose_their_middle_unless_many_are_long() -> None:
    long = "hybrid(depth=200, rrf_k=10, weight=0.5)"
    beside = draw_dots(
        "x", [DotGroup("", tuple(Dot(label, 0, Figure(1.0)) for label in (long, "a", "b", "c")))], PERCENT
    )
    assert texts(beside)[0] == "hybrid(de…ight=0.5)"
    assert tooltips(beside)[0] == long
    above = draw_dots("x", [DotGroup("", (Dot(long, 0, Figure(1.0)), Dot("a", 1, Figure(2.0))))], PERCENT)
    assert texts(above) == [long, "a"]


# ---------------------------------------------------------------- points


def test_points_stand_where_their_figures_are() -> None:
    points = [
        Point("slow", 0, Figure(100.0, (10.0, 100.0)), Figure(60.0, (50.0, 60.0))),
        Point("fast", 1, Figure(1.0), Figure(50.0)),
    ]
    drawing = draw_scatter("x", points, MILLISECONDS, PERCENT)
    assert places(drawing) == [(378, 34), (50, 302)]
    assert whiskers(drawing) == [(214, 34, 378, 34), (378, 34, 378, 302)]
    assert sorted(texts(drawing)) == ["fast", "slow"]
    assert tooltips(drawing) == ["slow: 60.0 (50.0 to 60.0); 100 (10.0 to 100)", "fast: 50.0; 1.00"]


def label_boxes(drawing: str) -> list[svg.Box]:
    elements = [element for element in parsed(drawing).iter(f"{SVG}text") if "halo" in (element.get("class") or "")]
    boxes = [
        (float(element.attrib["x"]), float(element.attrib["y"]), svg.width(element.text or "")) for element in elements
    ]
    return [svg.Box(x, y - 10, x + wide, y + 3) for x, y, wide in boxes]


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.floats(0.1, 1000), st.floats(0, 100)), min_size=1, max_size=18))
def test_no_label_of_a_point_hides_another_or_a_mark(figures: list[tuple[float, float]]) -> None:
    points = [Point(f"method {at}", at, Figure(x), Figure(y)) for at, (x, y) in enumerate(figures)]
    drawing = draw_scatter("x", points, MILLISECONDS, PERCENT)
    boxes, marks = label_boxes(drawing), places(drawing)[: len(points)]
    assert sorted(texts(drawing)) == sorted(point.label for point in points)
    assert not any(pair.meets(other) for pair, other in combinations(boxes, 2))
    assert not any(box.meets(svg.Box(x - 5, y - 5, x + 5, y + 5)) for box in boxes for x, y in marks)


def test_labels_without_room_stand_below() -> None:
    points = [Point(f"the method {at}", at, Figure(1.0), Figure(50.0)) for at in range(40)]
    drawing = draw_scatter("x", points, MILLISECONDS, PERCENT)
    assert sorted(texts(drawing)) == sorted(point.label for point in points)
    assert len(label_boxes(drawing)) < 40


@given(st.lists(st.floats(0, 100), max_size=12))
def test_labels_at_ends_are_moved_apart(wanted: list[float]) -> None:
    moved = sorted(apart(wanted, 15, 0, 200))
    assert all(b - a >= 15 - 1e-9 for a, b in pairwise(moved))
    assert all(0 <= place <= 200 for place in moved)
    assert apart([50, 10, 90], 15, 0, 100) == [50, 10, 90]


# ---------------------------------------------------------------- curves


def test_curves_go_through_their_figures() -> None:
    series = [Curve("bm25", 0, {20: Figure(80.0), 5: Figure(40.0, (30.0, 50.0)), 10: Figure(60.0)})]
    drawing = draw_curves("Recall over k", series, K, PERCENT)
    first, last = 46.0, 400 - 22 - svg.width("bm25") - 8
    assert [x for x, _ in places(drawing)] == pytest.approx([first, first + (last - first) / 3, last], abs=0.01)
    assert [y for _, y in places(drawing)] == [224.4, 129.2, 34]
    assert whiskers(drawing) == [(first, 176.8, first, 272)]
    assert tooltips(drawing) == ["bm25, k = 5: 40.0 (30.0 to 50.0)", "bm25, k = 10: 60.0", "bm25, k = 20: 80.0"]


def test_many_curves_have_a_panel_each_with_the_others_in_grey() -> None:
    series = [Curve(f"m{at}", at, {5: Figure(at), 10: Figure(at + 1.0)}) for at in range(8)]
    drawing = draw_curves("x", series, K, PERCENT)
    assert texts(drawing) == [f"m{at}" for at in range(8)]
    others = [group for group in parsed(drawing).iter(f"{SVG}g") if group.get("class") == "others"]
    assert [len(list(group)) for group in others] == [7] * 8


# ---------------------------------------------------------------- all of them


def every_plot(label: str, figures: list[Figure]) -> list[str]:
    """Each kind of plot of the same figures, by methods of nearly the same label."""
    labels = [f"{label}{at}" for at in range(len(figures))]
    named = list(zip(labels, range(len(figures)), figures, strict=True))
    rows = tuple(Dot(*figure) for figure in named)
    return [
        draw_dots(label, [DotGroup(label, rows), DotGroup("", rows)], PERCENT),
        draw_dots(label, [DotGroup("", rows)], Axis(label, log=True)),
        draw_scatter(
            label, [Point(*points, figure) for points, figure in zip(named, reversed(figures), strict=True)], K, PERCENT
        ),
        draw_scatter(label, [Point(*figure, figure[2]) for figure in named], MILLISECONDS, MILLISECONDS),
        draw_curves(
            label, [Curve(text, at, {1: figure, 5: figures[0], 700: figure}) for text, at, figure in named], K, PERCENT
        ),
        draw_curves(label, [Curve(text, at, {5: figure}) for text, at, figure in named], K, MILLISECONDS),
    ]


FIGURES = st.builds(Figure, st.none() | st.floats(), st.none() | st.tuples(st.floats(), st.floats()))


@settings(max_examples=examples(40))
@given(st.text(max_size=30), st.lists(FIGURES, max_size=10))
def test_whatever_is_drawn_is_xml_within_its_frame(label: str, figures: list[Figure]) -> None:
    for drawing in every_plot(label, figures):
        root = parsed(drawing.encode("utf-8").decode("utf-8"))
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        assert root.get("role") == "img"
        for element in root.iter():
            for name, value in element.attrib.items():
                if name in ("x", "x1", "x2"):
                    assert -4 <= float(value) <= width + 4
                if name in ("y", "y1", "y2"):
                    assert -4 <= float(value) <= height + 4


@pytest.mark.parametrize("label", [UGLY, "x" * 1_000_000, "\x00\ud800\ufffe\u202e", "漢" * 200])
def test_any_label_is_text_and_bounded(label: str) -> None:
    for drawing in every_plot(label, [Figure(1.0, (0.0, 2.0)), Figure(0.0), Figure(None)]):
        names = {element.tag.removeprefix(SVG) for element in parsed(drawing.encode("utf-8").decode("utf-8")).iter()}
        assert names <= {"svg", "title", "desc", "g", "path", "line", "text", "polyline"}
        assert len(drawing) < 30_000
        assert not {"\x00", "\ud800", "\ufffe", "\u202e"} & set(drawing)


def test_sixteen_marks_differ_without_colour_and_sixty_four_with_it() -> None:
    shapes = [svg.mark(style, 0, 0) for style in range(64)]
    assert len(set(shapes[:16])) == 16
    assert len({(shape, svg.colour(style)) for style, shape in enumerate(shapes)}) == 64


def test_the_description_says_the_figures() -> None:
    drawing = draw_scatter("R@5 against latency", [Point("a", 0, Figure(2.0), Figure(50.0, (40.0, 60.0)))], K, PERCENT)
    assert parsed(drawing).findtext(f"{SVG}title") == "R@5 against latency"
    assert parsed(drawing).findtext(f"{SVG}desc") == "a: 50.0 (40.0 to 60.0) at 2.00"
