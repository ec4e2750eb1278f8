"""The component for Haystack: runs, pipelines, saving and loading, Haystack's own suite of filters."""

import json
import threading
from pathlib import Path

import pytest
from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.document_stores.types import FilterPolicy
from made_library import QUESTION

import ragindex
from ragindex.errors import MissingPartError, UsageError
from ragindex.integrations.haystack import HaystackRetriever

KINDS = {
    "mill": {"field": "meta.kind", "operator": "==", "value": "mill"},
    "old": {"field": "meta.year", "operator": "<", "value": 1900},
    "new": {"field": "year", "operator": ">", "value": 1900},
}


def sources(output: dict[str, list[Document]]) -> list[str]:
    return [document.meta["source"] for document in output["documents"]]


async def test_it_finds_what_the_method_finds(library: Path, opened: ragindex.IndexRetriever) -> None:
    retriever = HaystackRetriever.from_index(library, "bm25", top_k=3)
    expected = [(hit.id, hit.text, hit.score) for hit in opened.search(QUESTION, 3)]
    for output in (retriever.run(QUESTION), await retriever.run_async(QUESTION)):
        assert [(document.id, document.content, document.score) for document in output["documents"]] == expected
    (first,) = retriever.run(QUESTION, top_k=1)["documents"]
    assert first.meta["score"] == "A+"  # the document's own
    assert first.meta["ragindex"]["positions"][0]["page"] == 3
    assert Document.from_dict(json.loads(json.dumps(first.to_dict()))) == first


async def test_filters_follow_the_policy(opened: ragindex.IndexRetriever) -> None:
    replacing = HaystackRetriever(retriever=opened, filters=KINDS["old"])
    merging = HaystackRetriever(retriever=opened, filters=KINDS["old"], filter_policy=FilterPolicy.MERGE)
    assert sorted(sources(replacing.run(QUESTION))) == ["harbour", "mill"]
    assert sources(replacing.run(QUESTION, KINDS["new"])) == ["light"]
    assert sources(await replacing.run_async(QUESTION, KINDS["new"])) == ["light"]
    assert sources(merging.run(QUESTION, KINDS["mill"])) == ["mill"]
    assert sources(merging.run(QUESTION, {"operator": "NOT", "conditions": [KINDS["mill"]]})) == ["harbour"]


async def test_async_searches_in_another_thread(opened: ragindex.IndexRetriever, searching: list[int]) -> None:
    await HaystackRetriever(retriever=opened).run_async(QUESTION)
    assert searching
    assert threading.get_ident() not in searching


def test_a_pipeline_is_saved_and_loaded(library: Path) -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", HaystackRetriever(str(library), "bm25", 2, KINDS["old"], FilterPolicy.MERGE))
    template = "{% for document in documents %}{{ document.content }} {% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables=["documents"]))
    pipeline.connect("retriever.documents", "prompt.documents")
    output = pipeline.run({"retriever": {"query": QUESTION, "filters": KINDS["mill"]}})
    assert output == {"prompt": {"prompt": "The mill was built in 1850, and ground corn. "}}

    saved = pipeline.dumps()
    loaded = Pipeline.loads(saved, allowed_modules=["ragindex.integrations.haystack"])
    assert loaded.to_dict()["components"]["retriever"] == {
        "type": "ragindex.integrations.haystack.HaystackRetriever",
        "init_parameters": {
            "index": str(library),
            "method": "bm25",
            "top_k": 2,
            "filters": KINDS["old"],
            "filter_policy": "merge",
        },
    }
    assert loaded.dumps() == saved
    assert loaded.run({"retriever": {"query": QUESTION, "filters": KINDS["mill"]}}) == output


@pytest.mark.parametrize("packed", [False, True])
def test_a_pipeline_with_an_exported_retriever_is_saved_and_loaded(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path / "cache"))
    with ragindex.open(library, read_only=True) as index:
        path = str(index.export("bm25", tmp_path / "r", pack=packed).path)
    pipeline = Pipeline()
    pipeline.add_component("retriever", HaystackRetriever(exported=path, top_k=2))
    output = pipeline.run({"retriever": {"query": QUESTION}})
    expected = HaystackRetriever(str(library), "bm25", 2).run(QUESTION)
    assert output == {"retriever": expected}
    saved = pipeline.dumps()
    loaded = Pipeline.loads(saved, allowed_modules=["ragindex.integrations.haystack"])
    assert loaded.to_dict()["components"]["retriever"]["init_parameters"]["exported"] == path
    assert loaded.dumps() == saved
    assert loaded.run({"retriever": {"query": QUESTION}}) == output


def test_an_open_method_cannot_be_saved(opened: ragindex.IndexRetriever) -> None:
    with pytest.raises(UsageError, match=r"HaystackRetriever\(index=FOLDER, method=METHOD\)"):
        HaystackRetriever(retriever=opened).to_dict()


async def test_errors_are_those_of_ragindex(library: Path, opened: ragindex.IndexRetriever) -> None:
    both = {"index": "a", "method": "b"}
    wrong = ({}, {"index": "a"}, {"method": "b"}, both | {"retriever": opened}, both | {"exported": "c"})
    for given in (*wrong, {"exported": "c", "method": "b"}, {"exported": "c", "retriever": opened}):
        with pytest.raises(UsageError, match="takes either 'index' and 'method', or 'retriever'"):
            HaystackRetriever(**given)
    with pytest.raises(UsageError, match="is empty"):
        HaystackRetriever(retriever=opened).run(" ")
    with pytest.raises(UsageError, match="is empty"):
        await HaystackRetriever(retriever=opened).run_async(" ")
    with pytest.raises(MissingPartError, match="ragindex index --index .* --methods dense"):
        HaystackRetriever(str(library), "dense").run(QUESTION)
    with pytest.raises(UsageError, match="Got the field 'content'"):
        HaystackRetriever(retriever=opened, filters={"field": "content", "operator": "==", "value": "x"})
