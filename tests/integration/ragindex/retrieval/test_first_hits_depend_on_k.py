"""Whether the first hits depend on how many are asked for: found from the bases of every scheme, and by asking."""

from itertools import product
from pathlib import Path
from typing import ClassVar

import pytest
from built_retriever import built_retriever
from comparing import compare
from pydantic import Field
from search_server import default_scheme

from ragindex import testing
from ragindex.corpus import Corpus
from ragindex.index.index import Index
from ragindex.interfaces import OpenIndex, Retriever, Scheme
from ragindex.plugins import registry
from ragindex.types import Query
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold


class Wrapper(Scheme):
    """Passes on what its base finds, and says nothing of k."""

    version: ClassVar[int] = 1
    base: registry.SchemeField

    def _open(self, index: OpenIndex) -> Retriever:
        return self.base.open(index)


class Several(Wrapper):
    """The same over the first of many, the bases in a list."""

    base: registry.SchemeField = Field(default_factory=lambda: registry.scheme("bm25"))
    bases: tuple[registry.SchemeField, ...] = ()


def test_a_wrapper_that_says_nothing_depends_on_k_where_its_base_does() -> None:
    for base, k in product(map(default_scheme, registry.plugin_names("schemes")), (20, 1000)):
        of_base = base.depends_on_k(k)
        assert Wrapper(base=base).depends_on_k(k) == of_base, base
        assert Wrapper(base=Wrapper(base=base)).depends_on_k(k) == of_base, base
        assert Several(bases=(registry.scheme("bm25"), base)).depends_on_k(k) == of_base, base


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("bm25", False),
        ("composed", True),
        ("colbert", True),
        ("hybrid", False),
        ("hybrid(depth=19)", True),  # 20 are asked for, and so many ranks are fused
        ("hybrid(bases=[bm25, composed])", True),
        ("hybrid(bases=[bm25, rerank(base=composed)])", True),
        ("rerank(base=bm25)", False),
        ("rerank(base=composed)", True),
        ("rerank(base=hybrid(depth=10))", True),
        ("ircot(base=composed)", False),  # it asks for base_k whatever k is
        ("rerank(base=ircot(base=composed))", False),
        ("raptor", False),
        ("raptor(base=composed)", True),
        ("raptor(base=dense, mode=traversal)", False),
        ("raptor(base=hybrid)", True),  # of a summary's documents the order hangs on what else was found
        ("sirerag", False),
        ("sirerag(base=composed)", True),
        ("sirerag(base=hybrid)", True),
        ("sirerag(base=hybrid, ranking=lifted)", False),
        ("sirerag(ranking=lifted, depth=10)", True),
        ("gear.naive", True),
        ("gear.naive(base_k=15)", False),
        ("gear", False),
        ("griever", True),
    ],
)
def test_what_each_of_ours_does(written: str, expected: bool) -> None:
    assert registry.scheme(written).depends_on_k(20) == expected


def test_a_wrapper_over_a_base_that_depends_on_k_is_measured_once_for_each(tmp_path: Path) -> None:
    scheme = Wrapper(base=registry.scheme("composed(candidate_factor=1)"))
    corpus = Corpus("tiny", "jsonl", testing.DOCUMENTS, 0, (), True)
    queries = tuple(Query(f"q{n}", text) for n, text in enumerate(testing.QUESTIONS))
    gold = {query.id: Gold(frozenset({"d06"})) for query in queries}
    data = Dataset("tiny", corpus, queries, gold, "0123456789abcdef")
    result = compare(data, [scheme], k=(2, 20), index=tmp_path).methods[0]
    assert set(result.answers) == {2, 20}
    with Index.open(tmp_path, create=True) as workspace:
        retrievals = built_retriever(workspace, scheme).retrieve(queries, 2)
    assert [[hit.id for hit in answer.hits] for answer in result.answers[2]] == [
        [hit.id for hit in answer.hits] for answer in retrievals
    ]
    assert [answer.hits[:2] for answer in result.answers[20]] != [answer.hits for answer in result.answers[2]]
