"""GraphRAG's global search: batches of reports, the points that a model finds in them, and the passages behind."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_extractions import asking, openie, spelt
from openai_server import KEY, OpenAIServer

from ragindex.errors import LLMError
from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.types import Query, Retrieval
from ragindex_baselines.graphrag import global_search
from ragindex_baselines.graphrag.communities import Communities
from ragindex_baselines.graphrag.global_search import POINTS, GraphRAGGlobal, pack_reports

COMMUNITIES = Communities(largest_component=False, least_statements=100)  # by rule: no report is asked for
DOCUMENTS = (
    spelt("1", "Ann|knows|Bob", "Bob|knows|Cid"),
    spelt("2", "Cid|knows|Ann", "Ann|knows|Bob"),
    spelt("3", "Dan|likes|Eve", "Eve|likes|Fay"),
    spelt("4", "Fay|likes|Dan"),
    spelt("5", "Gil|sold|Hal"),
)
QUESTION = "What do people do with each other?"


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture(scope="module")
def index(server: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("global")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setenv("EMBEDDING_BASE_URL", server.url)
        index = asking(folder / "w", server, encoder="openai:words")
        index.import_part("extractions", openie(folder / "openie.json", DOCUMENTS))
        index.add(DOCUMENTS)
        index.build(GraphRAGGlobal(communities=COMMUNITIES))
        yield index


def rating(body: Mapping[str, Any]) -> str:
    """A model that writes one point for each report: `sold` helps most, `likes` some, `knows` not at all."""
    blocks = [block for block in body["messages"][-1]["content"].split("\n\n") if block.startswith("[")]
    scores = {"sold": 250, "likes": 40, "knows": 0}
    points = []
    for block in blocks:
        number = int(block[1 : block.index("]")])
        (verb,) = (verb for verb in scores if verb in block)
        points.append({"point": f"Somebody {verb}\nsomebody.", "score": scores[verb], "reports": [number, 99]})
    return json.dumps({"points": [*points, {"point": "Nobody says it.", "score": 90, "reports": []}]})


def search(index: Index, scheme: GraphRAGGlobal, query: Query) -> Retrieval:
    (retrieval,) = scheme.open(index).retrieve([query], 10)
    return retrieval


@pytest.mark.parametrize("tokens", [8_000, 30])
def test_points_become_notes_and_their_reports_lead_to_passages(
    index: Index, server: OpenAIServer, tokens: int
) -> None:
    prompts: list[str] = []

    def write(body: Mapping[str, Any]) -> str:
        prompts.append(body["messages"][-1]["content"])
        return rating(body)

    server.write = write
    question = f"{QUESTION} In {tokens}?"  # so that no answer is taken from the cache
    retrieval = search(index, GraphRAGGlobal(communities=COMMUNITIES, batch_tokens=tokens), Query("q", question))
    assert retrieval.notes == ("Somebody sold somebody.", "Somebody likes somebody.")
    assert {hit.id for hit in retrieval.hits if hit.score >= 1} == {"3", "4", "5"}
    assert {hit.id for hit in retrieval.hits[3:]} == {"1", "2"}
    points, passages = retrieval.trace
    assert (len(points.ids), points.note) == (2, "2 of 2 points are notes.")
    assert points.input_tokens > 0
    assert passages.ids == tuple(hit.id for hit in retrieval.hits)
    assert all(prompt.startswith(f"Question: {question}\n\n[1] ") for prompt in prompts)
    assert (len(prompts) == 1) == (tokens == 8_000)


def test_notes_are_bounded_and_only_they_lead_to_passages(index: Index, server: OpenAIServer) -> None:
    server.write = rating
    retrieval = search(index, GraphRAGGlobal(communities=COMMUNITIES, note_tokens=8), Query("q", QUESTION))
    assert retrieval.notes == ("Somebody sold somebody.",)
    assert [hit.id for hit in retrieval.hits if hit.score >= 1] == ["5"]


def test_reports_are_packed_once_a_filter(index: Index, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.write = rating
    packed = list[int]()

    def count(rows: list[Any], tokens: int, model: str) -> Iterator[list[Any]]:
        packed.append(len(rows))
        return pack_reports(rows, tokens, model)

    monkeypatch.setattr(global_search, "pack_reports", count)
    retriever = GraphRAGGlobal(communities=COMMUNITIES).open(index)
    everything, some = Query("q", QUESTION), Query("q", QUESTION, meta("nothing", 1))
    first, _, again, _ = (retriever.retrieve([query], 3)[0] for query in (everything, some, everything, some))
    assert packed == [3, 0]
    assert again.notes == first.notes


def test_points_by_rule() -> None:
    assert POINTS.rule is not None
    reports = [{"number": 1, "text": "Gil\nGil sold Hal.\n- Gil sold Hal."}, {"number": 2, "text": "Ann\nAnn sings."}]
    points = POINTS.rule({"question": "Who sold Hal?", "reports": reports, "language": "english"}).points
    assert [(point.point, point.reports) for point in points] == [("Gil sold Hal.", [1, 1])]
    assert 0 < points[0].score <= 100


@given(st.lists(st.integers(0, 300), max_size=12), st.integers(100, 200))
def test_batches_have_all_reports_in_order(lengths: list[int], tokens: int) -> None:
    rows = [{"id": str(place), "text": "abcd" * length} for place, length in enumerate(lengths)]
    batches = list(pack_reports(rows, tokens, ""))
    assert [row for batch in batches for row in batch] == rows
    sizes = [[len(row["text"]) // 4 for row in batch] for batch in batches]
    assert all(len(batch) == 1 or sum(batch) <= tokens for batch in sizes)
    assert all(sum(first) + second[0] > tokens for first, second in pairwise(sizes))


def test_only_reports_are_read_of_which_all_passages_pass(index: Index, server: OpenAIServer) -> None:
    server.write = rating
    query = Query("q", QUESTION, meta("id", "1", "2", "3", "5"))  # Dan, Eve and Fay stand in 4 too
    retrieval = search(index, GraphRAGGlobal(communities=COMMUNITIES), query)
    assert retrieval.notes == ("Somebody sold somebody.",)
    assert retrieval.hits[0].id == "5"
    assert "4" not in {hit.id for hit in retrieval.hits}
    nothing = search(index, GraphRAGGlobal(communities=COMMUNITIES), Query("q", QUESTION, meta("id", "nobody")))
    assert (nothing.hits, nothing.notes) == ((), ())


def test_an_unusable_answer_is_an_error(index: Index, server: OpenAIServer) -> None:
    server.write = lambda _: "I would rather not."
    with pytest.raises(LLMError, match="report-points"):
        search(index, GraphRAGGlobal(communities=COMMUNITIES), Query("q", "Who sold what?"))
