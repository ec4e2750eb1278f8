"""A late-interaction model against its library's scores. It is tiny, and its weights are random."""

from pathlib import Path

import pytest
import torch
from sentence_transformers import MultiVectorEncoder
from transformers import BertConfig, BertModel, BertTokenizerFast

from ragindex import testing
from ragindex.errors import UsageError
from ragindex.index.index import Index
from ragindex.parts.vectors.token_vectors import MultiVectors
from ragindex.plugins import registry
from ragindex.types import Query

WORDS = sorted(
    {
        word
        for document in testing.DOCUMENTS
        for word in f"{document.title} {document.text}".lower().replace(".", "").split()
    }
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A late-interaction model of 2 layers and 16 numbers, made from a seed."""
    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(7)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "?", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(folder / "bert")
    MultiVectorEncoder(str(folder / "bert"), device="cpu").save(str(folder / "model"))
    return folder / "model"


def test_a_late_interaction_model_scores_as_its_library_does(tiny: Path, tmp_path: Path) -> None:
    scheme = registry.scheme({"name": "colbert", "params": {"vectors": f"multi_vectors:{tiny}", "candidates": "bm25"}})
    workspace = Index.open(tmp_path / "w", chunking=None, create=True)
    workspace.add(testing.DOCUMENTS)
    workspace.build(scheme)
    retrievals = scheme.open(workspace).retrieve([Query("q", text) for text in testing.QUESTIONS], 24)
    model = MultiVectorEncoder(str(tiny), device="cpu")
    texts = [f"{document.title}\n{document.text}" for document in testing.DOCUMENTS]
    expected = model.similarity(model.encode_query(list(testing.QUESTIONS)), model.encode_document(texts)).numpy()
    for row, retrieval in enumerate(retrievals):
        assert len(retrieval.hits) == 24
        scores = [retrieval.hits[place].score for place in range(24)]
        assert scores == pytest.approx([float(expected[row][int(hit.id[1:])]) for hit in retrieval.hits], abs=0.05)
    assert workspace.encoder_id is None  # the workspace's own was not needed


def test_a_late_interaction_model_searches_a_pool_of_trees(tiny: Path, tmp_path: Path) -> None:
    """Passages, aggregates and summaries: scored as its library scores their texts."""
    base = {"name": "colbert", "params": {"vectors": f"multi_vectors:{tiny}"}}
    scheme = registry.scheme({"name": "sirerag", "params": {"base": base}})
    workspace = Index.open(tmp_path / "w", chunking=None, create=True)
    workspace.add(testing.DOCUMENTS)
    workspace.build(scheme)
    retrievals = scheme.open(workspace).retrieve([Query("q", text) for text in testing.QUESTIONS], 200)
    assert {hit.kind for hit in retrievals[0].hits} == {"passage", "aggregate", "summary"}
    model = MultiVectorEncoder(str(tiny), device="cpu")
    for question, retrieval in zip(testing.QUESTIONS, retrievals, strict=True):
        texts = [f"{hit.title}\n{hit.text}".strip() for hit in retrieval.hits]
        (expected,) = model.similarity(model.encode_query([question]), model.encode_document(texts)).tolist()
        assert [hit.score for hit in retrieval.hits] == pytest.approx(expected, abs=0.05)


def test_models_that_cannot_be_used(tiny: Path, tmp_path: Path) -> None:
    workspace = Index.open(tmp_path, chunking=None, create=True)
    workspace.add(testing.DOCUMENTS[:1])
    with pytest.raises(UsageError, match=f"revision deadbeef, now {MultiVectors(model=str(tiny)).revision}"):
        workspace.build(MultiVectors(model=str(tiny), revision="deadbeef"))
    with pytest.raises(UsageError, match="cannot load 'no/such/folder'"):
        workspace.build(MultiVectors(model="no/such/folder"))
