import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup, Tag
from made_comparisons import make_comparison, went

from ragindex.types import Query, Step, Triple
from ragindex_eval.conclusions.first_sentence import state_conclusion
from ragindex_eval.conclusions.leaders import leaders
from ragindex_eval.conclusions.questions import plan_questions
from ragindex_eval.data.gold import Gold
from ragindex_eval.report import page as report
from ragindex_eval.report.sections.questions import find_missed
from ragindex_eval.results.model import Comparison, MethodAnswer, MethodResult, SavedHit, Study
from ragindex_eval.results.records import FindsNothing, QuestionShare

FAR = {"best": [1.0] * 40, "near": [1.0] * 38 + [0.0] * 2, "far": [1.0] * 8 + [0.0] * 32}
TIMES = {"best": [4.0, 6.0] * 20, "near": [4.0, 6.0] * 20, "far": [1.0, 1.5] * 20}
VOID = {"meta", "br", "link", "img", "input", "hr"}
ELEMENTS = frozenset(
    re.findall(
        r"\w+",
        "html head meta title style body main header nav section article figure figcaption details summary h1 h2 h3 h4 "
        "p div span small strong b abbr a ul ol li dl dt dd br pre code table thead tbody tr th td "
        "svg desc g path line text polyline",
    )
)
ATTRIBUTES = frozenset(
    re.findall(
        r"[\w-]+",
        "lang charset http-equiv content name class id href open scope rowspan title role tabindex aria-label "
        "aria-hidden viewbox xmlns d transform x y x1 y1 x2 y2 points text-anchor",
    )
)
UGLY = (
    "</title></style><script>document.title='x'</script><img src=x onerror=\"alert(1)\"> "
    "javascript:alert(1) ' \" &amp; {{7*7}}"
)


def study(*comparisons: Comparison, command: str = "ragindex compare notes/") -> Study:
    return Study("A study", comparisons or (make_comparison(FAR, TIMES),), command)


def page(value: Study) -> BeautifulSoup:
    return BeautifulSoup(report.render_report(value), "html.parser")


def find_single(soup: BeautifulSoup | Tag, selector: str) -> Tag:
    elements = soup.select(selector)
    assert len(elements) == 1, (selector, len(elements))
    return elements[0]


def words(tag: Tag) -> str:
    return " ".join(tag.get_text(" ").split())


def rows(table: Tag) -> list[list[str]]:
    return [[words(cell) for cell in row.select("th, td")] for row in table.select("tbody tr")]


def answered(comparison: Comparison, label: str, answer: MethodAnswer) -> Comparison:
    """The comparison with another answer to one question."""

    def changed(method: MethodResult) -> MethodResult:
        answers = tuple(answer if former.query_id == answer.query_id else former for former in method.final)
        return replace(method, answers={max(method.answers): answers}) if method.label == label else method

    return replace(comparison, methods=tuple(map(changed, comparison.methods)))


# ---------------------------------------------------------------- what it says


def test_the_sentence_comes_first_and_the_table_has_the_figures_with_their_intervals() -> None:
    """Bold are the best and those that are not told apart from it."""
    comparison = make_comparison(FAR, TIMES)
    soup = page(study(comparison))
    assert words(find_single(soup, "h1")) == "A study"
    assert words(find_single(soup, "header .lead")) == state_conclusion(comparison)
    assert words(find_single(soup, "header p.about")) == "3 documents, 40 questions, encoder lsa, seed 0"
    table = find_single(soup, "#c1-table table")
    heads = ["method", "R@5", "p50 ms", "p95 ms", "mean ± sd ms", "index s", "index MB"]
    assert [words(cell) for cell in table.select("thead th")] == heads
    low, high = (100 * bound for bound in comparison.method("near").ci95["R@5"])
    latency = comparison.method("near").ci95["latency_ms_p50"]
    assert rows(table)[1] == [
        "near",
        f"95.0 {low:.1f} – {high:.1f}",
        f"5.00 {latency[0]:.2f} – {latency[1]:.2f}",
        "6.00",  # 40 questions are too few for an interval
        "5.00 ± 1.01",  # sqrt(40 / 39)
        *("1.00", "0.001"),
    ]
    bold = [[bool(cell.select("b")) for cell in row.select("td")] for row in table.select("tbody tr")]
    assert leaders(comparison, "R@5") == ("best", "near")
    assert bold == [[True] + [False] * 5, [True] + [False] * 5, [False, True] + [False] * 4]


def test_nothing_is_bold_and_nobody_best_where_all_are_equal() -> None:
    equal = {label: [1.0, 0.0] * 20 for label in ("one", "two", "three")}
    soup = page(study(make_comparison(equal, {label: [2.0] * 40 for label in equal})))
    assert soup.select("table b") == []
    assert "Nothing is bold: no method stands out." in words(find_single(soup, "#c1-table"))
    assert set(map(words, soup.select(".matrix .word"))) == {"no significant difference"}
    assert "No method can be excluded as the best" in words(find_single(soup, "header"))
    assert " best" not in words(find_single(soup, "#c1-pairs")) + words(find_single(soup, "#c1-questions"))
    differing, missed = map(words, soup.select("#c1-questions p.note"))
    assert differing == "On no question do the methods differ in recall."
    assert missed.startswith("For 20 questions no method finds a gold document in its first 5 hits.")
    shown = [words(summary) for summary in soup.select("#c1-questions details.question > summary")]
    assert len(shown) == 20


def test_questions_that_one_method_answers_are_not_found_by_none() -> None:
    scores = {"one": [1.0, 0.0, 0.0], "two": [1.0, 1.0, 0.0]}
    comparison = make_comparison(scores, {label: [2.0] * 3 for label in scores})
    assert find_missed(comparison) == [2]
    soup = page(study(comparison))
    assert "For 1 question no method finds a gold document in its first 5 hits. Is" in words(
        find_single(soup, "#c1-questions")
    )
    assert words(find_single(soup, "#c1-questions h3 ~ details summary")).startswith("What is q3?")
    unjudged = {"q3": dict[str, float]()}  # a question without gold has no recall
    methods = tuple(replace(method, per_query={**method.per_query, **unjudged}) for method in comparison.methods)
    assert find_missed(replace(comparison, methods=methods)) == []


def test_pairs_are_worded_by_the_corrected_test() -> None:
    comparison = make_comparison(FAR, TIMES)
    quality, latency = page(study(comparison)).select("#c1-pairs table")
    pair = comparison.pair("best", "far", "R@5")
    assert pair.p_adjusted < 0.05 <= comparison.pair("best", "near", "R@5").p_adjusted
    low, high = (100 * bound for bound in pair.ci95 or ())
    least, most = (100 * bound for bound in comparison.pair("best", "near", "R@5").ci95 or ())
    assert rows(quality)[0] == [
        "best",
        "",
        f"no significant difference +5.0 −{-least:.1f} to +{most:.1f} p = 0.56",
        f"better +80.0 +{low:.1f} to +{high:.1f} p < 0.001",
    ]
    assert rows(quality)[2][1].startswith("worse −80.0 −")
    assert [cell.split(" p ")[0].split(" ")[0] for cell in rows(latency)[2][1:3]] == ["faster", "faster"]
    times = comparison.pair("best", "far", "latency_ms")
    assert times.value == pytest.approx((4.0 * 6.0) ** 0.5 / (1.0 * 1.5) ** 0.5)
    assert rows(latency)[0][3].startswith(f"slower × {times.value:.2f} × ")
    summaries = [words(summary) for summary in page(study(comparison)).select("#c1-pairs summary")]
    assert summaries[0] == "R@5, percentage points 2 of 3 pairs significantly different"
    assert summaries[1].endswith(" pairs faster or slower")


def test_plots_are_svg_with_names_and_descriptions() -> None:
    comparison = make_comparison(FAR, TIMES, kinds=["2hop"] * 31 + ["3hop"] * 9)
    drawings = re.findall(r'<svg class="plot".*?</svg>', report.render_report(study(comparison)))
    named = [ElementTree.fromstring(drawing) for drawing in drawings]
    space = "{http://www.w3.org/2000/svg}"
    assert [element.findtext(f"{space}title") for element in named] == [
        "R@5 of each method",
        "R@5 against latency",
        "R@5 by number of hops",
    ]
    assert "best: 100 (91.2 to 100)" in (named[0].findtext(f"{space}desc") or "")
    headings = [element.text for element in named[2].iter(f"{space}text") if element.get("class") == "heading"]
    assert headings == ["2 hops · 31 questions", "3 hops · 9 questions, too few for an interval"]


def test_recall_over_k_is_drawn_where_there_are_several() -> None:
    comparison = make_comparison(FAR, TIMES, ks=(5, 10))
    assert [words(caption) for caption in page(study(comparison)).select("figcaption strong")][2] == "Recall over k."


# ---------------------------------------------------------------- questions


def test_the_questions_that_divide_the_methods_most_come_first() -> None:
    recalls = {"a": [1.0, 1.0, 0.5, 1.0], "b": [1.0, 0.5, 0.5, 0.0]}
    soup = page(study(make_comparison(recalls)))
    questions = soup.select("details.question")
    assert [words(find_single(question, "summary")) for question in questions] == [
        "What is q4? R@5 0.0 to 100.0",
        "What is q2? R@5 50.0 to 100.0",
    ]
    assert words(find_single(soup, "#c1-questions > p.note")) == "The methods' recall differs on 2 questions."


def test_twenty_questions_are_shown_at_most_and_fifty_without_gold() -> None:
    soup = page(study(make_comparison({"a": [1.0] * 30, "b": [0.0] * 30})))
    assert len(soup.select("details.question")) == 20
    assert "differs on 30 questions; the 20 on which R@5" in words(find_single(soup, "#c1-questions > p.note"))
    soup = page(study(make_comparison({"x": [], "y": []}, {"x": [1.0] * 60, "y": [2.0] * 60})))
    assert len(soup.select("details.question")) == 50
    assert words(find_single(soup, "#c1-questions > p.note")).startswith("The first 50 questions; 10 more were asked")


def test_what_was_found_stands_beside_what_is_right() -> None:
    step = Step(2, "triples", "who?", ("t1", "t2"), (Triple("Anna", "is", "a hill"),), ms=1.25)
    hits = (
        SavedHit("b", ("b",), 0.75, "The letter B", "B follows A."),
        SavedHit("a", ("a",), 0.5, "The letter A", "A is first."),
    )
    comparison = answered(
        make_comparison({"x": [1.0], "y": [0.0]}), "x", MethodAnswer("q1", hits, None, (step,), ("a thought",))
    )
    gold = {"q1": Gold(frozenset({"a", "z"}), ("alpha", "first"), "2hop", "source-7")}
    question = find_single(page(study(replace(comparison, gold=gold))), "details.question")
    assert words(find_single(question, "p.gold-list")) == "gold The letter A a ; z answer alpha / first"
    assert words(question.select("p.about")[0]) == "q1 · source-7 · 2hop"
    first = question.select("article")[0]
    assert words(find_single(first, "h4")) == "x R@5 100.0"
    assert words(first.select("p.about")[0]) == "gold at rank 2; 1 of 2 gold not in the first 5 hits"
    assert [words(hit) for hit in first.select("ol.hits li")] == [
        "1 The letter B only here 0.75 b B follows A.",
        "2 The letter A gold 0.5 a A is first.",
    ]
    assert words(find_single(first, "p.text")) == "note: a thought"
    assert rows(find_single(first, ".steps table")) == [
        ["2", "triples", "who?", "t1, t2", "Anna –is→ a hill", "1.25", ""]
    ]


def test_a_failure_is_shown_where_it_happened_and_warned_of() -> None:
    failed = MethodAnswer("q2", (), "ConnectionError: /home/me/secret/key.txt is gone")
    times = {"x": [1.0] * 30, "y": [1.0] * 30}
    comparison = answered(make_comparison({"x": [1.0] * 30, "y": [1.0] + [0.0] * 29}, times), "y", failed)
    soup = page(study(comparison))
    assert words(find_single(soup, "p.error")) == "not answered: ConnectionError: …/key.txt is gone"
    assert words(find_single(soup, ".warnings")) == (
        "y answered 29 of 30 questions; the others score 0: ConnectionError: …/key.txt is gone (1 time)"
    )
    assert rows(find_single(soup, "#c1-table table"))[1][-1] == "1"


# ---------------------------------------------------------------- without gold


def test_without_gold_no_quality_is_shown() -> None:
    rankings = {"x": [["a", "b"]] * 3, "y": [["b", "c"]] * 3}
    soup = page(study(make_comparison({"x": [], "y": []}, {"x": [1.0] * 3, "y": [2.0] * 3}, rankings=rankings)))
    assert words(find_single(soup, "header .lead")).startswith("No quality was measured")
    assert "Nobody said which documents answer the questions." in words(find_single(soup, ".notice"))
    assert rows(find_single(soup, "#c1-agreement table")) == [["x", "", "33"], ["y", "33", ""]]
    assert [words(cell) for cell in find_single(soup, "#c1-table table").select("thead th")][1] == "p50 ms"
    assert len(soup.select("details.question")) == 3
    hits = [words(hit) for hit in soup.select("details.question")[0].select("ol.hits li")]
    assert hits == ["1 a only here 1", "2 b 0.5", "1 b 1", "2 c only here 0.5"]
    assert [words(caption) for caption in soup.select("figcaption strong")] == ["Latency of each method."]


# ---------------------------------------------------------------- few, none, several


@pytest.mark.parametrize(
    "comparison",
    [
        make_comparison({"only": [1.0]}, {"only": [2.0]}),
        make_comparison({"only": []}, {"only": []}, rankings={"only": [["a"]]}),
        make_comparison({"a": [0.0], "b": [0.0]}),
        make_comparison({"a": [1.0, 0.0], "b": [0.0, 0.0]}, ks=(5, 50)),
    ],
)
def test_little_makes_a_page_too(comparison: Comparison) -> None:
    html = report.render_report(study(comparison))
    assert (unbalanced(html), unbalanced("<p><b></p>")) == ([], ["p", "p"])
    assert "nan" not in words(find_single(BeautifulSoup(html, "html.parser"), "main")).split()


def test_one_question_is_warned_of() -> None:
    soup = page(study(make_comparison({"a": [1.0], "b": [0.0]})))
    assert "1 judged question: with fewer than 30" in words(find_single(soup, ".warnings"))
    assert soup.select("table b") == []


def test_several_comparisons_have_an_overview_and_a_spread_over_seeds() -> None:
    seeds = [
        make_comparison({"a": [1.0] * ones + [0.0] * (10 - ones)}, seed=seed) for seed, ones in ((0, 4), (1, 6), (2, 8))
    ]
    soup = page(study(*seeds, make_comparison({"a": [1.0] * 10}, name="other")))
    assert [row[:5] for row in rows(find_single(soup, "#overview table"))] == [
        ["made", "lsa", "0", "a", rows(soup.select("#c1-table table")[0])[0][1]],
        ["made", "lsa", "1", "a", rows(soup.select("#c2-table table")[0])[0][1]],
        ["made", "lsa", "2", "a", rows(soup.select("#c3-table table")[0])[0][1]],
        ["other", "lsa", "0", "a", rows(soup.select("#c4-table table")[0])[0][1]],
    ]
    assert rows(find_single(soup, "#seeds table")) == [["a", "60.0 ± 20.0 40.0 – 80.0"]]
    assert len(soup.select("header .leads li")) == 4


def test_links_lead_to_what_is_there() -> None:
    for value in (study(), study(make_comparison(FAR), make_comparison({"a": []}, {"a": [1.0]}, name="other"))):
        soup = page(value)
        ids = [str(tag["id"]) for tag in soup.select("[id]")]
        assert Counter(ids).most_common(1)[0][1] == 1
        targets = [str(link["href"]) for link in soup.select("a")]
        assert targets
        assert {target.removeprefix("#") for target in targets} <= set(ids)


def test_how_to_make_it_again() -> None:
    soup = page(study(command="ragindex compare /home/me/work/notes --questions ~/q.csv \\\n  --k 5"))
    assert find_single(soup, "#again pre").get_text() == "ragindex compare …/notes --questions …/q.csv \\\n  --k 5"
    facts = dict(zip(map(words, soup.select("dl.facts dt")), map(words, soup.select("dl.facts dd")), strict=True))
    assert facts["data"] == "made (made): 3 documents, 3 passages"
    assert facts["fingerprint of all"] == "0123456789abcdef"
    assert facts["latency"] == "at k = 5 over 40 questions, one by one, after a warm-up"


# ---------------------------------------------------------------- text that is not ours


def hostile(text: str) -> Study:
    """A study with `text` wherever text comes from data."""
    comparison = make_comparison(
        {text + "1": [1.0] * 3, text + "2": [0.0] * 3}, {text + "1": [1.0] * 3, text + "2": [2.0] * 3}
    )
    hits = (SavedHit(text, (text,), 1.0, text, text),) * 6
    step = Step(1, text, text, (text,) * 9, (Triple(text, text, text),) * 9, ((Triple(text, text, text),),))
    comparison = answered(comparison, text + "1", MethodAnswer("q1", hits, None, (step,) * 30, (text,) * 9))
    comparison = answered(comparison, text + "2", MethodAnswer("q2", (), text))
    comparison = answered(comparison, text + "2", went("q3", [[text], [text, "b"]], [(1, 5, 5)]))
    methods = tuple(
        replace(method, name=text, params={text: [text, {"name": text, "params": {"n": number}}]})
        for number, method in enumerate(comparison.methods)
    )
    return Study(
        text,
        (
            replace(
                comparison,
                dataset=replace(comparison.dataset, name=text, format=text, fingerprint=text),
                encoder=text,
                encoder_id=text,
                store=text,
                language=text,
                queries=tuple(Query(query.id, text) for query in comparison.queries),
                gold={f"q{at}": Gold(frozenset({text, "a"}), (text,) * 9, text, text) for at in (1, 2, 3)},
                titles={"a": text},
                notes=(text,) * 30,
                left_out=(text,) * 30,
                fingerprint=text,
                methods=methods,
            ),
        ),
        text,
    )


def test_text_from_data_is_never_markup() -> None:
    html = report.render_report(hostile(UGLY))
    soup = BeautifulSoup(html, "html.parser")
    assert {tag.name for tag in soup.find_all(True)} <= ELEMENTS
    assert {name.lower() for tag in soup.find_all(True) for name in tag.attrs} <= ATTRIBUTES
    assert all(str(link["href"]).startswith("#") for link in soup.select("[href]"))
    assert find_single(soup, "h1").get_text() == UGLY
    assert find_single(soup, "head title").get_text() == f"{UGLY}: a comparison of retrievers"
    assert "49" not in find_single(soup, "h1").get_text()
    assert {"By iteration", "One parameter changed"} <= {words(heading) for heading in soup.select("h3")}
    assert not unbalanced(html)


@pytest.mark.parametrize("text", ["x" * 1_000_000, "é " * 500_000, "<" * 1_000_000])
def test_a_megabyte_in_every_text_is_no_megabyte_of_page(text: str) -> None:
    assert len(report.render_report(hostile(text)).encode()) < 700_000


def test_what_a_page_cannot_hold_is_replaced() -> None:
    html = report.render_report(hostile("a\x00b\x1b[31mc\ud800d\ufffee\u202ef\u2066g"))
    assert html.encode("utf-8").decode("utf-8") == html
    assert not set(html) & set("\x00\x1b\ud800\ufffe\u202e\u2066")
    assert find_single(BeautifulSoup(html, "html.parser"), "h1").get_text() == "a�b�[31mc�d�e�f�g"


def test_no_request_can_be_made_and_no_script_run() -> None:
    html = report.render_report(study())
    policy = find_single(BeautifulSoup(html, "html.parser"), 'meta[http-equiv="Content-Security-Policy"]')
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert "url(" not in html
    assert "@import" not in html
    assert set(re.findall(r"https?://[^\"'\s<]*", html)) == {"http://www.w3.org/2000/svg"}


class Balance(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if not self.opened or self.opened.pop() != tag:
            self.wrong.append(tag)


def unbalanced(html: str) -> list[str]:
    """Tags that close what was not opened, and those never closed."""
    parser = Balance()
    parser.feed(html)
    parser.close()
    return parser.wrong + parser.opened


# ---------------------------------------------------------------- colours


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, other: str) -> float:
    """As WCAG 2 defines it."""
    dark, light = sorted(map(luminance, (first, other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_text_and_marks_stand_out_from_the_page(scheme: int) -> None:
    html = report.render_report(study())
    blocks = [dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in re.findall(r":root \{(.*?)\}", html, re.S)]
    colours = blocks[scheme]
    assert len(blocks) == 3
    assert blocks[2] == blocks[0]
    for text, ground in [("ink", "page"), ("quiet", "page"), ("quiet", "panel"), ("link", "page"), ("ink", "notice")]:
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for tone in ("good", "bad"):
        assert contrast(colours[f"{tone}-ink"], colours[tone]) >= 4.5
        assert contrast(colours["quiet"], colours[tone]) >= 4.5
    marks = [contrast(colours[f"mark-{number}"], colours["page"]) for number in range(8)]
    assert min(marks) >= 3.0, marks


def test_the_page_says_what_the_questions_can_show() -> None:
    comparison = make_comparison({"a": [1.0] * 38 + [0.0] * 2, "b": [1.0] * 40})
    page = report.render_report(
        Study("n", (replace(comparison, enough=plan_questions(comparison, comparison.dataset.judged)),))
    )
    section = page[page.index("Are the questions enough?") :]
    assert '<tr><th scope="row">200</th><td>4.7</td></tr>' in section
    assert "<td>about 140</td>" in section


def test_page_says_after_which_step_a_gold_document_was_lost() -> None:
    comparison = make_comparison({"one": [0.0, 0.0]}, {"one": [2.0, 2.0]}, rankings={"one": [["b"], ["b"]]})
    (method,) = comparison.methods
    with_gold = Step(1, "text", "", ("b#0", "a#1", "a#0"))
    answers = (
        replace(method.final[0], trace=(with_gold, Step(1, "reranker", "", ("b#0",)))),
        replace(method.final[1], trace=(Step(1, "text", "", ("b#0", *(f"c#{n}" for n in range(20)), "a#0")),)),
    )
    soup = page(study(replace(comparison, methods=(replace(method, answers={5: answers}),))))
    lines = [words(line) for line in soup.select("#c1-questions article p.about")]
    assert "a: lost after “text”, rank 2" in lines
    assert "a: among the first 20 of no step" in lines


@pytest.mark.parametrize("grouped", [True, False])
def test_page_has_seven_sections_or_those_of_them_that_have_figures(grouped: bool) -> None:
    comparison = make_comparison(
        {"one": [1.0, 0.0] * 20, "two": [0.0, 1.0] * 20}, {label: [2.0] * 40 for label in ("one", "two")}
    )
    if grouped:
        share = QuestionShare(count=1, of=2, low=0.1, high=0.9)
        comparison = replace(
            comparison, finds_nothing=(FindsNothing(label="one", rightly=share, wrongly=share, threshold=None),)
        )
    soup = page(study(comparison))
    sections = [words(find_single(section, "h2")) for section in soup.select("main > section")]
    assert sections == [words(link) for link in soup.select("nav a")]
    assert sections == [
        "Results",
        "Plots",
        "Differences between methods",
        *(["Groups of questions"] if grouped else []),
        "Where the methods disagree most",
        "Warnings and settings",
        "Reading and repeating this page",
    ]
