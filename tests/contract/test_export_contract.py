"""Every registered scheme answers alike after it was exported and loaded, from its index and packed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from contract_checks import schemes_with_new_parts
from elasticsearch_node.node import store as elasticsearch_store
from search_server import default_scheme

from ragindex.errors import UsageError
from ragindex.export.export_retriever import export_retriever
from ragindex.export.load import load_retriever
from ragindex.plugins import registry
from ragindex.testing import ask_questions, build
from ragindex.types import Retrieval

VARIANTS = (
    *("hybrid(over=passages(by=sentences, size=12))", "dense(over=passages(by=tokens, size=16))"),
    *("griever(shortlist=full, predicate_score=query)", "sirerag(ranking=lifted)", "hipporag(mode=facts)"),
    *("rerank(base=bm25, depth=9)", "parent(base=bm25, unit=document)"),
)


def hits_of(retrievals: list[Retrieval]) -> list[object]:
    """Return everything that a caller gets, without the times in traces."""
    return [(retrieval.hits, retrieval.notes) for retrieval in retrievals]


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(scheme, marks=() if scheme in schemes_with_new_parts() else pytest.mark.slow)
        for scheme in (*registry.plugin_names("schemes"), *VARIANTS)
    ],
)
def test_an_exported_method_answers_as_before(written: str, tmp_path: Path, built: Callable[[str], Path]) -> None:
    scheme = default_scheme(written)
    build(scheme, built(written), "lsa").close()
    shutil.copytree(built(written), tmp_path / "index")
    with build(scheme, tmp_path / "index", "lsa") as workspace:
        expected = workspace.positions(scheme).locate(ask_questions(workspace.open_method(scheme), 10))
        export_retriever(workspace, scheme, tmp_path / "referred")
        packed = export_retriever(workspace, scheme, tmp_path / "packed", pack=True).path
    hosts = [contact.host for contact in scheme.contacts()]
    with load_retriever(tmp_path / "referred", allow_hosts=hosts) as retriever:
        assert hits_of(ask_questions(retriever, 10)) == hits_of(expected)
    (tmp_path / "index").rename(tmp_path / "gone")
    with load_retriever(packed, into=tmp_path / "unpacked", allow_hosts=hosts) as retriever:
        assert hits_of(ask_questions(retriever, 10)) == hits_of(expected)


@pytest.mark.slow
def test_a_method_on_elasticsearch_is_referred_to_and_not_packed(tmp_path: Path) -> None:
    scheme = registry.scheme("hybrid")
    with elasticsearch_store() as store, build(scheme, tmp_path / "index", "lsa", store=store) as workspace:
        expected = workspace.positions(scheme).locate(ask_questions(workspace.open_method(scheme), 10))
        export_retriever(workspace, scheme, tmp_path / "referred")
        with pytest.raises(UsageError, match="Only methods in the store lancedb can be packed"):
            export_retriever(workspace, scheme, tmp_path / "packed", pack=True)
        with pytest.raises(UsageError, match=r"sends requests to 127\.0\.0\.1:\d+ for elasticsearch.*--allow-host"):
            load_retriever(tmp_path / "referred")
        with load_retriever(tmp_path / "referred", allow_hosts=["127.0.0.1"]) as retriever:
            assert hits_of(ask_questions(retriever, 10)) == hits_of(expected)
    assert not list(tmp_path.glob(".packed*"))
