"""A comparison of chunkings by the evidence that questions name: from the files to figures by hand, and back."""

import json
from pathlib import Path

import pytest

import ragindex
from ragindex.errors import DataError
from ragindex_eval.metrics.evidence import TokensToRecall
from ragindex_eval.report.sections.ablations import render_ablations
from ragindex_eval.results.files import load_results

PIER = "# Pier\n\nThe old pier is shut.\n\n## Fees\n\nA berth costs nine crowns.\n\n## Tides\n\nA tide turns twice.\n"
MILL = "# Mill\n\nThe mill grinds rye, and no berth is there.\n"
QUESTIONS = """question,answer,documents,evidence
What does a berth cost?,nine crowns,pier.md,costs nine crowns.
How often does the tide turn?,twice,pier.md,tide turns || pier.md:78-97
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "pier.md").write_text(PIER)
    (tmp_path / "pages" / "mill.md").write_text(MILL)
    (tmp_path / "questions.csv").write_text(QUESTIONS)
    return tmp_path


def test_evidence_is_found_in_small_passages_for_fewer_tokens(data: Path) -> None:
    assert PIER[78:97] == "A tide turns twice."
    methods = ["bm25(over=passages(by=documents))", "bm25(over=passages(by=sections))"]
    result = ragindex.compare("pages", methods, questions="questions.csv", k=(1, 2))
    result.save("out")
    large, small = (result[label] for label in methods)
    assert [large["evidence_R@1"], large["evidence_R@2"]] == [1.0, 1.0]
    assert [small["evidence_R@1"], small["evidence_R@2"]] == [1.0, 1.0]
    # estimated tokens of "Pier", newline, and the text: a quarter of the characters, rounded up
    fees_at, tides_at = PIER.index("## Fees"), PIER.index("## Tides")
    texts = (PIER.strip(), PIER[fees_at:tides_at].strip(), PIER[tides_at:].strip())
    document, fees, tides = (-(-len(f"Pier\n{text}") // 4) for text in texts)
    assert large["tokens_to_recall@0.8"] == document
    assert (small["tokens_to_recall@0.5"], small["tokens_to_recall@0.8"]) == (min(tides, fees), max(tides, fees))
    assert "tokens to recall" in str(result)
    assert "evidence R" in str(result)
    section = render_ablations(result.comparison)
    assert section is not None
    titles = [column.title for column in section.columns]
    assert titles[:4] == ["evidence_R@1", "evidence_R@2", "R@1", "R@2"]
    cells = section.tables[0].rows[0].cells
    assert cells[titles.index("tokens to 80% of evidence")].text == str(document)
    assert cells[titles.index("tokens to 80% of evidence")].interval == f"{document} to {document}"

    method = next(compared for compared in result.comparison.methods if compared.label == methods[0])
    assert method.tokens_to_recall["tokens_to_recall@0.8"] == TokensToRecall(document, (document, document))
    (loaded,) = load_results(data / "out").comparisons
    assert loaded.gold == result.comparison.gold
    assert [compared.tokens_to_recall for compared in loaded.methods] == [
        compared.tokens_to_recall for compared in result.comparison.methods
    ]
    lines = [json.loads(line) for line in (data / "out" / "questions.jsonl").read_text().splitlines()]
    assert [len(line["evidence"]) for line in lines] == [1, 2]
    assert lines[1]["evidence"][0] == ["pier.md", *([start, end] for start, end in ((80, 84), (85, 90)))]


def test_a_quote_that_stands_nowhere_stops_the_comparison(data: Path) -> None:
    (data / "questions.csv").write_text(QUESTIONS.replace("costs nine crowns.", "costs ten crowns"))
    with pytest.raises(DataError, match=r"questions.csv, line 2: expected evidence that stands once"):
        ragindex.compare("pages", ["bm25"], questions="questions.csv")
