"""A cross-encoder against transformers: a tiny BERT with random weights from a seed, which says nothing of quality."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertTokenizerFast,
)

from ragindex.errors import UsageError
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Document, Query

TEXTS = {
    "a": "slate slate slate slate",
    "b": "slate slate slate barges",
    "c": "slate slate harbour barges",
    "d": "slate morning fog",
    "e": "slate slate quiet",
}
QUESTION = "barges slate harbour"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Index:
    opened = Index.open(tmp_path_factory.mktemp("w"), chunking=None, create=True)
    opened.add(Document(id, "", text) for id, text in (TEXTS | {"0": TEXTS["c"], "f": TEXTS["c"]}).items())
    opened.build(registry.scheme("bm25"))
    return opened


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Cross-encoders of 2 layers and 16 numbers, made from a seed, that give so many numbers a pair."""

    def saved(numbers: int) -> Path:
        folder = tmp_path_factory.mktemp("tiny")
        torch.manual_seed(3)
        words = sorted({word for text in TEXTS.values() for word in text.split()})
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
        (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
        BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
        sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        config = BertConfig(vocab_size=len(vocabulary), num_labels=numbers, initializer_range=0.5, **sizes)
        BertForSequenceClassification(config).save_pretrained(folder)
        return folder

    return saved


def crossed(folder: Path, **params: Any) -> Any:
    reranker = {"name": "cross-encoder", "params": {"model": str(folder), **params}}
    return registry.scheme({"name": "rerank", "params": {"base": "bm25", "reranker": reranker}})


def test_a_cross_encoder_scores_as_transformers_does(tiny: Callable[[int], Path], workspace: Index) -> None:
    folder = tiny(1)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
    model.eval()
    with torch.no_grad():
        expected = {
            id: float(model(**tokenizer(QUESTION, text, return_tensors="pt")).logits[0, 0])
            for id, text in TEXTS.items()
        }
    (retrieval,) = crossed(folder, batch_size=2).open(workspace).retrieve([Query("q", QUESTION)], 7)
    expected |= {"0": expected["c"], "f": expected["c"]}
    assert [hit.id for hit in retrieval.hits] == sorted(expected, key=lambda id: (-expected[id], id))
    assert [hit.score for hit in retrieval.hits] == pytest.approx(
        [expected[hit.id] for hit in retrieval.hits], abs=1e-5
    )
    assert len({hit.score for hit in retrieval.hits if hit.id in "0cf"}) == 1
    assert retrieval.trace[-1].note == ""


def test_models_that_cannot_be_used(tiny: Callable[[int], Path], workspace: Index) -> None:
    with pytest.raises(UsageError, match=r"must give one number a passage. Got an array of the shape \(5, 2\)"):
        crossed(tiny(2)).open(workspace).retrieve([Query("q", QUESTION)], 5)
    folder = tiny(1)
    scheme = crossed(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 0.1}))
    with pytest.raises(UsageError, match="the files in .* have changed"):
        scheme.open(workspace)
