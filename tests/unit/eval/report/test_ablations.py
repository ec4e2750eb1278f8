"""One parameter changed: which methods stand beside which, and what the tables say."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from made_comparisons import make_comparison

from ragindex.plugins import registry
from ragindex.types import Usage
from ragindex_eval.report.sections import ablations
from ragindex_eval.report.sections.ablations import AblationCell, differences, written
from ragindex_eval.results.model import Comparison

WHOLE = {"a": [1.0] * 10, "b": [0.0] * 10, "c": [1.0] * 9 + [0.0]}
TIMES = {"a": [4.0] * 10, "b": [2.0] * 10, "c": [8.0] * 10}


def named(comparison: Comparison, written: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Comparison:
    """With the names and parameters of `written`, by label."""
    methods = [
        replace(method, name=written[method.label][0], params=written[method.label][1]) for method in comparison.methods
    ]
    return replace(comparison, methods=tuple(methods))


def described(text: str) -> tuple[str, dict[str, Any]]:
    description = registry.describe(registry.create("schemes", text))
    return description["name"], description["params"]


def tables(comparison: Comparison) -> list[tuple[str, str, list[tuple[str, str]]]]:
    section = ablations.render_ablations(comparison)
    assert section is not None
    return [(table.name, table.parameter, [(row.value, row.label) for row in table.rows]) for table in section.tables]


def test_the_difference_to_the_first_of_the_name_with_its_interval_and_p() -> None:
    # a finds all, b nothing: a t test of 1 (11 times) and -1. c misses one of ten.
    comparison = named(
        make_comparison(WHOLE, TIMES),
        {"a": ("gear.naive", {"l": 2}), "b": ("gear.naive", {"l": 3}), "c": ("gear.naive", {"l": 4})},
    )
    section = ablations.render_ablations(comparison)
    assert section is not None
    assert [column.title for column in section.columns] == ["R@5", "p50 ms"]
    assert [[row.value, row.label, *row.cells] for row in section.tables[0].rows] == [
        ["2", "a", AblationCell("100.0", "69.2 – 100.0"), AblationCell("4.00", "4.00 – 4.00")],
        [
            "3",
            "b",
            AblationCell("0.0", "0.0 – 30.8", "−100.0 (−100.0 to −39.3)", "p < 0.001"),
            AblationCell("2.00", "2.00 – 2.00"),
        ],
        [
            "4",
            "c",
            AblationCell("90.0", "42.2 – 99.1", "−10.0 (−47.6 to +30.9)", "p = 0.85"),
            AblationCell("8.00", "8.00 – 8.00"),
        ],
    ]
    assert section.others == ""


def test_tokens_where_any_were_paid_and_what_was_not_measured() -> None:
    comparison = named(make_comparison({"a": [1.0], "b": [0.0]}), {"a": ("x", {"l": 2}), "b": ("x", {"l": 3})})
    paid = tuple(replace(answer, usage=Usage(0.0, 1000, 234)) for answer in comparison.method("a").final)
    methods = (replace(comparison.methods[0], answers={5: paid}), comparison.methods[1])
    section = ablations.render_ablations(replace(comparison, methods=methods))
    assert section is not None
    assert [column.title for column in section.columns] == ["R@5", "tokens a question", "p50 ms"]
    assert [[cell.text for cell in row.cells] for row in section.tables[0].rows] == [
        ["100.0", "1,234", "–"],
        ["0.0", "0", "–"],
    ]
    assert section.tables[0].rows[1].cells[0] == AblationCell(
        "0.0", "", "−100.0", "p = 0.67"
    )  # one question has no interval


def test_without_gold_there_are_times_alone() -> None:
    comparison = named(make_comparison({"a": [], "b": []}, TIMES), {"a": ("x", {"l": 2}), "b": ("x", {"l": 3})})
    section = ablations.render_ablations(comparison)
    assert section is not None
    assert [[cell.text for cell in row.cells] for row in section.tables[0].rows] == [["4.00"], ["2.00"]]


def test_real_methods_are_told_apart_by_their_parameters() -> None:
    labels = {
        "gear.naive": "gear.naive",
        "w/o diversity": "gear.naive(diversity=false)",
        "longer": "gear.naive(beam_length=3)",
        "longest": "gear.naive(beam_length=4)",
        "on bm25": "gear.naive(base=bm25)",
        "deeper": "gear.naive(base=hybrid(depth=50))",
        "names alone": "gear.naive(graph=triple_graph(numbers=false))",
        "both": "gear.naive(beam_length=3, diversity=false)",
        "bm25": "bm25",
        "again": "gear.naive",
    }
    comparison = named(
        make_comparison({label: [1.0, 0.0] for label in labels}),
        {label: described(text) for label, text in labels.items()},
    )
    shown = tables(comparison)
    assert shown == [
        ("gear.naive", "diversity", [("true", "gear.naive"), ("false", "w/o diversity")]),
        ("gear.naive", "beam_length", [("2", "gear.naive"), ("3", "longer"), ("4", "longest")]),
        ("gear.naive", "base", [("hybrid", "gear.naive"), ("bm25", "on bm25")]),
        ("gear.naive", "base.depth", [(shown[3][2][0][0], "gear.naive"), ("50", "deeper")]),
        ("gear.naive", "graph.numbers", [("true", "gear.naive"), ("false", "names alone")]),
    ]
    assert shown[3][2][0][0] == written(described("hybrid")[1]["depth"])
    section = ablations.render_ablations(comparison)
    assert section is not None
    assert section.others == "1 method more differs from the first of the name in several parameters at once."


def test_the_first_is_who_was_named_first_not_who_found_most() -> None:
    comparison = named(make_comparison({"a": [1.0], "b": [0.0]}), {"a": ("x", {"l": 2}), "b": ("x", {"l": 3})})
    assert [row[1] for row in tables(replace(comparison, asked=("b", "a")))[0][2]] == ["b", "a"]
    assert [row[1] for row in tables(replace(comparison, asked=("a", "b")))[0][2]] == ["a", "b"]


def test_chunkings_are_one_parameter() -> None:
    labels = ("bm25", "bm25(over=passages(size=64))", "bm25(over=passages(by=sentences, size=100, overlap=30))")
    comparison = named(
        make_comparison({label: [1.0, 0.0] for label in labels}), {label: described(label) for label in labels}
    )
    values = ("passages", "passages(size=64)", "passages(by=sentences, size=100, overlap=30)")
    assert tables(comparison) == [("bm25", "over", list(zip(values, labels, strict=True)))]


def test_nothing_is_said_where_no_method_varies_another() -> None:
    assert ablations.render_ablations(make_comparison({"a": [1.0], "b": [0.0]})) is None
    two = {"a": ("x", {"l": 2, "m": 1}), "b": ("x", {"l": 3, "m": 2})}
    assert ablations.render_ablations(named(make_comparison({"a": [1.0], "b": [0.0]}), two)) is None


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        ({"l": 2}, {"l": 2.0}, []),
        ({"l": 1}, {"l": True}, [("l", 1, True)]),
        ({"l": None}, {"l": 5}, [("l", None, 5)]),
        ({"l": [1, 2]}, {"l": [1, 3]}, [("l", [1, 2], [1, 3])]),
        ({"m": {"b": 1, "c": 2}}, {"m": {"b": 1, "c": 3}}, [("m.c", 2, 3)]),
        (
            {"base": {"name": "x", "params": {"on": {"name": "y", "params": {"k": 1}}}}},
            {"base": {"name": "x", "params": {"on": {"name": "y", "params": {"k": 2}}}}},
            [("base.on.k", 1, 2)],
        ),
        (
            {"base": {"name": "x", "params": {"k": 1}}},
            {"base": {"name": "y", "params": {"k": 2, "m": 3}}},
            [("base", {"name": "x", "params": {"k": 1}}, {"name": "y", "params": {"k": 2, "m": 3}})],
        ),
    ],
)
def test_differences(first: dict[str, Any], other: dict[str, Any], expected: list[tuple[str, Any, Any]]) -> None:
    assert differences(first, other) == expected
    assert differences(other, first) == [(path, b, a) for path, a, b in expected]


def test_values_are_written_as_a_person_writes_them() -> None:
    name, params = described("dense(over=triples)")
    assert written({"name": name, "params": params}) == "dense(over=triples)"
    assert [written(value) for value in (None, True, 2.0, 0.5, "level", "two words", [1, "a"])] == [
        *("null", "true", "2", "0.5", "level", '"two words"', "[1, a]")
    ]
    elsewhere = {"name": "not-here", "params": {"k": 3, "base": {"name": "bm25", "params": {"no_such": 1}}}}
    assert written(elsewhere) == "not-here(k=3, base=bm25(no_such=1))"
