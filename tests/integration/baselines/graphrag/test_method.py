"""GraphRAG's local search by hand: what it finds around the nearest entities, in which order, and under filters."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from made_extractions import imported, openie, spelt
from openai_server import KEY, OpenAIServer

from ragindex.errors import UsageError
from ragindex.filters import Filter, Ids, Not, Terms, meta
from ragindex.index.index import Index
from ragindex.llm.answer_question import build_context
from ragindex.plugins import registry
from ragindex.types import Query, Retrieval, Triple
from ragindex_baselines.graphrag import method
from ragindex_baselines.graphrag.communities import Communities
from ragindex_baselines.graphrag.method import GraphRAG, Nearby

DOCUMENTS = (
    spelt("1", "Ann|knows|Bob", "Bob|knows|Cid"),
    spelt("2", "Cid|knows|Ann", "Ann|knows|Bob"),
    spelt("3", "Cid|met|Dan"),
    spelt("4", "Dan|likes|Eve", "Eve|likes|Fay"),
    spelt("5", "Fay|likes|Dan"),
    spelt("6", "Gil|likes|Hal"),
)
REPORT = "Cid, Ann, Bob\nCid knows Ann. Bob knows Cid. Ann knows Bob. Cid met Dan.\n" + "\n".join(
    f"- {text}." for text in ("Cid knows Ann", "Bob knows Cid", "Ann knows Bob", "Cid met Dan")
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """An index with embeddings that count words."""
    folder = tmp_path_factory.mktemp("graphrag")
    with pytest.MonkeyPatch.context() as patch, OpenAIServer() as running:
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setenv("EMBEDDING_BASE_URL", running.url)
        index = imported(folder / "w", openie(folder / "openie.json", DOCUMENTS), DOCUMENTS, encoder="openai:words")
        index.build(GraphRAG())
        yield index


def ask(workspace: Index, scheme: GraphRAG, text: str, k: int = 10, where: Filter | None = None) -> Retrieval:
    (retrieval,) = scheme.open(workspace).retrieve([Query("q", text, where)], k)
    return retrieval


def ids(retrieval: Retrieval) -> list[str]:
    return [hit.id for hit in retrieval.hits]


def test_a_question_by_hand(workspace: Index) -> None:
    scheme = GraphRAG(entities=2)
    retrieval = ask(workspace, scheme, "Ann")
    entities, passages, relations, communities = retrieval.trace
    assert entities.ids == ("Ann", "Bob")
    assert [(hit.id, hit.score) for hit in retrieval.hits] == [("2", 1.0), ("1", 0.5)]  # of Ann; Bob has no others
    assert retrieval.hits[0].text == "Cid|knows|Ann\nAnn|knows|Bob"
    assert (retrieval.hits[0].source, retrieval.hits[0].doc_ids) == ("graphrag(entities=2)", ("2",))
    assert retrieval.hits[0].metadata == {"2": {"id": "2"}}
    assert passages.ids == ("2", "1")
    assert relations.triples[0] == Triple("Ann", "knows", "Bob")  # between the two
    assert set(relations.triples[1:]) == {Triple("Cid", "knows", "Ann"), Triple("Bob", "knows", "Cid")}
    (community,) = communities.ids
    assert retrieval.notes == (REPORT, "\n".join(f"{t.subject} knows {t.object}" for t in relations.triples))
    memberships = workspace.open_part(Communities()).memberships
    assert memberships.get(["Ann"], ("community",)).to_pylist() == [{"id": "Ann", "community": community}]


def test_passages_come_entity_by_entity(workspace: Index) -> None:
    assert ids(ask(workspace, GraphRAG(entities=1), "Dan")) == ["3", "4", "5"]
    retrieval = ask(workspace, GraphRAG(entities=3), "Dan likes Eve likes Fay")
    assert retrieval.trace[0].ids == ("Eve", "Fay", "Dan")
    assert ids(retrieval) == ["4", "5", "3"]
    assert ids(ask(workspace, GraphRAG(entities=3), "Dan likes Eve likes Fay", k=2)) == ["4", "5"]
    assert sorted(ids(ask(workspace, GraphRAG(), "Ann"))) == ["1", "2", "3", "4", "5", "6"]  # there are only 8 entities


def test_entities_outside_the_largest_component_have_no_report(workspace: Index) -> None:
    retrieval = ask(workspace, GraphRAG(entities=2), "Gil likes Hal")
    assert retrieval.trace[0].ids == ("Gil", "Hal")
    assert ids(retrieval) == ["6"]
    assert retrieval.notes == ("Gil likes Hal",)
    everywhere = registry.scheme("graphrag(communities=communities(largest_component=false), entities=2)")
    workspace.build(everywhere)
    assert ask(workspace, everywhere, "Gil likes Hal").notes == (
        "Gil, Hal\nGil likes Hal.\n- Gil likes Hal.",
        "Gil likes Hal",
    )


# ---------------------------------------------------------------- filters


OTHERS = tuple(id for id in "123456" if id != "3")


@pytest.mark.parametrize("entities", [1, 10])
@pytest.mark.parametrize(
    "where", [meta("id", *OTHERS), Not(meta("id", "3")), Ids(OTHERS), Terms("doc_ids", OTHERS), Not(Ids(("3",)))]
)
def test_what_a_filter_keeps_out_is_neither_found_nor_told(workspace: Index, where: Filter, entities: int) -> None:
    retrieval = ask(workspace, GraphRAG(entities=entities), "Cid", where=where)
    # Cid and Dan are made from passage 3 too, and so is the report on Ann, Bob and Cid
    assert set(retrieval.trace[0].ids) <= {"Ann", "Bob", "Eve", "Fay", "Gil", "Hal"}
    assert len(retrieval.trace[0].ids) == min(entities, 6)
    assert not {"3"} & set(ids(retrieval))
    assert not any("Dan met" in text or "met Dan" in text for text in (*retrieval.notes, str(retrieval.trace)))


def test_an_entity_that_others_describe_too_leads_nowhere(workspace: Index) -> None:
    retrieval = ask(workspace, GraphRAG(), "Ann", where=meta("id", "1"))
    assert (retrieval.hits, retrieval.notes, retrieval.trace[0].ids) == ((), (), ())
    retrieval = ask(workspace, GraphRAG(), "Gil", where=meta("id", "6"))
    assert (ids(retrieval), retrieval.trace[0].ids) == (["6"], ("Gil", "Hal"))
    assert retrieval.trace[2].triples == (Triple("Gil", "likes", "Hal"),)


def test_a_report_is_told_when_all_that_it_rests_on_passes(workspace: Index) -> None:
    retrieval = ask(workspace, GraphRAG(entities=1), "Ann", where=Not(meta("id", "4", "5", "6")))
    assert (ids(retrieval), retrieval.notes[0]) == (["2", "1"], REPORT)


def test_a_filter_that_nothing_passes(workspace: Index) -> None:
    retrieval = ask(workspace, GraphRAG(), "Ann", where=meta("id", "nobody"))
    assert (retrieval.hits, retrieval.notes) == ((), ())


# ---------------------------------------------------------------- what the reader is handed


def test_notes_are_bounded_and_can_be_left_out(workspace: Index) -> None:
    assert ask(workspace, GraphRAG(note_tokens=0, relation_tokens=0), "Ann").notes == ()
    (report,) = ask(workspace, GraphRAG(entities=1, note_tokens=5, relation_tokens=0), "Ann").notes
    assert report == "Cid, Ann, Bob\nCid"  # twenty characters at most, cut after a word
    (relations,) = ask(workspace, GraphRAG(note_tokens=0, relation_tokens=9), "Ann").notes
    assert len(relations) <= 36
    assert ask(workspace, GraphRAG(note_tokens=0, relations=0), "Ann").notes == ()


def test_notes_count_in_the_readers_budget(workspace: Index) -> None:
    retrieval = ask(workspace, GraphRAG(entities=1), "Ann")
    seen = build_context(retrieval.hits, retrieval.notes, 60)
    assert seen.notes[0] == REPORT
    assert seen.passages[-1].text == "Ann|knows|Bob"  # the second passage's start
    assert seen.tokens <= 60


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="'communities' parameter of graphrag must be communities"):
        registry.scheme("graphrag(communities=passages)")
    with pytest.raises(UsageError, match="The 'entities' parameter of graphrag"):
        registry.scheme("graphrag(entities=0)")


# ---------------------------------------------------------------- steps


def entity(key: str, passages: Sequence[str] = (), neighbours: tuple[str, ...] = ()) -> Nearby:
    return Nearby(key, pa.array(passages, pa.string()), neighbours)


def test_passages_are_ranked_by_entity_and_each_comes_once() -> None:
    entities = [entity("a", ["3", "1"]), entity("b", ["1", "2", "3", "5"]), entity("c", ["9"])]
    assert method.rank_passages(entities, 9) == ["3", "1", "2", "5", "9"]
    assert method.rank_passages(entities, 3) == ["3", "1", "2"]
    assert method.rank_passages([], 2) == []


def test_an_entity_of_every_passage_is_read_as_far_as_is_needed() -> None:
    class Counting:
        def __init__(self) -> None:
            self.all, self.read = pa.array(np.arange(1_000_000).astype(str)), 0

        def __len__(self) -> int:
            return len(self.all)

        def slice(self, start: int, size: int) -> Any:
            self.read += size
            return self.all.slice(start, size)

    everywhere = Counting()
    assert method.rank_passages([Nearby("a", everywhere, ())], 150)[149] == "149"
    assert everywhere.read <= 300


def row(source: str, target: str, weight: float = 1.0) -> dict[str, Any]:
    return {"id": f"{source}-{target}", "source": source, "target": target, "weight": weight}


def test_relations_between_the_entities_come_first_then_those_with_shared_outsiders() -> None:
    entities = [entity("a"), entity("b"), entity("c")]
    rows = [row("a", "z", 9), row("a", "y"), row("b", "y", 2), row("b", "c"), row("a", "b", 3), row("c", "x")]
    ranked = [relation["id"] for relation in method.rank_relations(entities, rows, 10)]
    assert ranked == ["a-b", "b-c", "b-y", "a-y", "a-z", "c-x"]
    assert [relation["id"] for relation in method.rank_relations(entities, rows, 2)] == ["a-b", "b-c"]


def test_candidates_are_bounded() -> None:
    entities = [entity(f"e{n}", (), tuple(f"n{m}" for m in range(50))) for n in range(10)]
    assert len(method.candidate_relations(entities, 10)) == 45 + 100
    assert method.candidate_relations(entities, 0) == []


def test_communities_of_more_entities_come_first() -> None:
    rows = [{"community": name} for name in ("x", "y", "z", "y", "z")]
    assert method.rank_communities(rows) == ["y", "z", "x"]
