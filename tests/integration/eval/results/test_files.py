"""A study's files, read back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from comparing import compare

from ragindex.corpus import Corpus
from ragindex.errors import DataError
from ragindex.types import Document, Query
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.report import page
from ragindex_eval.results.files import load_results, save_results
from ragindex_eval.results.model import Comparison, Study
from ragindex_eval.results.seeds import study_to_json

DOCUMENTS = (
    Document("anna", "Grey Anna", "Grey Anna is the highest hill of the north."),
    Document("sarn", "Sarn", "The Sarn is a river that carries barges with slate."),
    Document("quill", "Nether Quill <b>", "Nether Quill is a town made of slate \u2028 and wool."),
)
QUERIES = (Query("q1", "Which hill is highest?"), Query("q2", "What carries slate?"), Query("q3", "Who knows?"))
GOLD = {
    "q1": Gold(frozenset({"anna"}), ("Grey Anna",), "2hop", "hills-1", {"anna": 1}),
    "q2": Gold(frozenset({"sarn", "quill"}), (), "3hop", "", {"quill": 1, "sarn": 2}),
}


def compared(folder: Path, gold: dict[str, Gold] | None) -> Comparison:
    data = Dataset("tiny", Corpus("tiny", "jsonl", DOCUMENTS, 0, (), True), QUERIES, gold, "0123456789abcdef")
    return compare(data, ["bm25", "hybrid"], k=(1, 2), index=folder)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("w")


@pytest.fixture(scope="module")
def comparison(index: Path) -> Comparison:
    return compared(index, GOLD)


@pytest.mark.parametrize("judged", [True, False])
def test_what_is_read_back_is_what_was_written(
    tmp_path: Path, comparison: Comparison, index: Path, judged: bool
) -> None:
    comparison = comparison if judged else compared(index, None)
    study = Study("tiny", (comparison,), "ragindex compare tiny")
    save_results(study, tmp_path / "out")
    back = load_results(tmp_path / "out")
    assert study_to_json(back) == study_to_json(study)
    assert (back.name, back.command) == ("tiny", "ragindex compare tiny")
    for name in ("dataset", "queries", "gold", "pairs", "ks", "encoder_id", "language", "fingerprint"):
        assert getattr(back.comparisons[0], name) == getattr(comparison, name), name
    for read, method in zip(back.comparisons[0].methods, comparison.methods, strict=True):
        assert read.final == method.final
        assert (read.per_query, read.latency, read.ci95) == (method.per_query, method.latency, method.ci95)
        assert read.breakdown == method.breakdown
    assert comparison.methods[1].final[0].trace[1].index == back.comparisons[0].methods[1].final[0].trace[1].index
    assert page.render_report(back) == page.render_report(study)


def test_several_comparisons_each_have_a_folder(tmp_path: Path, comparison: Comparison) -> None:
    study = Study("seeds", (comparison, replace(comparison, seed=1)))
    save_results(study, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["01-tiny", "02-tiny", "study.json"]
    back = load_results(tmp_path / "out")
    assert [comparison.seed for comparison in back.comparisons] == [0, 1]
    assert study_to_json(back) == study_to_json(study)
    assert set(study_to_json(back)) == {"schema", "name", "comparisons", "spread"}


def test_files_of_an_earlier_release_are_read_and_written_alike(tmp_path: Path) -> None:
    """They have answers that were read, a holdout, published figures and trees; fields that came later are added."""
    before = Path(__file__).parents[3] / "support/results_of_schema_7"
    study = load_results(before)
    (comparison,) = study.comparisons
    assert [method.label for method in comparison.methods] == ["BM25", "Hybrid", "raptor", "b3"]
    assert [bound.label for bound in comparison.bounds] == ["no-passages", "gold-passages"]
    assert comparison.holdout is not None
    assert comparison.published is not None
    assert comparison.coverage is not None
    assert comparison.methods[0].final[0].reading is not None
    save_results(study, tmp_path)
    files = [path.relative_to(before) for path in before.rglob("*") if path.is_file()]
    assert sorted(files) == sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    for file in files:
        expected = (before / file).read_text("utf-8")
        if file.name == "comparison.json":
            expected = expected.replace(
                '"prompt": "short"', '"prompt": "short",\n    "passages": null,\n    "input": "notes"'
            )
        assert (tmp_path / file).read_text("utf-8") == expected, file


def test_what_is_no_result_is_an_error(tmp_path: Path, comparison: Comparison) -> None:
    with pytest.raises(DataError, match=r"study.json: expected a folder that ragindex compare --out wrote"):
        load_results(tmp_path)
    save_results(Study("tiny", (comparison,)), tmp_path / "out")
    lines = (tmp_path / "out" / "per_query.jsonl").read_text().strip().split("\n")
    (tmp_path / "out" / "per_query.jsonl").write_text(lines[0] + "\n" + lines[1][:50])
    with pytest.raises(DataError, match=r"per_query.jsonl, line 2: expected a JSON object a line"):
        load_results(tmp_path / "out")
    (tmp_path / "out" / "per_query.jsonl").write_text("\n".join(lines[:-1]))
    with pytest.raises(DataError, match=r"expected a line for each of 3 questions and hybrid; found 2, or others"):
        load_results(tmp_path / "out")
    text = (tmp_path / "out" / "comparison.json").read_text()
    (tmp_path / "out" / "comparison.json").write_text(text.replace('"R@1": ', '"R@1": NaN, "R@3": ', 1))
    with pytest.raises(DataError, match=r"comparison.json: expected JSON; found NaN is no number"):
        load_results(tmp_path / "out")
    (tmp_path / "out" / "comparison.json").write_text(text)
    value = json.loads((tmp_path / "out" / "comparison.json").read_text())
    del value["pairs"]
    (tmp_path / "out" / "comparison.json").write_text(json.dumps(value))
    (tmp_path / "out" / "per_query.jsonl").write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"compare --out writes; found none under the key 'pairs'"):
        load_results(tmp_path / "out")
    (tmp_path / "out" / "comparison.json").write_text(json.dumps({**value, "pairs": [], "seed": "s"}))
    with pytest.raises(DataError, match=r"found others \(seed: Input should be a valid integer"):
        load_results(tmp_path / "out")
    (tmp_path / "out" / "per_query.jsonl").write_text("")
    with pytest.raises(
        DataError, match=r"expected the files that ragindex compare --out writes; found none under the key"
    ):
        load_results(tmp_path / "out")
    (tmp_path / "out" / "study.json").write_text('{"schema": 1}')
    with pytest.raises(DataError, match=r"study.json: expected results of schema 7; found 1"):
        load_results(tmp_path / "out")
