"""Exports of compared methods: their evidence, and the best one as an MLflow model."""

import tomllib
from pathlib import Path

import pytest
from command_line import failed, make_desk
from command_line import ragindex as run

import ragindex
from ragindex.errors import UsageError

QUESTION = "Which hill is highest?"


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path / "cache"))
    return make_desk(tmp_path, monkeypatch)


def read(path: Path) -> dict[str, object]:
    return tomllib.loads((path / "retriever.toml").read_text())


def test_a_result_exports_a_method_with_its_evidence() -> None:
    result = ragindex.compare("notes", ["bm25", "hybrid(rrf_k=20)"], questions="questions.csv", index="w")
    written = result["hybrid(rrf_k=20)"].export("retriever")
    evidence = read(written.path)["evidence"]
    method = result.comparison.method("hybrid(rrf_k=20)")
    assert evidence["metrics"] == dict(method.metrics)
    assert evidence["ci95"] == {name: list(method.ci95[name]) for name in method.metrics if name in method.ci95}
    assert evidence["compared_with"] == ["bm25"]
    assert evidence["questions_digest"] == result.comparison.dataset.questions_digest
    with ragindex.load("retriever") as retriever, ragindex.open("w") as index:
        assert retriever.search(QUESTION).hits == index.retriever("hybrid(rrf_k=20)").search(QUESTION).hits
        index.add([ragindex.Document("new", "New", "A new document.")], source="other")
        index.build()
    with pytest.raises(UsageError, match="are not those of w as it is now"):
        result["bm25"].export("other")
    assert not Path("other").exists()


def test_saved_results_are_evidence_for_the_same_state_only() -> None:
    given = ("--questions", "questions.csv", "--methods", "bm25,hybrid", "--index", "w", "--out", "r")
    arguments = ("compare", "notes", *given)
    assert run(*arguments).code == 0
    json = run("export", "w", "--results", "r", "--out", "retriever", "--json", "-").json
    best = run(*arguments, "--json", "-").json["methods"][0]
    assert (json["method"]["label"], json["evidence"]["metrics"]) == (best["label"], best["metrics"])
    assert run("search", QUESTION, "--retriever", "retriever", "-k", "1").code == 0
    measured = f"measured        R@5 {100 * best['metrics']['R@5']:.1f}, "  # in percent, as in the table
    assert measured in run("export", "w", "--results", "r", "--out", "retriever").out
    refused = "if it changes   load refuses it: export again, or load(…, follow=True); --pack keeps a copy"
    assert refused in run("export", "w", "--method", "bm25", "--out", "another").out
    again = run("export", "w", "--method", "bm25", "--out", "another").err
    assert again == "This replaced an earlier export of bm25 in another. To keep both: --out ANOTHER.\n"
    replaced = run("export", "w", "--method", "dense", "--out", "another").err
    assert replaced == "This replaced the export of bm25 in another. To keep both: --out ANOTHER.\n"
    assert refused not in run("export", "w", "--method", "bm25", "--out", "packed", "--pack").out
    assert "export needs the folder of one index" in failed(2, "export", "--method", "bm25")
    assert "Name the method: --method" in failed(2, "export", "w")
    assert "has no method 'dense'. Available: " in failed(2, "export", "w", "--results", "r", "--method", "dense")
    assert "Run: ragindex index --index w --methods links" in failed(4, "export", "w", "--method", "links")
    assert "has its own method" in failed(2, "search", QUESTION, "--retriever", "retriever", "--method", "bm25")
