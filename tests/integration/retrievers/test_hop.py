"""`hop` against a plain second writing of its ranking, with the searches of other methods, on random corpora."""

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from letters import Letters
from made_extractions import asking
from openai_server import KEY, OpenAIServer

from ragindex.errors import LLMError
from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.interfaces import Retriever
from ragindex.types import Document, Query, Retrieval
from ragindex_retrievers.hop import Hop

NAMES = ("Ada Lund", "Bo Holm", "Tellin", "Red Harbour", "New York", "Orla", "Émile Straße", "Ida Wend")
WORDS = ("river", "bridge", "harbour", "lamp", "winter", "painter", "stone", "market", "wrote", "built", "born", "film")
QUESTIONS = ("Where was the {word} of {name} {word}?", "Who {word} the {word}?", "{word} {name} {name}", "zyzzyva")
SETTINGS = (
    {},
    {"bridges": 1},
    {"bridges": 20, "names": 2},
    {"kept": 0},
    {"kept": 4, "weight": 5.0},
    {"weight": 2.0},
    {"weight": 0.0},
    {"depth": 3},
)


DOCUMENTS = [
    Document("film", "Red Harbour", "Red Harbour is a film by Ada Lund."),
    Document("ada", "Ada Lund", "She lived in Tellin."),
    *(Document(f"other{number}", "Paint", f"Oil and paint, number {number}.") for number in range(9)),
]
QUESTION = "Which town did the director of the film Red Harbour choose?"


def write(chance: random.Random, pattern: str) -> str:
    for field, values in (("{name}", NAMES), ("{word}", WORDS)):
        while field in pattern:
            pattern = pattern.replace(field, chance.choice(values), 1)
    return pattern


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Forty documents of random sentences; no test adds others."""
    chance = random.Random(7)
    documents = [
        Document(
            f"d{number:02}",
            chance.choice(NAMES) if chance.random() < 0.7 else "",
            " ".join(write(chance, "{name} {word} the {word} in {name}.") for _ in range(chance.randint(1, 4))),
            {"kind": chance.choice("ab")},
        )
        for number in range(40)
    ]
    opened = Index.open(tmp_path_factory.mktemp("hop"), encoder=Letters(), chunking=None, create=True)
    opened.add(documents)
    opened.build("links", "hybrid")
    return opened


@pytest.fixture(scope="module")
def searches(index: Index) -> dict[str, Retriever]:
    """The bases, and the methods that search second questions."""
    return {method: index.open_method(method) for method in ("links", "dense", "hybrid", "bm25")}


def rank_plainly(
    searches: dict[str, Retriever], base: str, settings: Hop, query: Query, second: list[str], k: int
) -> list[str]:
    """Rank by the formula of the docstring, where bm25 and dense search the second questions."""
    depth = max(settings.depth, k)
    first = [hit.id for hit in searches[base].retrieve([query], depth)[0].hits]
    scores = defaultdict(float, {id: 1 / (2 + i) for i, id in enumerate(first)})
    gains = defaultdict[str, list[float]](list)
    questions = [Query(str(i), text, query.filter) for i, text in enumerate(second)]
    retrievals = [searches[method].retrieve(questions, depth) for method in ("bm25", "dense")]
    for i, (bridge, *answers) in enumerate(zip(first, *retrievals, strict=False)):
        sums = defaultdict[str, float](float)
        for answer in answers:
            others = [hit.id for hit in answer.hits if hit.id != bridge]
            for rank, id in enumerate(others):
                sums[id] += 1 / (4 + rank)
        for id, total in sums.items():
            gains[id].append(settings.weight * total / (2 + i))
    for id, values in gains.items():
        scores[id] += max(values)
    leading = first[: settings.kept]
    rest = sorted((id for id in scores if id not in leading), key=lambda id: (-round(scores[id], 12), id))
    return [*leading, *rest][:k]


def second_questions(answer: Retrieval) -> list[str]:
    return [step.query for step in answer.trace if step.index == "second question"]


@pytest.mark.parametrize(
    ("base", "all_settings"), [("dense", SETTINGS), ("links", SETTINGS[:1]), ("hybrid", SETTINGS[:1])]
)
def test_ranking_is_that_of_the_formula(
    index: Index, searches: dict[str, Retriever], base: str, all_settings: Sequence[dict[str, Any]]
) -> None:
    chance, compared = random.Random(11), 0
    for values in all_settings:
        settings = Hop(base=base, **values)
        retriever = index.open_method(settings)
        queries = [
            Query(str(number), write(chance, pattern), meta("kind", "a") if number % 2 else None)
            for number, pattern in enumerate(QUESTIONS * 2)
        ]
        for k in (3, 30):
            for query, answer in zip(queries, retriever.retrieve(queries, k), strict=True):
                expected = rank_plainly(searches, base, settings, query, second_questions(answer), k)
                assert [hit.id for hit in answer.hits] == expected
                compared += len(expected)
    assert compared > 100 * len(all_settings)


def test_a_passage_behind_the_bridge_is_found_and_explained(tmp_path: Path) -> None:
    opened = Index.open(tmp_path / "w", encoder=Letters(), chunking=None, create=True)
    opened.add(DOCUMENTS)
    opened.build("bm25", "dense")
    query = Query("q", QUESTION)
    (base,) = opened.open_method("bm25").retrieve([query], 5)
    assert [hit.doc_ids for hit in base.hits] == [("film",)]
    (answer,) = opened.open_method("hop(base=bm25)").retrieve([query], 5)
    assert [hit.doc_ids[0] for hit in answer.hits][:2] == ["film", "ada"]
    (step,) = [step for step in answer.trace if step.index == "second question"]
    assert step.query == "Which town did the director of choose? Ada Lund"
    first, second = step.note.splitlines()[:2]
    assert first == f"second question after {answer.hits[0].id}"
    assert second.startswith(f"{answer.hits[1].id}: rank 1 by words, ")


def test_a_model_writes_the_second_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    prompts: list[str] = []

    def write(body: Mapping[str, Any]) -> str:
        prompts.append(body["messages"][-1]["content"])
        return json.dumps({"question": " Where did Ada Lund live? "})

    with OpenAIServer() as server:
        server.write = write
        opened = asking(tmp_path / "w", server, encoder=Letters())  # type: ignore[arg-type]
        opened.add(DOCUMENTS)
        opened.build("hop(base=bm25)")
        (answer,) = opened.open_method("hop(base=bm25, rewrite=model)").retrieve([Query("q", QUESTION)], 5)
        assert prompts == [f"Question: {QUESTION}\n\nPassage: Red Harbour\nRed Harbour is a film by Ada Lund."]
        writing, second = (step for step in answer.trace if step.iteration == 2)
        assert (writing.index, writing.ids) == ("writing second questions", (answer.hits[0].id,))
        assert writing.input_tokens > 0
        assert second.query == "Where did Ada Lund live?"
        assert [hit.doc_ids[0] for hit in answer.hits][:2] == ["film", "ada"]
        server.write = lambda _: json.dumps({"question": "  "})
        with pytest.raises(LLMError, match="second-question"):
            opened.open_method("hop(base=bm25, rewrite=model)").retrieve([Query("q", "a film by Ada?")], 5)


def test_without_a_model_both_ways_of_writing_are_the_same(index: Index) -> None:
    queries = [Query(str(number), write(random.Random(number), QUESTIONS[0])) for number in range(6)]
    by_rules, by_model = (
        index.open_method(f"hop(base=dense, rewrite={how})").retrieve(queries, 10) for how in ("rules", "model")
    )
    assert [answer.hits for answer in by_rules] == [
        tuple(replace(hit, source=answer.hits[0].source) for hit in other.hits)
        for answer, other in zip(by_rules, by_model, strict=True)
    ]
