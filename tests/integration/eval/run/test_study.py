"""Several corpora, encoders and seeds as one result."""

import json
from pathlib import Path

import pytest
from command_line import QUESTIONS, TEXTS
from made_comparisons import make_comparison
from openai_server import KEY, OpenAIServer

from ragindex.errors import BudgetError, UsageError
from ragindex.llm import openai_chat
from ragindex_eval.results.model import Study
from ragindex_eval.results.seeds import group_by_seed
from ragindex_eval.run.settings import CompareSettings, CorpusSettings
from ragindex_eval.run.study import run_study


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("notes", "other"):
        for name, text in TEXTS.items():
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text if folder == "notes" else text.replace("slate", "wool"))
    (tmp_path / "questions.csv").write_text(QUESTIONS)
    return tmp_path


def settings(**more: object) -> CompareSettings:
    return CompareSettings.model_validate({"questions": "questions.csv", "methods": "bm25,dense", "k": "1,2", **more})


def test_every_corpus_with_every_encoder_and_seed(working_folder: Path) -> None:
    corpora = ["notes", {"data": "other", "limit": 1}]
    encoders = ["lsa", "lsa(dimensions=2)"]
    several = settings(corpora=corpora, encoders=encoders, seeds=[0, 1], name="all", methods="bm25", index="all")
    study = run_study(several, "ragindex …")
    comparisons = [
        (comparison.dataset.name, comparison.encoder, comparison.seed, comparison.dataset.questions)
        for comparison in study.comparisons
    ]
    assert comparisons == [
        *[("notes", encoder, seed, 2) for encoder in encoders for seed in (0, 1)],
        *[("other", encoder, seed, 1) for encoder in encoders for seed in (0, 1)],
    ]
    assert (study.name, study.command) == ("all", "ragindex …")
    queries = {comparison.queries for comparison in study.comparisons if comparison.dataset.name == "other"}
    assert len(queries) == 1  # every seed asks what the first one drew
    assert sorted(path.name for path in (working_folder / "all").iterdir()) == ["notes", "other"]
    alone = run_study(settings(data="notes", index="one", methods="bm25")).comparisons[0]
    assert (working_folder / "one" / "workspace.json").is_file()
    assert study.comparisons[0].fingerprint == alone.fingerprint
    assert [method.metrics for method in study.comparisons[0].methods] == [method.metrics for method in alone.methods]


def test_all_comparisons_have_one_budget(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (working_folder / "prices.yaml").write_text("models:\n  small: {input: 1000.0, output: 0.0}\n")
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("RAGINDEX_PRICES", "prices.yaml")

    def paid(workspace: str, **more: object) -> float:
        """Dollars: a thousandth a word."""
        server.requests.clear()
        options = {"data": "notes", "methods": "bm25", "llm": "openai:small", "read": True, "no_cache": True, **more}
        try:
            run_study(settings(**options, index=workspace))
        finally:
            texts = [message["content"] for request in server.requests for message in request.body["messages"]]
            money.append(sum(len(text.split()) for text in texts) / 1000)
        return money[-1]

    money: list[float] = []
    with OpenAIServer() as server:
        server.write = lambda body: json.dumps({"answer": "Grey Anna", "passages": [1], "found": True})
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        once = paid("unlimited")
        for seed in (0, 1):
            assert paid(f"alone-{seed}", seed=seed, budget=1.9 * once) == once
        with pytest.raises(BudgetError, match="The budget of"):
            paid("both", seeds=[0, 1], budget=1.9 * once)
    assert once < money[-1] <= 1.9 * once


def test_one_corpus_is_listed_once(working_folder: Path) -> None:
    message = (
        "'corpora' must be different. Got 'notes' and 'other/../notes', which are the same documents with the same"
    )
    with pytest.raises(UsageError, match=message):
        run_study(settings(corpora=["notes", {"data": "other/../notes", "limit": 1}]))
    with pytest.raises(UsageError, match="Got 'world:0060' and 'world:60:0', which are the same documents"):
        run_study(settings(corpora=["world:0060", "other", "world:60:0"]))
    assert not (working_folder / "ragindex-workspaces").exists()
    (working_folder / "others.csv").write_text(QUESTIONS.replace("Slate?", "Which town is made of slate?"))
    study = run_study(settings(corpora=["notes", {"data": "notes", "questions": "others.csv"}], methods="bm25"))
    assert [comparison.queries[1].text for comparison in study.comparisons] == [
        "Slate?",
        "Which town is made of slate?",
    ]


def test_the_spread_over_seeds_by_hand() -> None:
    seeds = [make_comparison({"a": [1, value], "b": [0, 0]}, seed=seed) for seed, value in enumerate([0.0, 0.5, 1.0])]
    other = make_comparison({"a": [1, 1], "b": [0, 0]}, name="asked once")
    (group,) = group_by_seed(Study("seeds", (*seeds, other)))
    assert (group.dataset, group.encoder, group.seeds) == ("made", "lsa", (0, 1, 2))
    spreads = {spread.label: spread for spread in group.spreads}
    a = spreads["a"]
    assert (a.metric, a.mean, a.deviation, a.least, a.most) == ("R@5", 0.75, 0.25, 0.5, 1.0)
    assert spreads["b"].deviation == 0.0
    assert group.to_json()["figures"][0]["deviation"] == 0.25


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"fail_below": ["hybrid:R@1=0.5"]}, "names the method 'hybrid', which is not in this comparison"),
        ({"fail_below": ["bm25:R@5=0.5"]}, "names the metric 'R@5', which is not measured"),
        ({"grid": ["hybrid:depth=5"]}, "names 'hybrid', which is not in this comparison"),
        ({"seeds": [1, 1]}, "'seeds' must be different"),
        ({"seeds": [0, -1]}, r"The seed must be an int in the range \[0, 2\*\*32\). Got -1 instead"),
        ({"seed": 2**32}, r"The seed must be an int in the range \[0, 2\*\*32\). Got 4294967296 instead"),
        ({"fail_below": ["bm25:F1=0.5"]}, "names F1, which is measured of answers. Add --read"),
    ],
)
def test_what_cannot_be_is_said_before_any_work(working_folder: Path, more: dict[str, object], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        run_study(settings(data="notes", **more))
    assert not (working_folder / "ragindex-workspaces").exists()


def test_flags_replace_what_a_file_says_of_the_same_thing() -> None:
    file = CompareSettings(corpora=["a", CorpusSettings(data="b")], encoders=["lsa"], seeds=[1, 2], methods="bm25")
    both = CompareSettings(data="c", seed=3).over(file)
    assert (both.data, both.corpora, both.seed, both.seeds) == ("c", None, 3, None)
    assert (both.encoders, both.methods) == (["lsa"], "bm25")
