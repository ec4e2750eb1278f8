"""The terminal's output of a comparison at 80 and 120 columns: names are whole, columns give way in order."""

from dataclasses import replace
from pathlib import Path

import pytest
from made_comparisons import answered, make_comparison
from snapshots import assert_matches, printed

from ragindex.types import Usage
from ragindex_eval.data.gold import Gold
from ragindex_eval.report.sections.basis import render_caveats
from ragindex_eval.report.sections.questions import render_questions
from ragindex_eval.report.terminal import FittedColumn, FittedTable, render_comparison
from ragindex_eval.results.model import Comparison, MethodAnswer, Percentiles, SavedHit

SNAPSHOTS = Path(__file__).parent / "snapshots"
GRID = [f"hybrid(fusion=convex, weight={weight})" for weight in (0.3, 0.5, 0.7)]
MORE = [f"griever(base=hybrid(fusion=convex, weight=0.3), beam={beam}, diversity=false)" for beam in (5, 10)]
PLAIN = "bm25,dense,colbert,composed,links,gear,hipporag,graphrag,raptor,sirerag,ircot,rerank"
LABELS = [*GRID, *MORE, *PLAIN.split(",")]


def found_at(rank: int, *, with_others: bool) -> MethodAnswer:
    """The gold document `a` at a rank, alone or in a summary of two documents."""
    hits = [(f"x{number}",) for number in range(1, rank)] + [("a", "b") if with_others else ("a",)]
    ranked = tuple(SavedHit("+".join(docs), docs, 1.0 / number) for number, docs in enumerate(hits, start=1))
    return MethodAnswer("q1", ranked, usage=Usage(0.0, 1200, 34))


def seventeen() -> Comparison:
    """Each method found the only gold document one rank lower than the one before; raptor did in a summary."""
    answers = {label: [found_at(rank, with_others=label == "raptor")] for rank, label in enumerate(LABELS, start=1)}
    comparison = answered(answers, {"q1": Gold(frozenset({"a"}))}, (5, 10, 20))
    timed = [
        replace(method, latency=replace(method.latency, total=Percentiles(1.5 * rank, 20.0 * rank)))
        for rank, method in enumerate(comparison.methods, start=1)
    ]
    return replace(comparison, methods=tuple(timed))


def test_seventeen_methods_with_long_names() -> None:
    text = printed(render_comparison(seventeen()), 80)
    assert_matches(text, SNAPSHOTS / "terminal_80.txt")
    assert all(len(line) <= 80 for line in text.splitlines())
    assert all(len(line) <= 120 for line in printed(render_comparison(seventeen()), 120).splitlines())
    assert all(label in text for label in LABELS if len(label) <= 40)


def test_estimated_dollars_are_marked() -> None:
    comparison = answered({"bm25": [found_at(1, with_others=False)]}, {"q1": Gold(frozenset({"a"}))}, (1,))
    for estimated, cell in ((True, "~0.2500"), (False, "0.2500")):
        (method,) = comparison.methods
        paid = replace(method, spent=Usage(money=0.25, estimated=estimated))
        assert cell in printed(render_comparison(replace(comparison, methods=(paid,))), 120).split()
        assert paid.to_json()["usage"]["spent"]["estimated"] == estimated


def test_recall_of_single_documents_is_shown_only_where_it_differs() -> None:
    """raptor found the gold document at rank 14 in a summary of two documents, so R@20 is 1 and one_doc_R@20 is 0."""
    explained = "one-doc R: recall over the hits that name exactly one document; elsewhere it is equal to R"
    lines = printed(render_comparison(seventeen()), 200).splitlines()
    at = next(number for number, line in enumerate(lines) if "one-doc R" in line)
    assert [line.split() for line in lines[at : at + 4]] == [
        ["one-doc", "R"],
        ["method", "@20"],
        ["raptor", "0.0"],
        explained.split(),
    ]
    without = answered({"bm25": [found_at(1, with_others=False)]}, {"q1": Gold(frozenset({"a"}))}, (5,))
    assert "one-doc" not in printed(render_comparison(without), 200)


def test_questions_that_no_method_answers_are_told() -> None:
    output = printed(render_comparison(make_comparison({"one": [1.0, 0.0, 0.0], "two": [1.0, 0.0, 0.0]})), 400)
    assert "for 2 questions no method finds a gold document in its first 5 hits; the report shows them: " in output
    assert "'What is q2?', …\n" in output
    assert "of their gold" not in output
    missed = replace(make_comparison({"one": [1.0, 0.0]}), read_shares={"a": 0.61, "other": 0.5})
    assert "of their gold documents: a was read to 61 %\n" in printed(render_comparison(missed), 400)
    assert render_questions(missed).missed[0].in_part == ("a was read to 61 %",)  # type: ignore[union-attr]
    assert "no method finds" not in printed(
        render_comparison(make_comparison({"one": [1.0, 0.0], "two": [0.0, 1.0]})), 400
    )


def test_all_notes_are_shown_and_the_first_details() -> None:
    """Notes change a figure or the next step, so neither the terminal nor the report leaves any out."""
    notes, details = ([f"{kind} {number}" for number in range(25)] for kind in ("note", "detail"))
    comparison = replace(seventeen(), notes=tuple(notes), details=tuple(details))
    lines = printed(render_comparison(comparison), 120).splitlines()
    rest = "… and 20 more details, in the report under “Warnings”"
    assert lines[lines.index("note 0") :][: len(notes) + 6] == [*notes, *details[:5], rest]
    warned = list(render_caveats(comparison) or ())
    at = warned.index("note 0")
    assert warned[at : at + len(notes) + 21] == [*notes, *details[:20], "… and 5 more of this kind"]


def columns(*widths: int) -> tuple[FittedColumn, ...]:
    return tuple(FittedColumn(f"{width}", ("x" * width,)) for width in widths)


def tables(table: FittedTable, width: int) -> list[list[str]]:
    """The titles of each table's columns."""
    return [block.split("\n")[0].split()[1:] for block in printed(table, width).split("\n\n")]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (43, [["5", "6", "7", "8"]]),  # 9 of the name, and each column with 2 blanks before it: 9 + 7 + 8 + 9 + 10
        (42, [["5", "6"], ["7", "8"]]),  # the last group gives way as a whole
        (26, [["5", "6"], ["7"], ["8"]]),  # 9 + 9 + 10 is more: the group is divided
        (20, [["5"], ["6"], ["7"], ["8"]]),
    ],
)
def test_groups_give_way_from_the_last(width: int, expected: list[list[str]]) -> None:
    assert tables(FittedTable("name", ("ninechars",), (columns(5, 6), columns(7, 8))), width) == expected


def test_a_name_of_more_than_half_the_width_is_wrapped_and_not_cut() -> None:
    text = printed(FittedTable("name", ("abcdefghij" * 3,), (columns(5),)), 24)
    assert text == "name              5\nabcdefghijab  xxxxx\ncdefghijabcd\nefghij\n"
