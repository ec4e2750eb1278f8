"""The chunking of a comparison's index: a benchmark's documents in the chunks of a paper."""

import json
from pathlib import Path

import pytest
from comparing import compare

from ragindex.errors import UsageError
from ragindex.index.index import Index
from ragindex.types import Chunking
from ragindex_eval.data.datasets import read_dataset

LONG = "Ostra Bridge was designed by Ilse Harrow. " * 4
PUBLISHED = {
    "source": "A paper, Table 1",
    "unit": "percent",
    "metrics": ["R@1"],
    "data": {"bridges": {"conditions": {"documents": 2, "passages": 5}, "figures": {"bm25": [100]}}},
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two documents of 28 and 7 words, in the format of HippoRAG's samples."""
    documents = [
        {"title": "Ostra Bridge", "text": LONG.strip(), "idx": 0},
        {"title": "Ilse Harrow", "text": "Ilse Harrow was born in Port Callan.", "idx": 1},
    ]
    question = {"_id": "q", "question": "Who designed Ostra Bridge?", "answer": "Ilse Harrow"}
    question |= {
        "supporting_facts": [["Ostra Bridge", 0]],
        "context": [[document["title"], [document["text"]]] for document in documents],
    }
    (tmp_path / "bridges.json").write_text(json.dumps([question]), encoding="utf-8")
    (tmp_path / "bridges_corpus.json").write_text(json.dumps(documents), encoding="utf-8")
    return tmp_path / "bridges.json"


@pytest.mark.parametrize(
    ("chunking", "passages"), [(None, 2), ("passages(by=words, size=6)", 7), ("passages(size=7)", 5)]
)
def test_documents_are_split_as_asked_and_the_number_is_a_condition(
    data: Path, tmp_path: Path, chunking: str | None, passages: int
) -> None:
    settings = {"published": PUBLISHED, "published_data": "bridges"}
    result = compare(data, "bm25", k=1, index=tmp_path / "index", chunking=chunking, **settings)
    assert (result.dataset.documents, result.dataset.passages) == (2, passages)
    assert result.methods[0].metrics["R@1"] == 1.0  # a document counts by any of its passages
    assert result.published is not None
    here = [(each.name, each.here, each.equal) for each in result.published.conditions]
    assert here == [("documents", "2", True), ("passages", str(passages), passages == 5)]
    verdicts = {figure.verdict for figure in result.published.figures}
    assert (verdicts == {"not comparable"}) == (passages != 5)


def test_an_index_of_other_chunks_is_refused(data: Path, tmp_path: Path) -> None:
    compare(data, "bm25", k=1, index=tmp_path / "index", chunking="passages(size=7)")
    with pytest.raises(UsageError, match=r"splits its documents otherwise: passages\(by=words, size=7\)"):
        compare(data, "bm25", k=1, index=tmp_path / "index", chunking="passages(size=9)")
    with pytest.raises(UsageError, match="A chunking is written 'passages"):
        compare(data, "bm25", k=1, index=tmp_path / "other", chunking="passages")
    with pytest.raises(UsageError, match=r"--chunking is for DATA\. .* run: ragindex index --index "):
        compare(questions=data, methods="bm25", index=tmp_path / "index", chunking="passages(size=7)")


@pytest.mark.parametrize("as_corpus", [True, False])
def test_documents_that_are_read_already_are_split_as_asked(data: Path, tmp_path: Path, *, as_corpus: bool) -> None:
    dataset = read_dataset(str(data))
    given = {"chunking": "passages(size=7)", "index": tmp_path / "index", "methods": "bm25", "k": 1}
    if as_corpus:
        (tmp_path / "questions.csv").write_text(
            f"question,answer,documents\nWho designed Ostra Bridge?,Ilse Harrow,{dataset.corpus.documents[0].id}\n",
            encoding="utf-8",
        )
        result = compare(dataset.corpus, questions=tmp_path / "questions.csv", **given)
    else:
        result = compare(dataset, **given)
    assert (result.dataset.documents, result.dataset.passages) == (2, 5)
    assert result.methods[0].metrics["R@1"] == 1.0


def test_an_open_index_of_other_chunks_is_refused(data: Path, tmp_path: Path) -> None:
    refusal = r"splits its documents otherwise: passages\(by=words, size=9\)\. To change it, run"
    with Index.open(tmp_path / "index", chunking=Chunking(size=9, overlap=0, by="words"), create=True) as index:
        with pytest.raises(UsageError, match=refusal):
            compare(data, "bm25", k=1, index=index, chunking="passages(size=7)")
        with pytest.raises(
            UsageError, match="splits its documents otherwise"
        ):  # the documents are passages as they are
            compare(data, "bm25", k=1, index=index)
        assert compare(data, "bm25", k=1, index=index, chunking="passages(size=9)").dataset.passages == 5
