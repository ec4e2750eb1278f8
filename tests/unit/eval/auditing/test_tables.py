"""Tables as papers and READMEs print them: shapes, units, marks, and numbers of questions."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from project import ROOT

from examples import examples
from ragindex.errors import DataError, RagindexError, UsageError
from ragindex_eval.auditing.benchmarks import KNOWN, find_count, require_count
from ragindex_eval.auditing.claims import audit_claims, audit_figures
from ragindex_eval.auditing.metrics import read_metric, split_heading
from ragindex_eval.auditing.tables import FigureTable, make_figures, parse_count, read_figures

Row = tuple[str, str, str, float, int]


def rows_of(table: FigureTable) -> list[Row]:
    return [
        (figure.data, figure.metric.name, figure.method, round(figure.mean.value, 6), figure.mean.questions)
        for figure in table.figures
    ]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


SHAPES = {
    # a column for each data set and metric, in percent (SiReRAG, Table 4)
    "wide.csv": (
        "Model,MuSiQue EM,MuSiQue F1\nRAPTOR (GPT-4o),36.40,49.09\nSiReRAG,40.50,53.08\n",
        "1000",
        [
            ("MuSiQue", "EM", "RAPTOR (GPT-4o)", 0.364, 1000),
            ("MuSiQue", "EM", "SiReRAG", 0.405, 1000),
            ("MuSiQue", "F1", "RAPTOR (GPT-4o)", 0.4909, 1000),
            ("MuSiQue", "F1", "SiReRAG", 0.5308, 1000),
        ],
    ),
    # rows by data set, as fractions (GRIEVER, Table 1)
    "grouped.tsv": (
        "data\tretriever\tn\tR@5\nmusique\tBM25\t500\t0.351\nhotpotqa\tBM25\t1,000\t0.668\n",
        "",
        [("musique", "R@5", "BM25", 0.351, 500), ("hotpotqa", "R@5", "BM25", 0.668, 1000)],
    ),
    # a README with bold figures and percent signs, and an average (LightRAG, Vector Graph RAG)
    "readme.md": (
        "# Results\n\n| Method | MuSiQue R@5 | Average R@5 |\n|:---|---:|---|\n| [Naive](x.md) | 55.6% | 73.4% |\n"
        "| **Graph** | **73.0%** | **87.8%** |\n\nMore text | with a bar\n",
        "1000",
        [("MuSiQue", "R@5", "Naive", 0.556, 1000), ("MuSiQue", "R@5", "Graph", 0.73, 1000)],
    ),
    # known data sets (BEIR, Table 2): a data set in each column, one metric
    "beir.csv": (
        "method,SciFact nDCG@10,NFCorpus nDCG@10\nBM25,0.665,0.325\nColBERT,.671,-\n",
        "",
        [
            ("SciFact", "nDCG@10", "BM25", 0.665, 300),
            ("SciFact", "nDCG@10", "ColBERT", 0.671, 300),
            ("NFCorpus", "nDCG@10", "BM25", 0.325, 323),
        ],
    ),
    # means and deviations of runs (SiReRAG, Table 2), a metric in brackets (RAPTOR, Table 2)
    "runs.csv": (
        "method,Accuracy (QuALITY dev)\nRAPTOR,78.88 ± 0.5\nother,78.76 (0.4)\n",
        "",
        [("QuALITY dev", "Accuracy", "RAPTOR", 0.7888, 2086), ("QuALITY dev", "Accuracy", "other", 0.7876, 2086)],
    ),
    # a column of text, columns without a metric, and a cell without a figure in the first row (DPR, Table 2)
    "text.csv": (
        "Retriever;Training;NQ-open top-20;WebQuestions top-20\nBM25;None;;55,0\nDPR;Single;78,4;73,2\n",
        "",
        [
            ("NQ-open", "top-20", "DPR", 0.784, 3610),
            ("WebQuestions", "top-20", "BM25", 0.55, 2032),
            ("WebQuestions", "top-20", "DPR", 0.732, 2032),
        ],
    ),
    # a row for each figure
    "long.csv": (
        "data,n,metric,method,value\nNQ,1000,recall@5,dense,75.4\nNQ,1000,recall@5,graph,78.0\n",
        "",
        [("NQ", "recall@5", "dense", 0.754, 1000), ("NQ", "recall@5", "graph", 0.78, 1000)],
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name: str, tmp_path: Path) -> None:
    text, n, expected = SHAPES[name]
    assert rows_of(read_figures(write(tmp_path, name, text), n)) == expected


def test_rows_of_json_and_of_python_are_the_same(tmp_path: Path) -> None:
    rows = [{"method": "bm25", "n": 300, "Success@5": 0.61}, {"method": "dense", "n": 300, "Success@5": None}]
    path = write(tmp_path, "rows.json", json.dumps(rows))
    assert rows_of(read_figures(path)) == rows_of(read_figures(rows)) == [("", "Success@5", "bm25", 0.61, 300)]


@pytest.mark.parametrize(
    "study", sorted((ROOT / "eval/ragindex_eval/studies").glob("*-table-*.yaml")), ids=lambda path: path.stem
)
def test_studies_are_tables(study: Path) -> None:
    table = read_figures(study, "1000" if study.stem == "sirerag-table-2" else "2086")
    assert table.figures
    assert all(0 <= figure.mean.value <= 1 for figure in table.figures)


def test_study_has_its_questions_and_decimals() -> None:
    """YAML reads 0.41 of a column of three decimals, which is 0.410."""
    table = read_figures(ROOT / "eval/ragindex_eval/studies" / "griever-table-1.yaml")
    figure = next(figure for figure in table.figures if figure.method == "BM25" and figure.metric.name == "R@10")
    assert (figure.mean.questions, figure.baseline) == (500, "Composed")
    assert (figure.mean.low, figure.mean.high) == pytest.approx((0.4095, 0.4105))


def test_printed_figure_is_as_exact_as_its_decimals() -> None:
    (few, more) = read_figures([{"method": "a", "EM": "40"}, {"method": "b", "EM": "40.50"}], "1000").figures
    assert (few.mean.low, few.mean.high) == pytest.approx((0.395, 0.405))
    assert (more.mean.low, more.mean.high) == pytest.approx((0.40495, 0.40505))


def test_means_of_runs_are_not_zero_or_one() -> None:
    rows = [{"method": "a", "EM": "49.3 ± 1.1"}, {"method": "b", "EM": "41.2"}]
    assert [figure.mean.binary for figure in read_figures(rows, "500").figures] == [False, True]


def test_notes_say_what_is_left_out_and_assumed(tmp_path: Path) -> None:
    text = "method,SciFact BLEU-1,SciFact nDCG@10,Avg F1,prose\na,20,31±2,40,50\nb,21,about 30,41,51\n"
    with pytest.raises(UsageError, match="unknown how many questions 'prose' has"):
        read_figures(write(tmp_path, "t.csv", text))
    table = read_figures(write(tmp_path, "t.csv", text), "300")
    assert len(table.figures) == 3
    assert table.notes[-5:] == (
        "BLEU-1 is of a whole corpus, not a mean over questions, and is left out",
        "what follows ± is left out: runs say nothing about other questions, and their mean is not of 0 and 1",
        "averages over data sets are left out: no number of questions belongs to them",
        "no metric is named (--metric): its values are taken to be from 0 to 1; --binary says that they are 0 or 1",
        "no figure, and left out: 'about 30' of b",
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "method,EM\n", "expected a header and rows; found 1 line"),
        ("t.csv", "method,EM\na,1,2\n", "expected 2 columns in each row; found 3 in 'a, 1, 2'"),
        ("t.json", '{"a": 1}', "expected a list of rows"),
        ("t.json", "{", "expected JSON"),
        ("t.xlsx", "", "expected a table as .csv, .tsv, .md, .json or .yaml; found .xlsx"),
        ("t.yaml", "a: [", "expected YAML"),
        ("t.yaml", "published: {unit: percent}", "as in studies/; found source: Field req"),
    ],
)
def test_file_that_is_no_table(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        read_figures(write(tmp_path, name, text), "100")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"method": "a", "EM": 101.5}], "a mean must be from 0 to 1, or from 0 to 100 %. Got 101.5"),
        ([{"method": "a", "EM": "-"}], "has no figure that can be audited"),
        ([{"method": "a", "EM": 10}, {"method": "a", "EM": 20}], "'a' has two figures for EM"),
    ],
)
def test_figures_that_are_refused(rows: list[dict[str, object]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_figures(rows, "100")


def test_values_of_the_command_line() -> None:
    table, baseline = make_figures(["40.5%", "36.4%"], "1000", "EM")
    assert rows_of(table) == [("", "EM", "the value", 0.405, 1000), ("", "EM", "the baseline", 0.364, 1000)]
    assert baseline == "the baseline"
    with pytest.raises(UsageError, match="A value must be a number"):
        make_figures(["high"], "1000", "EM")


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("MuSiQue R@5", ("MuSiQue", "R@5")),
        ("R@5", ("", "R@5")),
        ("Accuracy (QuALITY)", ("QuALITY", "Accuracy")),
        ("Answer F1 (QASPER)", ("QASPER", "Answer F1")),
        ("MS MARCO MRR@10", ("MS MARCO", "MRR@10")),
        ("HotpotQA/EM", ("HotpotQA", "EM")),
        ("Average F1", ("Average", "F1")),
        ("NQ", ("NQ", "")),
        ("Recall@5 (%) ↑", ("", "Recall@5")),
        ("MS MARCO R@1k", ("MS MARCO", "R@1k")),
        ("2Wiki LLM-Acc.", ("2Wiki", "LLM-Acc")),
        ("Hit@1 [%]", ("", "Hit@1")),
    ],
)
def test_heading(heading: str, expected: tuple[str, str]) -> None:
    assert split_heading(heading) == expected


@pytest.mark.parametrize(
    ("name", "binary"),
    [("EM", True), ("accuracy", True), ("Success@5", True), ("hit@10", True), ("F1", False), ("R@5", False)],
)
def test_metric_of_zero_and_one(name: str, *, binary: bool) -> None:
    assert read_metric(name).known
    assert read_metric(name).binary is binary


def test_cutoffs_in_thousands_rise_with_k() -> None:
    assert (read_metric("R@1k").k, read_metric("R@100").k, read_metric("MRR@10").k) == (1000, 100, None)


@settings(max_examples=examples(100))
@given(
    st.sampled_from(["t.csv", "t.tsv", "t.md", "t.json", "t.yaml"]),
    st.lists(st.text("aR@51%.,|-±*(\n\t \"'{}[]:0", max_size=12), max_size=12).map("|".join) | st.text(max_size=60),
)
def test_any_text_is_a_table_or_an_error(tmp_path_factory: pytest.TempPathFactory, name: str, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / name
    path.write_bytes(text.encode("utf-8", "replace"))
    try:
        table = read_figures(path, "50", "EM")
        claims = audit_claims(table.figures)
    except RagindexError:
        return
    assert all(0 <= figure.mean.value <= 1 for figure in table.figures)
    assert len(audit_figures(table.figures)) == len(table.figures)
    assert all(0 <= claim.p[0] <= claim.p[1] <= 1 for claim in claims)


def test_number_of_questions_by_name() -> None:
    assert (find_count("scifact"), find_count("TREC-Covid"), find_count("musique")) == (300, 50, None)
    with pytest.raises(UsageError, match=r"'MuSiQue' has several numbers of questions: 'MuSiQue dev' \(2,417\)"):
        require_count("MuSiQue")
    with pytest.raises(UsageError, match="Did you mean 'SciFact'"):
        require_count("scifakt")


def test_given_number_differs_from_that_of_the_name() -> None:
    rows = [{"method": "a", "SciFact nDCG@10": 0.66}]
    assert read_figures(rows, "500").notes == ("SciFact: 500 questions, as given; the benchmark of this name has 300",)
    assert read_figures(rows).notes == ("SciFact: 300 questions, by its name",)
    assert read_figures(rows, "300").notes == ()


def test_numbers_of_questions_add_up() -> None:
    """The splits of QuALITY, QASPER and LoTTE, against the totals of their papers."""
    assert 2523 + KNOWN["QuALITY dev"] + KNOWN["QuALITY test"] == 6737
    assert 2593 + KNOWN["QASPER dev"] + KNOWN["QASPER test"] == 5049
    topics = ("writing", "recreation", "science", "technology", "lifestyle")
    assert sum(KNOWN[f"LoTTE {topic}"] for topic in topics) == KNOWN["LoTTE pooled"]


@pytest.mark.parametrize("written", ["0", "99999999999", "-5", "1.5"])
def test_number_of_questions_that_is_none(written: str) -> None:
    with pytest.raises(UsageError):
        parse_count(written)
