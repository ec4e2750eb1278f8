"""Figures that several pages show: made from one file of results, and marked where their preset was chosen on them."""

import re
import runpy
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from made_comparisons import answered
from project import ROOT

from ragindex.types import Step, Triple
from ragindex_eval.data.gold import Gold
from ragindex_eval.results.model import MethodAnswer, SavedHit
from ragindex_eval.stats.paired_tests import paired_interval
from ragindex_retrievers.gear.method import MEMORY

MADE = runpy.run_path(str(ROOT / "docs" / "make_figures.py"))
RECORDS = MADE["read_records"]()
PAGES = sorted({*(ROOT / "docs" / "explanation").rglob("*.md"), *(ROOT / "docs" / "dev" / "evidence").glob("*.md")})
EARLIER = ("before the text analysis changed last", "before [decision 174]")
"""What a page says if its rows were measured before a change that moved them."""
RECALLS = re.compile(r"(\d+\.\d) / (\d+\.\d) / (\d+\.\d)")


def test_pages_have_the_tables_of_the_results() -> None:
    for path, text in MADE["pages"](RECORDS):
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run python docs/make_figures.py"


def test_results_say_how_and_when_they_were_measured() -> None:
    assert len(RECORDS) >= 2
    for record in RECORDS:
        assert record["command"].startswith(("ragindex compare ", "python -m benchmarks."))
        assert not re.search(r"/(home|work|tmp|Users)/", record["command"])
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", record["date"])
        assert re.fullmatch(r"\d+\.\d+\.\d+", record["version"])
        assert record["questions"] >= 15
        for figures in record["figures"].values():
            assert len(figures) == 3
            assert all(0 <= value <= 100 for value in figures)
        for gains in record["gains"].values():
            assert all(low <= gain <= high for over in gains.values() for gain, low, high in over)


def make_record(date: str, **given: object) -> dict[str, object]:
    figures = {"hybrid": [60.0, 70.0, 80.0], "griever(t_max=5)": [61.0, 72.0, 83.0]}
    gains = {"griever(t_max=5)": {"hybrid": [[1.0, -2.0, 4.0], [2.0, 0.5, 3.5], [-3.0, -4.0, 0.0]]}}
    shared = {"data": "words", "encoder": "lsa", "version": "0.2.0", "figures": figures, "gains": gains}
    return {**shared, "date": date, **given}


def test_a_comparison_replaces_the_figures_of_its_methods() -> None:
    def record(date: str, *labels: str) -> dict[str, object]:
        return make_record(date, figures={label: [1.0, 2.0, 3.0] for label in labels}, gains={})

    earlier, other = record("2026-01-01", "bm25", "dense"), record("2026-01-01", "hybrid")
    records = MADE["replace_methods"]([earlier, other], record("2026-02-02", "bm25", "hybrid"))
    assert [(each["date"], list(each["figures"])) for each in records] == [
        ("2026-01-01", ["dense"]),
        ("2026-02-02", ["bm25", "hybrid"]),
    ]


def test_gains_stay_while_the_figures_are_the_same() -> None:
    def record(figure: float, over: str) -> dict[str, object]:
        return make_record(
            "2026-01-01", figures={"links": [figure] * 3}, gains={"links": {over: [[figure, 0.0, 1.0]] * 3}}
        )

    (same,) = MADE["replace_methods"]([record(1.0, "dense")], record(1.0, "hybrid"))
    assert same["gains"]["links"].keys() == {"dense", "hybrid"}
    (other,) = MADE["replace_methods"]([record(1.0, "dense")], record(2.0, "hybrid"))
    assert other["gains"]["links"].keys() == {"hybrid"}


def test_a_record_has_figures_gains_of_their_pair_and_empty_memories() -> None:
    """`gear` finds 3 of 4 questions' documents, `hybrid`, its base, 1 of 4; the last trace was cut before its end."""
    gold = {id: Gold(frozenset({"a"})) for id in ("q1", "q2", "q3", "q4")}
    triple = Triple("Ann", "knows", "Bob")

    def answers(right: int, *memories: tuple[Triple, ...]) -> list[MethodAnswer]:
        hits = [SavedHit(*("a", ("a",)) if number < right else ("b", ("b",)), 1.0) for number in range(4)]
        ends = [*[MEMORY] * 3, "gist read"]
        steps = [Step(1, end, "?", triples=memory) for end, memory in zip(ends, memories, strict=False)]
        traces = [(step,) for step in steps] or [()] * 4
        return [MethodAnswer(id, (hit,), trace=trace) for id, hit, trace in zip(gold, hits, traces, strict=True)]

    by_method = {"hybrid": answers(1), "gear": answers(3, (triple,), (), (), (triple,))}
    comparison = replace(answered(by_method, gold, (5, 10, 15)), environment={"ragindex": "0.2.0"})
    command = "ragindex compare words --triples /data/openie.json --methods gear,hybrid"
    record = MADE["_make_record"](comparison, command, "2026-01-01")
    assert record["triples"] == "openie.json"
    assert record["command"] == "ragindex compare words --triples openie.json --methods gear,hybrid"
    assert record["figures"] == {"hybrid": [25.0] * 3, "gear": [75.0] * 3}
    assert record["one_document"] == {}
    assert record["empty_memories"] == {"gear": [2, 4]}
    ((gain, low, high), *_) = record["gains"]["gear"]["hybrid"]
    bounds = paired_interval(np.array([0.0, 1.0, 1.0, 0.0]))
    assert (gain, low, high) == (50.0, *(pytest.approx(100 * bound, abs=0.05) for bound in bounds))
    assert record["gains"].keys() == {"gear"}


PAGE = """# words

<!-- figures of griever: words, lsa; less `hybrid`; one document; - -->

| | R@5/10/15 | gain | of one | ms |
|---|---|---|---|---|
| `hybrid` | 1.0 / 2.0 / 3.0 | | 1.0 / 2.0 / 3.0 | 4.0 |
| **off: `t_max=5`** ¹ | **1.0 / 2.0 / 3.0** | −1.0 (−2.0 to 3.0), +1.0 (0.0 to 2.0), 0.0 (−1.0 to 1.0) | – | 5.0 |

Text.
"""


def test_a_table_is_filled_by_its_comment() -> None:
    records = [make_record("2026-01-01"), make_record("2026-02-02", one_document={"griever(t_max=5)": [9.0, 9.5, 9.9]})]
    records[0]["figures"] = {"hybrid": [60.0, 70.0, 80.0]}
    (of_hybrid, of_griever) = MADE["fill"](PAGE, records, "words.md").split("\n")[6:8]
    assert of_hybrid == "| `hybrid` | 60.0 / 70.0 / 80.0 | | – | 4.0 |"
    assert of_griever == (
        "| **off: `t_max=5`** ¹ | **61.0 / 72.0 / 83.0** | +1.0 (−2.0 to 4.0), +2.0 (0.5 to 3.5), −3.0 (−4.0 to 0.0) "
        "| 9.0 / 9.5 / 9.9 | 5.0 |"
    )


def test_a_table_says_when_its_rows_were_measured() -> None:
    other = make_record("2026-02-02", figures={"griever(t_max=5)": [61.0, 72.0, 83.0]}, version="0.3.0")
    first = make_record("2026-01-01", figures={"hybrid": [60.0, 70.0, 80.0]})
    filled = MADE["fill"](PAGE, [first, other], "words.md")
    assert "\n\nMeasured 2026-01-01, ragindex 0.2.0; `t_max=5`: 2026-02-02, ragindex 0.3.0.\n\nText." in filled
    assert MADE["fill"](filled, [first, other], "words.md") == filled
    two = PAGE.replace("words, lsa; less `hybrid`; one document; -", "words, lsa; -; -; others, lsa").replace(
        "5.0", "1.0 / 2.0 / 3.0"
    )
    of_others = make_record("2026-03-03", data="others")
    assert "\n\nMeasured 2026-01-01 to 2026-03-03, ragindex 0.2.0.\n" in MADE["fill"](
        two, [make_record("2026-01-01"), of_others], "p"
    )
    first["empty_memories"], other["empty_memories"] = {"gear": [1, 2]}, {"griever(t_max=5)": [58, 100]}
    ending = (
        "ragindex 0.3.0. The gist memory of `griever(t_max=5)` was empty at the end for 58 of 100 questions.\n\nText."
    )
    assert ending in MADE["fill"](filled, [first, other], "words.md")  # not that of a method without a row


@pytest.mark.parametrize(
    ("comment", "row", "method"),
    [
        ("words, lsa", "| `rerank(base=bm25)`, rules |", "rerank(base=bm25)"),
        ("`links`", "| words, encoder `lsa` |", "links"),
        ("`rerank(base={})`, words, lsa", "| `bm25` |", "rerank(base=bm25)"),
        ("`links`, words", "| `lsa`, the default |", "links"),
        ("words, lsa", "| (A) without summaries |", "sirerag(pool=tree_pool(relatedness_summaries=false))"),
    ],
)
def test_what_a_cell_has_figures_of(comment: str, row: str, method: str) -> None:
    page = f"<!-- figures: {comment} -->\n\n| | |\n|---|---|\n{row} 1.0 / 2.0 / 3.0 |\n\n"
    record = make_record("2026-01-01", figures={method: [61.0, 72.0, 83.0]})
    assert f"{row} 61.0 / 72.0 / 83.0 |\n" in MADE["fill"](page, [record], "words.md")
    with pytest.raises(SystemExit, match="words.md: figures.json has no .* on words with lsa: run ragindex compare"):
        MADE["fill"](page, [make_record("2026-01-01", figures={}, gains={})], "words.md")


def test_figures_with_published_triples_precede_those_by_rules() -> None:
    by_rules = make_record("2026-01-01", figures={"gear": [1.0, 1.0, 1.0]})
    published = make_record("2026-01-01", figures={"gear": [2.0, 2.0, 2.0]}, triples="openie.json")
    row = "<!-- figures: words, lsa -->\n\n| | |\n|---|---|\n| `gear`{} | 0.0 / 0.0 / 0.0 |\n\n"
    filled = [MADE["fill"](row.format(note), [by_rules, published], "p") for note in ("", ", triples by rules")]
    assert ["2.0 / 2.0 / 2.0" in filled[0], "1.0 / 1.0 / 1.0" in filled[1]] == [True, True]


def _rows() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Page, method and figures of each row of a measured method, on pages that say nothing of earlier figures."""
    labels = {label for record in RECORDS for label in record["figures"]}
    for page in PAGES:
        text = " ".join(page.read_text(encoding="utf-8").split())
        if any(phrase in text for phrase in EARLIER):
            continue
        for line in page.read_text(encoding="utf-8").splitlines():
            first = re.match(r"\| `([^`]+)`[^|]* \|", line)
            if first is not None and first[1] in labels:
                yield from ((page.name, first[1], match.groups()) for match in RECALLS.finditer(line))


def test_no_page_has_figures_that_differ_at_5_alone_from_the_results() -> None:
    """Recalls of a method that are equal at 10 and 15 are of the same questions: then that at 5 is equal too."""
    disagreeing = []
    for page, label, figures in _rows():
        results = [tuple(f"{value:.1f}" for value in record["figures"].get(label, ())) for record in RECORDS]
        near = [values for values in results if values and values[1:] == figures[1:]]
        if near and figures not in results:
            disagreeing.append(f"{page}: {label} has {' / '.join(figures)}, the results {' / '.join(near[0])}")
    assert disagreeing == []


# ---------------------------------------------------------------- presets chosen on the questions they are reported on

CHOSEN = "sirerag(ranking=lifted)"  # on musique_train, whose figures the table of all methods reports
RESULTS, OVERVIEW, CHOOSING, GRIEVER, SIRERAG, GRIEVER_PAGE, SIRERAG_PAGE = (
    (ROOT / "docs" / name).read_text(encoding="utf-8")
    for name in (
        "dev/evidence/all-methods-on-musique.md",
        *("explanation/results.md", "explanation/choosing-a-method.md"),
        *("dev/evidence/griever.md", "dev/evidence/sirerag.md"),
        *("explanation/methods/griever.md", "explanation/methods/sirerag.md"),
    )
)


def list_method_rows(text: str, method: str) -> list[str]:
    """The table rows of a method, in every table."""
    return [line for line in text.splitlines() if re.match(rf"\| .*`{re.escape(method)}`", line)]


def notes(text: str) -> dict[str, str]:
    """The notes below tables, by their marks."""
    matches = re.findall(r"^([¹²³]) (.*?)(?=^[¹²³] |\n\n|^\|)", text, re.DOTALL | re.MULTILINE)
    return {mark: " ".join(note.split()) for mark, note in matches}


@pytest.mark.parametrize("page", [RESULTS, CHOOSING], ids=["results", "choosing"])
def test_row_of_a_chosen_preset_has_its_mark_and_the_mark_its_note(page: str) -> None:
    (row,) = list_method_rows(page, CHOSEN)
    (mark,) = re.findall(r"[¹²³]", row)
    assert "chosen" in notes(page)[mark]


@pytest.mark.parametrize(
    "page",
    [RESULTS, OVERVIEW, CHOOSING, SIRERAG, SIRERAG_PAGE, GRIEVER_PAGE],
    ids=["results", "overview", "choosing", "sirerag", "sirerag-page", "griever-page"],
)
def test_no_mark_is_without_a_note(page: str) -> None:
    assert set(re.findall(r"[¹²³]", page)) == set(notes(page))


@pytest.mark.parametrize(("page", "count"), [(GRIEVER, 3), (GRIEVER_PAGE, 1)], ids=["evidence", "page"])
def test_rows_of_griever_that_were_chosen_are_marked(page: str, count: int) -> None:
    by_query = [line for line in page.splitlines() if line.startswith("|") and "`retrieval_score=query`" in line]
    assert len(by_query) == count
    assert all("¹" in row for row in by_query)
    assert all("chosen with these questions in view" in note.lower() for note in notes(page).values())


@pytest.mark.parametrize(("page", "count"), [(SIRERAG, 6), (SIRERAG_PAGE, 2)], ids=["evidence", "page"])
def test_rows_of_sirerag_that_were_chosen_are_marked(page: str, count: int) -> None:
    lifted = [line for line in page.splitlines() if re.match(r"\| `sirerag\(.*ranking=lifted\)`", line)]
    assert len(lifted) == count
    assert all("¹" in row for row in lifted)
    assert "neither is a blind test of it" in notes(page)["¹"]
