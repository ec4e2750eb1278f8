"""Rankings in files, compared without an index: trec_eval's own test files, and made ones."""

import gzip
import random
from collections.abc import Iterable
from pathlib import Path

import bm25s
import ir_measures
import pytest
from command_line import ragindex

from ragindex_eval.data.run_files import read_run
from ragindex_eval.mlflow import tracking
from ragindex_eval.results.files import load_results
from ragindex_eval.results.model import Comparison, Study
from ragindex_eval.run.compare_runs import compare_runs
from ragindex_eval.run.settings import MeasureSettings

FILES = Path(__file__).parents[3] / "support" / "trec_eval"
KS = (1, 5, 10, 20, 100)
QRELS = ("--qrels", "qrels.trec")
NAMES = [ir_measures.parse_measure(f"{name}@{k}") for name in ("R", "Success", "nDCG") for k in KS]


def unpack(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).write_bytes(gzip.decompress((FILES / f"{name}.gz").read_bytes()))
    return [folder / name for name in names]


def require_equal(comparison: Comparison, label: str, qrels: Iterable[ir_measures.Qrel], run: Path) -> None:
    """Check means and every question against ir_measures, to 12 digits.

    ir_measures has RR without a cutoff from trec_eval; with a cutoff it breaks ties otherwise than trec_eval.
    """
    judgements = list(qrels)
    lines = (line.split() for line in run.read_text().splitlines())
    scored = [ir_measures.ScoredDoc(fields[0], fields[2], float(fields[4])) for fields in lines if fields]
    method = comparison.method(label)
    for measure, expected in ir_measures.calc_aggregate(NAMES, judgements, scored).items():
        assert method.metrics[str(measure)] == pytest.approx(expected, rel=1e-12, abs=1e-12), measure
    for metric in ir_measures.iter_calc(NAMES, judgements, scored):
        value = method.per_query[metric.query_id][str(metric.measure)]
        assert value == pytest.approx(metric.value, rel=1e-12, abs=1e-12), metric
    for metric in ir_measures.iter_calc([ir_measures.RR], judgements, scored):
        for k in KS:
            expected = metric.value if metric.value >= 1 / k - 1e-15 else 0.0
            assert method.per_query[metric.query_id][f"RR@{k}"] == pytest.approx(expected, rel=1e-12), metric


@pytest.mark.parametrize(
    ("qrels", "run"),
    [
        ("qrels.test", "results.test"),
        ("qrels.test", "results.trunc"),
        ("qrels.rel_level", "results.test"),
        ("qrels-302.test", "results-302.test"),
    ],
)
def test_figures_of_the_files_of_trec_eval(tmp_path: Path, qrels: str, run: str) -> None:
    judged, ranked = unpack(tmp_path, qrels, run)
    comparison = compare_runs([ranked], judged, MeasureSettings(k=KS))
    require_equal(comparison, read_run(ranked).name, ir_measures.read_trec_qrels(str(judged)), ranked)
    packed = compare_runs([FILES / f"{run}.gz"], FILES / f"{qrels}.gz", MeasureSettings(k=KS))
    assert packed.methods[0].metrics == comparison.methods[0].metrics


def test_ties_missing_queries_and_grades(tmp_path: Path) -> None:
    draw = random.Random(5)
    documents = [f"d{number}" for number in range(40)]
    lines, judgements = [], []
    for number in range(60):
        query = f"q{number}"
        judged = draw.sample(documents, 8)
        judgements += [f"{query} 0 {document} {draw.choice((-2, -1, 0, 1, 2, 3))}" for document in judged]
        if number % 7:  # some queries have no ranking
            ranked = draw.sample(documents, 25)
            lines += [f"{query} Q0 {document} 0 {draw.choice((0.1, 0.2, 0.3, 1e-9))} tag" for document in ranked]
    lines.append("q999 Q0 d1 1 1.0 tag")
    run, qrels = tmp_path / "made.trec", tmp_path / "qrels.trec"
    run.write_text("\n".join(lines))
    qrels.write_text("\n".join(judgements))
    comparison = compare_runs([run], qrels, MeasureSettings(k=KS))
    require_equal(comparison, "made", ir_measures.read_trec_qrels(str(qrels)), run)
    notes = " | ".join(comparison.notes)
    assert "made lacks 9 judged questions: each scores 0" in notes
    assert "made ranks for 1 question without judgements, which are left out" in notes


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    queries = range(40)
    Path("qrels.trec").write_text("".join(f"q{n} 0 gold{n} 1\n" for n in queries))
    Path("a.trec").write_text("".join(f"q{n} Q0 gold{n} 1 2.0 a\nq{n} Q0 q{n} 2 1.0 a\n" for n in queries))
    Path("b.trec").write_text("".join(f"q{n} Q0 q{n} 1 2.0 b\nq{n} Q0 gold{n} 2 1.0 b\n" for n in queries))
    return tmp_path


def test_command_compares_tests_and_reports_rankings(files: Path) -> None:
    arguments = ("compare", "--run", "b.trec", "--run", "a.trec", "--qrels", "qrels.trec", "--k", "1,2")
    done = ragindex(*arguments, "--json", "-", "--out", "out")
    first, second = done.json["methods"]
    assert (first["label"], first["metrics"]["R@1"], second["metrics"]["R@1"]) == ("a", 1.0, 0.0)
    (pair,) = [pair for pair in done.json["pairs"] if pair["metric"] == "R@1"]
    assert pair["p"] < 0.001
    unknown = {"input_tokens": None, "output_tokens": None, "money": None, "estimated": False}
    assert first["usage"]["index"] == unknown
    assert first["usage"]["query"] == {**unknown, "calls": None}
    assert (first["index"]["seconds"], first["index"]["bytes"], first["latency_ms"]["p50"]) == (None, None, None)
    assert (done.json["dataset"]["documents"], done.json["dataset"]["questions"]) == (None, 40)
    assert any("80 hits are of a document with the question's own id, and count" in note for note in done.json["notes"])
    page = Path("out/report.html").read_text()
    assert "documents unknown" in page
    assert load_results(Path("out")).comparisons[0].to_json() == done.json
    printed = ragindex(*arguments, "--out", "out").out
    assert "\nseed 0; fingerprint " in printed
    for unknown in ("encoder identity", "encoder unknown", "language of the texts"):
        assert unknown not in printed + page
    assert "latency" not in printed
    assert "$" not in printed
    assert ragindex(*arguments, "--out", "out", "--fail-below", "b:R@1=0.5").code == 8
    assert ragindex("report", "out").code == 0
    table = ragindex("results", "out", "--question", "q3")
    assert "gold3" in table.out


def test_hits_with_the_id_of_the_question(files: Path) -> None:
    arguments = ("compare", "--run", "b.trec", "--qrels", "qrels.trec", "--k", "1", "--out", "out", "--json", "-")
    assert ragindex(*arguments).json["methods"][0]["metrics"]["R@1"] == 0.0
    ignoring = ragindex(*arguments, "--ignore-identical-ids")
    assert ignoring.json["methods"][0]["metrics"]["R@1"] == 1.0
    assert (
        "hits of a document with the question's own id are left out, as BEIR's evaluation does"
        in ignoring.json["notes"]
    )


def test_gate_of_files_of_rankings(files: Path) -> None:
    """They need no results that were saved; files of the same name stay apart, and results are a baseline, too."""
    given = ("--qrels", "qrels.trec", "--metric", "R@1", "--k", "1", "--json", "-")
    failed = ragindex("gate", "b.trec", "--against", "a.trec", *given)
    assert (failed.code, failed.json["verdict"], failed.json["new_score"], failed.json["baseline_score"]) == (
        *(12, "FAIL", 0.0, 1.0),
    )
    (files / "old").mkdir()
    (files / "old" / "a.trec").write_text((files / "a.trec").read_text())
    passed = ragindex("gate", "a.trec", "--against", "old/a.trec", *given[:-2])
    assert passed.code == 0
    assert passed.out == ("PASS: R@1 of a is 100.0, from the same hits as in the baseline for each of 40 questions.\n")
    ignoring = ragindex("gate", "b.trec", "--against", "a.trec", *given, "--ignore-identical-ids")
    assert (ignoring.code, ignoring.json["new_score"]) == (13, 1.0)  # level, but other files
    ragindex("compare", "--run", "a.trec", "--qrels", "qrels.trec", "--k", "1", "--out", "out")
    assert ragindex("gate", "b.trec", "--against", "out:a", *given).code == 12


def test_comparison_is_recorded_where_mlflow_is_used(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[tuple[Study, Path]] = []
    monkeypatch.setattr(tracking, "track", lambda study, folder: recorded.append((study, folder)))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    arguments = ("compare", "--run", "a.trec", "--run", "b.trec", "--qrels", "qrels.trec", "--k", "1", "--out", "out")
    assert ragindex(*arguments).code == 0
    assert recorded == []
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///here.db")
    assert ragindex(*arguments).code == 0
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    Path("mlflow.db").touch()
    assert ragindex(*arguments).code == 0
    labels = [[method.label for method in study.comparisons[0].methods] for study, _ in recorded]
    assert (labels, [folder for _, folder in recorded]) == ([["a", "b"]] * 2, [Path("out")] * 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--run", "a.trec"], "--run needs the judgements that score the rankings: --qrels FILE"),
        (["compare", *QRELS, "notes"], "Name them: --run FILE"),
        (["compare", "--run", "a.trec", *QRELS, "--methods", "bm25"], "so leave out --methods."),
        (["compare", "--run", "a.trec", "--run", "other/a.trec", *QRELS], "Two runs are called 'a'"),
        (["compare", "--run", "none.trec", *QRELS], "none.trec"),
        (["gate", "a.trec", "--against", "b.trec"], "a.trec is a file of rankings. Name the judgements"),
        (["gate", "bm25", "--against", "dense", *QRELS], "about files of rankings, and none is named"),
        (["gate", "a.trec", "--against", "b.trec", *QRELS, "--metric", "R@7"], "must be one of those measured: R@5"),
    ],
)
def test_wrong_use(files: Path, arguments: list[str], message: str) -> None:
    Path("other").mkdir()
    Path("other/a.trec").write_bytes(Path("a.trec").read_bytes())
    done = ragindex(*arguments)
    assert done.code in (2, 3)
    assert message in done.err


@pytest.mark.parametrize(
    "arguments", [["--run", "a.trec", "--run", "b.trec", "--qrels", "qrels.trec"], ["--qrels", "qrels.trec"]]
)
def test_recommend_names_the_command_for_rankings(files: Path, arguments: list[str]) -> None:
    done = ragindex("recommend", *arguments)
    assert (done.code, done.out) == (2, "")
    command = "compare --run FILE --run FILE --qrels FILE"
    assert done.err == (
        "error: recommend saves building methods and asking questions, which rankings in files do not need. "
        f"Which of them is best: ragindex {command}\n"
    )
    for name in ("a.trec", "b.trec"):
        command = command.replace("--run FILE", f"--run {name}", 1)
    compared = ragindex(*command.replace("FILE", "qrels.trec").split(), "--k", "1", "--out", "out")
    assert compared.code == 0, compared.err
    assert "a is best at R@1 (100.0;" in compared.out


def test_rankings_of_other_runs_are_kept(files: Path) -> None:
    given = ("compare", "--qrels", "qrels.trec", "--k", "1")
    assert ragindex(*given, "--run", "a.trec", "--run", "b.trec").err == ""
    single = ragindex(*given, "--run", "b.trec").err
    backup = "ragindex-results/qrels.trec.1"
    assert (
        single == f"ragindex-results/qrels.trec held results of 40 questions and 2 methods, which are now in {backup}\n"
    )
    assert [method.label for method in load_results(Path(backup)).comparisons[0].methods] == ["a", "b"]


def test_figures_that_trec_eval_prints(tmp_path: Path) -> None:
    """Those of its own expected output, `out.test.a`, for the first of its files."""
    judged, ranked = unpack(tmp_path, "qrels.test", "results.test")
    method = compare_runs([ranked], judged, MeasureSettings(k=KS)).methods[0]
    printed = {"R@5": 0.0173, "R@10": 0.0317, "R@20": 0.1061, "nDCG@10": 0.3016, "nDCG@100": 0.3916}
    assert {name: round(method.metrics[name], 4) for name in printed} == printed


def test_runs_of_bm25s_in_the_format_of_pyserini(tmp_path: Path) -> None:
    """Scores of six digits, many of them equal, and tabs in the judgements."""
    draw, words = random.Random(3), [f"word{number}" for number in range(30)]
    texts = [" ".join(draw.choices(words, k=6)) for _ in range(200)]
    queries = {f"q{number}": " ".join(draw.sample(words, 2)) for number in range(30)}
    retriever = bm25s.BM25(method="lucene")
    retriever.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    tokenized = bm25s.tokenize(list(queries.values()), show_progress=False)
    ids, scores = retriever.retrieve(tokenized, k=50, show_progress=False)
    run, qrels = tmp_path / "bm25s.trec", tmp_path / "qrels.tsv.trec"
    run.write_text(
        "".join(
            f"{query} Q0 doc{document} {rank} {score:.6f} Anserini\n"
            for query, documents, row in zip(queries, ids, scores, strict=True)
            for rank, (document, score) in enumerate(zip(documents, row, strict=True), start=1)
        )
    )
    qrels.write_text("".join(f"{query}\t0\tdoc{draw.randrange(200)}\t{draw.choice((1, 2))}\n" for query in queries))
    assert len({line.split()[4] for line in run.read_text().splitlines()}) < 1000  # of 1,500
    comparison = compare_runs([run], qrels, MeasureSettings(k=KS))
    require_equal(comparison, "bm25s", ir_measures.read_trec_qrels(str(qrels)), run)


def test_gate_of_saved_rankings(files: Path) -> None:
    ragindex("compare", "--run", "a.trec", "--run", "b.trec", "--qrels", "qrels.trec", "--k", "1", "--out", "out")
    passed = ragindex("gate", "out:a", "--against", "out:b", "--metric", "R@1")
    assert (passed.code, passed.out.startswith("PASS")) == (0, True)
    assert ragindex("gate", "out:b", "--against", "out:a", "--metric", "R@1").code == 12
