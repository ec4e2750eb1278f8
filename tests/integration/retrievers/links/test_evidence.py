"""`evidence`: its features by hand, its ranking by given weights, and files of weights."""

import json
from collections import Counter
from math import exp
from pathlib import Path
from typing import Any

import pytest
from built_retriever import built_retriever
from letters import Letters

from ragindex.errors import UsageError
from ragindex.index.index import Index
from ragindex.interfaces import FeatureRetriever
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_retrievers.links.evidence import FEATURES, MAY_COUNT_AGAINST, list_shipped, read_weights

FILM = Document("film", "Red Harbour (film)", "A film by Ada Lund, shot in New York City.")
DIRECTOR = Document("ada", "Ada Lund", "She was born in Tellin and lived in New York.")
TOWN = Document("town", "Tellin", "A town by the sea.")
OTTER = Document("otter", "Otter", "It eats fish.")
SETTINGS = {"weight": 0.0, "seeds": 1, "title_bonus": 0.5, "link_weight": 0.25, "novelty_weight": 0.0}


@pytest.fixture
def workspace(tmp_path: Path) -> Index:
    index = Index.open(tmp_path / "w", encoder=Letters(), chunking=None, create=True)
    index.add([FILM, DIRECTOR, TOWN, OTTER])
    return index


def write_weights(path: Path, weights: dict[str, float], bases: tuple[Any, ...] = (), intercept: float = 0.0) -> Path:
    content = {"made_from": "a test", "bases": list(bases), "intercept": intercept, "weights": weights}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def evidence(**params: Any) -> Any:
    return registry.scheme({"name": "evidence", "params": {**SETTINGS, **params}})


def test_features_by_hand(workspace: Index) -> None:
    retriever = built_retriever(workspace, evidence(bases=["bm25"]))
    assert isinstance(retriever, FeatureRetriever)
    (feature,) = retriever.features([Query("q", "Was the film red harbour shot?")], 4)
    rows = {
        id: dict(zip(feature.names, row, strict=True))
        for id, row in zip(feature.ids, feature.values.tolist(), strict=True)
    }
    assert feature.doc_ids == tuple((id,) for id in feature.ids)
    assert set(rows) == {"film", "ada", "town", "otter"}
    # BM25 alone is the base score: film 1, the others 0; film is named. ada is mentioned by film, its only seed.
    mentioned = {id: row["mentioned"] for id, row in rows.items()}
    assert mentioned == {"film": 0.0, "ada": 1.5, "town": 0.0, "otter": 0.0}
    assert {id: row["links"] for id, row in rows.items()} == {"film": 1.5, "ada": 0.375, "town": 0.0, "otter": 0.0}
    assert {id: row["named"] for id, row in rows.items()} == {"film": 1.0, "ada": 0.0, "town": 0.0, "otter": 0.0}
    assert {id: row["seeds"] for id, row in rows.items()} == {"film": 0.0, "ada": 1.0, "town": 0.0, "otter": 0.0}
    assert rows["town"]["second_hop"] == 0.375  # from ada, the seed of the second hop
    assert {id: row["bm25_rank"] for id, row in rows.items()} == {"film": 1 / 6, "ada": 0.0, "town": 0.0, "otter": 0.0}
    assert rows["ada"]["links_rank"] == 1 / 7
    assert {id: row["rank:bm25"] for id, row in rows.items()} == {"film": 1 / 6, "ada": 0.0, "town": 0.0, "otter": 0.0}
    assert rows["film"]["support"] == 0.0  # ada, to which it links, has no word of the question
    assert rows["ada"]["mentions"] == rows["ada"]["mentioned_new"] == rows["ada"]["mentions_new"] == 0.0
    assert feature.increasing == tuple(name not in MAY_COUNT_AGAINST for name in (*FEATURES, "rank:bm25"))


def test_second_questions_of_a_base_are_a_feature(workspace: Index) -> None:
    """The largest over the bridges of 1 / (2 + i) * (1 / (4 + j) + 1 / (4 + m)), as `hop` has it, without weight."""
    question = Query("q", "Was the film red harbour shot?")
    hop = {"name": "hop", "params": {"base": "bm25", "bridges": 2, "weight": 0.5}}
    retriever = built_retriever(workspace, evidence(bases=[hop]))
    assert isinstance(retriever, FeatureRetriever)
    (feature,) = retriever.features([question], 4)
    label = registry.label(registry.scheme(hop))
    assert feature.names[-2:] == (f"rank:{label}", f"second_question:{label}")
    assert feature.increasing[-2:] == (True, True)
    expected = dict.fromkeys(feature.ids, 0.0)
    (answer,) = built_retriever(workspace, hop).retrieve([question], 4)
    seconds = [step for step in answer.trace if step.index == "second question"]
    assert len(seconds) == 1, "one passage has a word of the question"
    for place, step in enumerate(seconds):
        bridge = step.note.partition("\n")[0].removeprefix("second question after ")
        gains = Counter[str]()
        for method in ("bm25", "dense"):
            (hits,) = built_retriever(workspace, method).retrieve([Query("s", step.query)], 4)
            for rank, id in enumerate(hit.id for hit in hits.hits if hit.id != bridge):
                gains[id] += 1 / (4 + rank)
        for id, gain in gains.items():
            expected[id] = max(expected[id], gain / (2 + place))
    assert max(expected.values()) > 0
    assert dict(zip(feature.ids, feature.values[:, -1].tolist(), strict=True)) == pytest.approx(expected)


def test_a_ranking_is_that_of_the_weights(workspace: Index, tmp_path: Path) -> None:
    file = write_weights(tmp_path / "w.json", {"mentioned": 2.0, "second_hop": 4.0}, intercept=-1.0)
    (retrieval,) = built_retriever(workspace, evidence(weights=str(file))).retrieve(
        [Query("q", "Was the film red harbour shot?")], 3
    )
    chances = [("ada", 2.0 * 1.5 - 1), ("town", 4.0 * 0.375 - 1), ("film", -1.0)]
    assert [hit.id for hit in retrieval.hits] == [id for id, _ in chances]
    assert [hit.score for hit in retrieval.hits] == pytest.approx([1 / (1 + exp(-logit)) for _, logit in chances])
    assert retrieval.trace[-1].index == "evidence"
    assert retrieval.trace[-1].note == "ada: mentioned +3.00\ntown: second_hop +1.50\nfilm: "


def test_kept_passages_stay_first(workspace: Index, tmp_path: Path) -> None:
    """`film` has the best base score; without `kept` it is last. Its score is that of the best after it."""
    file = write_weights(tmp_path / "w.json", {"mentioned": 2.0, "second_hop": 4.0}, intercept=-1.0)
    (retrieval,) = built_retriever(workspace, evidence(weights=str(file), kept=1)).retrieve(
        [Query("q", "Was the film red harbour shot?")], 3
    )
    assert [hit.id for hit in retrieval.hits] == ["film", "ada", "town"]
    assert [hit.score for hit in retrieval.hits][:2] == [pytest.approx(1 / (1 + exp(-2.0)))] * 2


def test_a_base_brings_candidates_and_its_rank(workspace: Index, tmp_path: Path) -> None:
    file = write_weights(tmp_path / "w.json", {"rank:dense": 6.0}, bases=("dense",))
    scheme = evidence(weights=str(file), depth=1, candidates=1)
    assert scheme.bases == (registry.scheme("dense"),)
    (retrieval,) = built_retriever(workspace, scheme).retrieve([Query("q", "eats fish")], 3)
    (dense,) = built_retriever(workspace, "dense").retrieve([Query("q", "eats fish")], 3)
    assert [hit.id for hit in retrieval.hits] == [hit.id for hit in dense.hits]
    assert [hit.score for hit in retrieval.hits] == pytest.approx(
        [1 / (1 + exp(-6 / (5 + rank))) for rank in (1, 2, 3)]
    )


def test_weights_are_named_by_their_content(tmp_path: Path) -> None:
    file = write_weights(tmp_path / "w.json", {"links": 1.0})
    scheme = evidence(weights=str(file))
    name, _, content = scheme.weights.partition("#")
    assert (name, len(content)) == (str(file), 12)
    assert evidence(weights=scheme.weights) == scheme
    named = {**json.loads(file.read_text()), "questions": ["0123456789abcdef"]}
    file.write_text(json.dumps(named), encoding="utf-8")
    assert evidence(weights=str(file)) == scheme, "the questions change no answer"
    assert evidence(weights=str(file)).fitted_to() == {"0123456789abcdef"}
    write_weights(file, {"links": 2.0})
    assert evidence(weights=str(file)) != scheme
    with pytest.raises(
        UsageError, match=rf"have changed: expected {content}, found [0-9a-f]{{12}}. To use them as they"
    ):
        evidence(weights=scheme.weights)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            None,
            "There are no weights .*: expected a JSON file as `ragindex tune` writes it, or one of graphs, hop",
        ),
        ("{", "has no weights as .*It is not JSON"),
        ('{"weights": {}}', "has no weights as .*made_from: Field required"),
        (
            '{"made_from": "x", "intercept": 0, "weights": {"links": NaN}}',
            "has no weights as .*weights.links: Input should be a finite number",
        ),
        (" " * 1_000_001, "has more than 1,000,000 bytes"),
    ],
)
def test_files_that_are_no_weights(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "w.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        evidence(weights=str(file))


def test_the_shipped_weights_fit_their_bases() -> None:
    assert list_shipped() == ["graphs", "hop", "links"]
    for name in list_shipped():
        scheme, weights = registry.scheme(f"evidence(weights={name})"), read_weights(name)
        bases = [registry.label(base) for base in scheme.base_schemes()]
        known = {*FEATURES, *(f"rank:{base}" for base in bases), "second_question:hop"}
        assert weights.weights.keys() <= known
        assert all(value > 0 for key, value in weights.weights.items() if key not in MAY_COUNT_AGAINST)
    assert "second_question:hop" in read_weights("hop").weights
    assert [registry.label(base) for base in registry.scheme("evidence(weights=graphs)").base_schemes()] == [
        "hipporag(mode=facts)",
        "hipporag",
        "sirerag(ranking=lifted)",
    ]
