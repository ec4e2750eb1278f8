"""Coverage by clusters, in the report of a comparison."""

from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from comparing import compare

from ragindex_eval.data.datasets import read_dataset
from ragindex_eval.report import page as report
from ragindex_eval.results.files import load_results, save_results
from ragindex_eval.results.model import Study


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_in_the_report_of_a_comparison_and_read_back(tmp_path: Path) -> None:
    data = read_dataset("world:100", limit=20)
    result = compare(data, ["bm25", "sirerag(base=bm25)"], k=(5,), index=tmp_path / "w")
    assert result.coverage is not None
    names = ["summary_tree, level 1", "summary_tree(over=aggregates), level 1", "aggregates"]
    assert [grouping.name for grouping in result.coverage.groupings] == names
    assert list(result.coverage.pools) == ["sirerag(base=bm25)"]
    assert result.coverage.pools["sirerag(base=bm25)"] > 100
    study = Study("made", (result,))
    save_results(study, tmp_path / "out")
    again = load_results(tmp_path / "out")
    assert again.comparisons[0].coverage == result.coverage
    page = BeautifulSoup(report.render_report(again), "html.parser")
    section = page.find(id="c1-coverage")
    assert section is not None
    labels = [cell.text for cell in page.select('[aria-label="Coverage"] tbody th')]
    assert labels == [f"{number} {name}" for number, name in enumerate(names, start=1)]
    assert page.select('[aria-label="Pools"] tbody td')[-1].text == "–"
