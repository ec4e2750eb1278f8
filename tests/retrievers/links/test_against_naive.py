"""`links`, held equal to a naive implementation on random corpora."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from built_retriever import built_retriever
from letters import Letters, LettersEncoder
from naive_links import NaiveLinks

from ragindex.filters import meta
from ragindex.types import Document, Query
from ragindex.workspace.workspace import Workspace
from ragindex_retrievers.links.scheme import Links

TITLES = [
    *("New York", "New York City", "York", "Ada Lund", "Ada Lund (film)", "The Red Harbour", "Red Harbour", "Salt"),
    *("It", "University of New York", "University of New York City Hall", "Lund", "(Odd)", "Tellin", "Salt and Light"),
]
WORDS = [
    *("the", "of", "a", "city", "was", "born", "in", "film", "It", "He", "won", '"salt', "and", "1990", "\n##"),
    *("harbour", "`lund", "The"),
]
CHANGES: list[dict[str, Any]] = [
    {},
    {"backward": 0},
    {"novelty_weight": 0},
    {"link_weight": 0},
    {"seeds": 2},
    {"seeds": 0},
    {"hops": 2, "seeds": 2},
    {"hops": 3, "seeds": 1},
    {"max_mentions": 2},
    {"title_bonus": 0},
    {"depth": 3},
    {"depth": 2, "hops": 2},
    {"weight": 0.25},
]


def made_documents(random: Random) -> list[Document]:
    documents = []
    for number in range(random.randint(2, 30)):
        pieces = [random.choice([random.choice(TITLES), random.choice(WORDS)]) for _ in range(random.randint(1, 12))]
        year = random.choice([1970, 1990])
        documents.append(Document(f"d{number:02d}", random.choice(TITLES), " ".join(pieces), {"year": year}))
    return documents


@pytest.mark.parametrize("seed", range(8))
def test_rankings_are_those_of_plain_loops(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    documents = made_documents(random)
    workspace = Workspace.open(tmp_path / "w", encoder=Letters(), chunking=None)
    workspace.add(documents)
    naive = NaiveLinks(documents, LettersEncoder())
    retrievers = [(Links(**change), built_retriever(workspace, Links(**change))) for change in CHANGES]
    for _ in range(6):
        question = " ".join(random.choice([random.choice(TITLES), random.choice(WORDS)]) for _ in range(4)) + " new"
        year, k = random.choice([None, 1990]), random.choice([1, 5, 50])
        allowed = {one.id for one in documents if year is None or one.metadata["year"] == year}
        where = None if year is None else meta("year", year)
        for scheme, retriever in retrievers:
            (found,) = retriever.retrieve([Query("q", question, where)], k)
            expected = dict(naive.rank(question, k, allowed, scheme.model_dump()))
            scores = {hit.id: hit.score for hit in found.hits}
            assert list(scores.values()) == pytest.approx(list(expected.values()), abs=1e-6), (scheme, question)
            for id in scores.keys() & expected.keys():
                assert scores[id] == pytest.approx(expected[id], abs=1e-6), (scheme, question)
            cut = (
                min(expected.values(), default=0.0) + 1e-6
            )  # of passages that score alike at the end, any may be there
            assert {id for id in scores if scores[id] > cut} == {id for id in expected if expected[id] > cut}
