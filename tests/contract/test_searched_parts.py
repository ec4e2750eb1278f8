"""Every part states how its records can be searched, and a method that cannot search them is refused at once."""

from pathlib import Path

import pytest

from ragindex.errors import RagindexError, UsageError
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Query
from ragindex_eval.data import worlds

METHODS = {"text": "bm25", "vectors": "dense"}
QUERIES = [Query("q", "Which hill is the highest of the north?")]


def list_parts() -> list[str]:
    names = list[str]()
    for name in registry.plugin_names("parts"):
        try:
            registry.part(name)
        except RagindexError:  # a parameter without default, or an extra that is missing
            continue
        names.append(name)
    return names


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    opened = Index.open(tmp_path_factory.mktemp("searched"), create=True)
    opened.add(worlds.make_documents(60))
    return opened


@pytest.mark.parametrize("name", list_parts())
@pytest.mark.parametrize("kind", METHODS)
def test_what_a_part_states_holds(index: Index, name: str, kind: str) -> None:
    stated = type(registry.part(name)).searched_by
    assert stated is not None, "a part of ours states it"
    written = f"{METHODS[kind]}(over={name})"
    if kind not in stated:
        with pytest.raises(UsageError, match="a part whose records can be searched by ") as refused:
            registry.scheme(written)
        assert "passages, " in str(refused.value)
        assert not any(f" {name}," in text for text in [str(refused.value).partition("searched by")[2]])
        return
    scheme = registry.scheme(written)
    index.build(scheme)
    retrievals = scheme.open(index).retrieve(QUERIES, 5)
    assert len(retrievals) == 1
    assert all(hit.doc_ids for hit in retrievals[0].hits)


def test_a_comparison_is_refused_before_anything_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from command_line import failed, make_desk

    make_desk(tmp_path, monkeypatch)
    command = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25(over=contexts)", "--index", "i")
    message = failed(2, *command)
    assert "a part whose records can be searched by words: " in message
    assert "passages" in message
    assert not Path("i").exists()
