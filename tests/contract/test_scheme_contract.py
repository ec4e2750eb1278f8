"""Every registered scheme, and variants of ours, against the published checks; some on every engine."""

from collections.abc import Callable
from pathlib import Path

import pytest
from contract_checks import schemes_and_checks
from elasticsearch_node.node import store as elasticsearch_store
from made_records import STORES
from search_server import default_scheme

from ragindex.index import fit_watch
from ragindex.index.explanation import HITS
from ragindex.plugins import registry
from ragindex.testing import (
    DOCUMENTS,
    QUESTIONS,
    Check,
    ask_questions,
    build,
    check_batches,
    check_filter,
    check_finds,
    check_forbidden,
    check_hits,
    check_law,
    check_stages,
)
from ragindex.types import Query

VARIANTS = [
    "hybrid(bases=[composed, bm25], rrf_k=10, depth=20)",
    "composed(composed_score=weighted, weight=0.3)",
    "composed(composed_score=sum)",
    "composed(composed_score=rrf, candidate_factor=3)",
    "gear.naive(base=bm25, scoring=composed, graph=triple_graph(memory_gib=0, numbers=false))",
    "gear.sync(base=composed, link_base=bm25, scoring=exact, beam_length=3)",
    "gear(base=dense, iterations=2, sync_query=original, sync_memory=true, gist_source=expanded)",
    "griever(shortlist=full, predicate_score=query, iterations=3, combine=subgraph)",
    "griever(shortlist=none, same_as=none, partial_scope=passage, triple_score=question)",
    "griever(same_as=llm, base=hybrid, base_k=15, join_best=10)",
    "griever(retrieval_weight=0)",
    "sirerag(ranking=lifted)",
    "sirerag(base=hybrid, pool=tree_pool(propositions=true, relatedness_summaries=false))",
    "sirerag(base=colbert, pool=tree_pool(cross_tree=true))",
    "raptor(base=colbert, tree=summary_tree(stop_at=2))",
    "raptor(mode=traversal)",
    "raptor(tree=summary_tree(stop_at=2, levels=5), mode=traversal, per_level=5)",
]
EXEMPT = {
    ("griever(retrieval_weight=0)", "check_finds"): "a passage without triples comes after all others (V10)",
    ("graphrag.global", "check_finds"): "passages behind points of reports come before all others",
}


Built = Callable[[str], Path]


@pytest.mark.parametrize(
    ("written", "check"),
    [*schemes_and_checks(registry.plugin_names("schemes")), *schemes_and_checks(VARIANTS, slow=True)],
)
def test_scheme(
    written: str,
    check: Check,
    tmp_path: Path,
    built: Built,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if check is check_law:  # with a new fit of the encoder, all vectors would be new, and none updated
        monkeypatch.setattr(fit_watch, "UNKNOWN_LIMIT", 1.0)
        monkeypatch.setattr(fit_watch, "TURNOVER_LIMIT", 2.0)
    exempt = EXEMPT.get((written, check.__name__))
    if exempt:
        request.applymarker(pytest.mark.xfail(reason=exempt, raises=AssertionError, strict=True))
    check(default_scheme(written), tmp_path, "lsa", "lancedb", built(written))


@pytest.mark.parametrize("written", registry.plugin_names("schemes"))
def test_last_stage_has_the_ranks_of_a_longer_search(written: str, built: Built) -> None:
    """The stages of our methods are complete: the last one is what the hits are cut from."""
    scheme, k, many = default_scheme(written), 3, 100
    with build(scheme, built(written), "lsa") as index:
        retriever = scheme.open(index)
        explainer = index.explainer(scheme, retriever)
        for text in QUESTIONS[:2]:
            query = Query("q", text)
            (longer,) = retriever.retrieve([query], many)
            doc_ids = [set(hit.doc_ids) for hit in longer.hits]
            for document in DOCUMENTS[::4]:
                _, explanation = explainer.search(query, k, document.id)
                *stages, hits = explanation.stages
                assert (hits.stage, explanation.lost_at != HITS) == (HITS, True), explanation
                assert stages[-1].goes_on == (hits.rank is not None), explanation
                if not scheme.depends_on_k(many) and stages[-1].rank is not None:
                    expected = next(n for n, ids in enumerate(doc_ids, start=1) if document.id in ids)
                    assert stages[-1].rank == expected, explanation


CHUNKED = {  # chunkings other than that of the index, which are the whole documents here
    "bm25": "size=9, overlap=3",
    "dense": "by=sentences, size=12",
    "hybrid": "by=headings, size=20",
}
OTHER_CHUNKINGS = ("by=sections", "by=characters, size=60", *CHUNKED.values())


@pytest.mark.parametrize(
    ("name", "chunking"),
    [
        *CHUNKED.items(),
        *(
            pytest.param(name, OTHER_CHUNKINGS[number % len(OTHER_CHUNKINGS)], marks=pytest.mark.slow)
            for number, name in enumerate(registry.plugin_names("schemes"))
            if name not in CHUNKED
        ),
    ],
)
def test_scheme_over_other_passages(name: str, chunking: str, tmp_path: Path) -> None:
    scheme = default_scheme(name, over=f"passages({chunking})")
    for check in (check_hits, check_filter, check_forbidden, check_law):
        check(scheme, tmp_path / check.__name__, "lsa", "lancedb", tmp_path / "built")


@pytest.mark.parametrize("store", [store for store in STORES.values() if store not in ("lancedb", "elasticsearch")])
@pytest.mark.parametrize("written", ["bm25", "hybrid", "links", pytest.param("griever", marks=pytest.mark.slow)])
def test_scheme_on_other_engines(written: str, store: str, tmp_path: Path, built: Built) -> None:
    """Whatever engine searches, the answers are those of the default one; Elasticsearch has tests of its own."""
    scheme, folder = registry.scheme(written), tmp_path / "other"
    with build(scheme, built(written), "lsa") as workspace:
        expected = ask_questions(scheme.open(workspace), 10)
    with build(scheme, folder, "lsa", store=store) as workspace:
        questions = ask_questions(scheme.open(workspace), 10)
    for retrieval, other in zip(questions, expected, strict=True):
        assert [hit.id for hit in retrieval.hits][:5] == [hit.id for hit in other.hits][:5]
    check_filter(scheme, tmp_path, "lsa", store, folder)


ON_ELASTICSEARCH = {  # each way of searching that we have, and the checks in which an engine can go wrong
    "bm25": (check_hits, check_filter, check_law, check_stages),
    "dense": (check_hits, check_finds, check_filter),
    "composed": (check_finds, check_filter, check_batches, check_law),
    "hybrid": (check_finds, check_law, check_stages),
    "gear.naive": (check_filter, check_forbidden, check_law),
    "griever": (check_filter, check_forbidden, check_law, check_finds),
    "hipporag(mode=facts)": (check_hits, check_filter, check_forbidden, check_stages),
    "links": (check_filter, check_forbidden, check_law, check_batches, check_stages),
    "hybrid(over=passages(by=sentences, size=12))": (check_filter, check_law),
    "hipporag": (check_forbidden,),
    "graphrag": (check_filter, check_forbidden),
    "raptor": (check_filter, check_forbidden, check_stages),
    "raptor(mode=traversal)": (check_forbidden,),
    "sirerag(ranking=lifted)": (check_forbidden,),
    "bm25(over=aggregates)": (check_forbidden,),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "check"),
    [(written, check) for written, checks in ON_ELASTICSEARCH.items() for check in checks],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_scheme_on_elasticsearch(written: str, check: Check, tmp_path: Path) -> None:
    with elasticsearch_store() as store:
        check(registry.scheme(written), tmp_path, "lsa", store)
