"""Parent: sections and documents of the passages that a base finds."""

from collections.abc import Sequence

import pytest

import ragindex
from ragindex.index.index import Index
from ragindex.interfaces import OpenIndex, Part, Retriever, Scheme
from ragindex.plugins import registry
from ragindex.types import Document, Query, Section
from ragindex_baselines.parent import Parent

GUIDE = "Guide to the pier.\n\nTides\n\nThe tide turns twice. Mind the tide.\n\nFees\n\nA berth costs nine crowns."
STARTS = [(0, ("Guide",)), (GUIDE.index("Tides"), ("Guide", "Tides")), (GUIDE.index("Fees"), ("Guide", "Fees"))]


def guide() -> Document:
    return Document("guide.md", "Guide", GUIDE, {"year": 1931}, tuple(Section(*start) for start in STARTS))


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Index:
    opened = Index.open(tmp_path_factory.mktemp("parent") / "w", encoder="lsa", create=True)
    opened.add([guide(), Document("mill.md", "Mill", "The mill grinds rye at high tide.")])
    return opened


def find_units(space: Index, method: str, question: str, k: int = 9) -> list[tuple[str, str, float]]:
    scheme = registry.scheme(method)
    space.build(scheme)
    (answer,) = space.open_method(scheme).retrieve([Query("q", question)], k)
    return [(hit.id, hit.text, hit.score) for hit in answer.hits]


def test_the_sections_of_the_passages_found(space: Index) -> None:
    base = "bm25(over=passages(by=sentences, size=5))"
    small = find_units(space, base, "mind tide")
    assert {text for id, text, _ in small if id.startswith("guide.md")} == {
        "Guide to the pier.\n\nTides",  # it begins in the section before
        "The tide turns twice.",
        "Mind the tide.\n\nFees",
    }
    best = max(score for id, _, score in small if id.startswith("guide.md"))
    sections = find_units(space, f"parent(base={base})", "mind tide")
    tides = GUIDE[STARTS[1][0] : STARTS[2][0]].strip()
    tides_score = max(score for _, text, score in small if text.startswith(("The tide", "Mind")))
    assert ("guide.md#sections.1", tides, tides_score) in sections
    assert sorted(id for id, _, _ in sections) == ["guide.md#sections.0", "guide.md#sections.1", "mill.md#sections.0"]
    documents = find_units(space, f"parent(base={base}, unit=document)", "mind tide")
    assert ("guide.md#documents.0", GUIDE, best) in documents
    assert find_units(space, f"parent(base={base}, unit=document)", "mind tide", k=1) == documents[:1]


def test_positions_headings_and_filters_are_those_of_the_units(space: Index) -> None:
    scheme = registry.scheme("parent(base=bm25(over=passages(size=3)))")
    space.build(scheme)
    queries = [Query("q", "berth tide")]
    (answer,) = space.positions(scheme).locate(space.open_method(scheme).retrieve(queries, 5))
    by_id = {hit.id: hit for hit in answer.hits}
    (position,) = by_id["guide.md#sections.2"].positions
    assert (position.start, position.end, position.headings) == (STARTS[2][0], len(GUIDE), ("Guide", "Fees"))
    assert answer.trace[-1].index == "parent"
    assert answer.trace[-1].ids == tuple(hit.id for hit in answer.hits)
    with ragindex.open(space.folder) as index:
        hits = index.retriever(scheme).search("tide", k=5, where={"meta.year": 1931})
        assert {hit.id for hit in hits} == {"guide.md#sections.0", "guide.md#sections.1"}


def test_a_hit_of_several_passages_stands_for_the_unit_of_each(space: Index) -> None:
    class Both(Scheme):
        version = 1

        def _parts(self) -> tuple[Part[object], ...]:
            return registry.scheme("bm25").parts()

        def _open(self, index: OpenIndex) -> Retriever:
            return Joined(registry.scheme("bm25").open(index))

    class Joined:
        def __init__(self, base: Retriever) -> None:
            self.base = base

        def retrieve(self, queries: Sequence[Query], k: int) -> list[ragindex.Retrieval]:
            answers = self.base.retrieve(queries, k)
            return [
                ragindex.Retrieval(
                    tuple(
                        ragindex.Hit(hit.id, "summary", ("mill.md#0", "guide.md#0"), ("mill.md",), "", "", 1.0, "")
                        for hit in retrieval.hits[:1]
                    )
                )
                for retrieval in answers
            ]

    scheme = Parent(base=Both(), unit="document")
    space.build(scheme)
    (answer,) = scheme.open(space).retrieve([Query("q", "tide")], 3)
    assert [(hit.id, hit.score) for hit in answer.hits] == [("guide.md#documents.0", 1.0), ("mill.md#documents.0", 1.0)]
