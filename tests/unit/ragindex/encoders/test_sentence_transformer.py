"""Sentence Transformers models on ONNX Runtime, without torch: the real weights of all-MiniLM-L6-v2.

The test of this name in tests/slow compares them with torch and OpenVINO.
"""

import json
import shutil
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from minilm import copy_model, model_folder, replace_file
from tokenizers import Tokenizer

from ragindex._util import durable_files
from ragindex._util.cores import available_cores
from ragindex.encoders import local_models, onnx_export, sentence_transformer
from ragindex.encoders.local_models import choose_device
from ragindex.encoders.sentence_transformer import SentenceTransformers
from ragindex.encoders.transformer_model import (
    DOCUMENT_PROMPTS,
    QUERY_PROMPTS,
    ModelSettings,
    TransformerEncoder,
    UnsupportedModelError,
    choose_prompt,
    read_model_settings,
)
from ragindex.errors import MissingExtraError, UsageError
from ragindex.interfaces import Floats

TEXTS = ["A cat sleeps on the warm stove.", "Der Zug fährt um acht Uhr ab.", "Interest rates rose again in March."]
PUBLISHED = [[0.074374, 0.026060, -0.061853], [-0.110002, 0.107363, 0.036247], [0.042469, -0.086863, 0.002799]]
"""The first numbers of their vectors."""


def opened(folder: Path, **params: Any) -> TransformerEncoder:
    transformer = SentenceTransformers(model=str(folder), engine="onnxruntime", **params).open()
    assert isinstance(transformer, TransformerEncoder)
    return transformer


@pytest.fixture(scope="module")
def encoder() -> TransformerEncoder:
    return opened(model_folder(), batch_size=2)


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "transformers", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed


def states(encoder: TransformerEncoder, text: str) -> Floats:
    """The last hidden states of a text, by the engine and the tokenizer alone."""
    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    ids = np.array([tokenizer.encode(text).ids], np.int64)
    return encoder._run(ids, np.ones_like(ids))[0]


def unit(vectors: Floats) -> Floats:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def exported(folder: Path) -> Path:
    """A folder like an exported one, of small files."""
    folder.mkdir()
    about = {"format": 1, "content": "c0ffee", "settings": {"max_length": 9, "pooling": "mean"}}
    for name, text in {"model.onnx": "no model", "tokenizer.json": "{}", "model.json": json.dumps(about)}.items():
        (folder / name).write_text(text)
    durable_files.write_hashes(folder)
    return folder


# ---------------------------------------------------------------- vectors


def test_vectors_are_the_published_models(encoder: TransformerEncoder) -> None:
    """Means of the last hidden states."""
    by_text = [states(encoder, text) for text in TEXTS]
    expected = unit(np.stack([vectors.mean(axis=0) for vectors in by_text]))
    np.testing.assert_allclose(expected[:, :3], PUBLISHED, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_documents(TEXTS), expected, atol=1e-6)
    np.testing.assert_allclose(encoder.encode_queries(TEXTS), expected, atol=1e-6)
    [embeddings] = encoder.encode_tokens(TEXTS[:1])
    np.testing.assert_allclose(embeddings.vectors, unit(by_text[0][1:-1]), atol=1e-6)
    assert [TEXTS[0][start:end] for start, end in embeddings.spans] == [*TEXTS[0][:-1].split(), "."]


def test_spans_of_tokens(encoder: TransformerEncoder) -> None:
    text = " \n Hello  wörld\0!\ud800unbelievability "
    embeddings = encoder.encode_tokens([text, "", "  "])
    assert [text[start:end] for start, end in embeddings[0].spans][:4] == ["Hello", "wörld", "!", "\ud800"]
    assert "".join(text[start:end] for start, end in embeddings[0].spans[4:]) == "unbelievability"
    assert [tokens.vectors.shape for tokens in embeddings[1:]] == [(0, 384), (0, 384)]


def test_long_texts_are_cut(encoder: TransformerEncoder) -> None:
    long = "stove " * 300
    vectors = encoder.encode_documents([long, long + "interest rates"])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    assert len(encoder.encode_tokens([long])[0].spans) == encoder.max_tokens == 254


def test_first_token_pooling(encoder: TransformerEncoder, tmp_path: Path) -> None:
    folder = copy_model(model_folder(), tmp_path / "model")
    pooling = '{"word_embedding_dimension": 384, "pooling_mode_cls_token": true}'
    replace_file(folder / "1_Pooling" / "config.json", pooling)
    settings = read_model_settings(folder)
    vectors = TransformerEncoder("cls", model_folder(), settings, encoder._run, threads=2).encode_documents(TEXTS)
    np.testing.assert_allclose(vectors, [unit(states(encoder, text)[0]) for text in TEXTS], atol=1e-6)


# ---------------------------------------------------------------- prompts


@pytest.mark.parametrize("given", [True, False], ids=["given", "the model's own"])
def test_prompts(given: bool, encoder: TransformerEncoder) -> None:
    prompts = {"query": "query: ", "document": "passage: "}
    settings = encoder._settings if given else replace(encoder._settings, prompts=prompts)
    named = {f"{name}_prompt": prompt for name, prompt in prompts.items()} if given else {}
    prompted = TransformerEncoder("prompted", model_folder(), settings, encoder._run, threads=1, **named)
    expected = encoder.encode_documents([f"query: {TEXTS[0]}", f"passage: {TEXTS[0]}"])
    np.testing.assert_allclose(prompted.encode_queries(TEXTS[:1])[0], expected[0], atol=1e-6)
    np.testing.assert_allclose(prompted.encode_documents(TEXTS[:1])[0], expected[1], atol=1e-6)
    assert prompted.max_tokens == 254 - len(["passage", ":"])
    [plain] = encoder.encode_tokens(TEXTS[:1])
    assert prompted.encode_tokens(TEXTS[:1])[0].spans == plain.spans
    vectors, [tokens] = prompted.encode_queries_with_tokens([f"  {TEXTS[0]}"])
    np.testing.assert_allclose(vectors[0], expected[0], atol=1e-6)
    assert tokens.spans == tuple((start + 2, end + 2) for start, end in plain.spans)
    in_prompt = encoder.encode_tokens([f"query: {TEXTS[0]}"])[0].vectors[2:]
    np.testing.assert_allclose(tokens.vectors, in_prompt, atol=1e-6)


def test_which_prompt_is_chosen(tmp_path: Path) -> None:
    """As sentence-transformers chooses: a given one, the first of its names even if empty, or the default."""
    prompts = {"passage": "p: ", "corpus": "c: "}
    assert choose_prompt(None, DOCUMENT_PROMPTS, prompts, "d: ") == "p: "
    assert choose_prompt(None, DOCUMENT_PROMPTS, prompts | {"document": ""}, "d: ") == ""
    assert choose_prompt(None, QUERY_PROMPTS, prompts, "d: ") == "d: "
    assert choose_prompt("", QUERY_PROMPTS, {"query": "q: "}, "d: ") == ""
    folder = copy_model(model_folder(), tmp_path / "model", prompts=prompts, default_prompt_name="corpus")
    expected = ModelSettings(256, "mean", {"query": "", "document": "", **prompts}, "c: ")
    assert read_model_settings(folder) == expected


# ---------------------------------------------------------------- which model it is


def test_id_is_of_the_content_and_the_prompts(
    encoder: TransformerEncoder, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    elsewhere = copy_model(model_folder(), tmp_path / "elsewhere")
    assert opened(elsewhere, batch_size=7).id == encoder.id
    ids = {SentenceTransformers(model="x", query_prompt=prompt)._id("c0ffee") for prompt in (None, "", "query: ")}
    assert len(ids) == 3
    assert str(model_folder()) not in encoder.id
    assert capfd.readouterr() == ("", "")


def test_what_counts_as_content(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text(name)
    content = local_models.hash_model(tmp_path)
    for name in ("onnx/config.json", "openvino/config.json", ".cache/config.json", "README.md", "pytorch_model.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("another")
    assert local_models.hash_model(tmp_path) == content
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text("{}")
    assert local_models.hash_model(tmp_path) != content
    (tmp_path / "model.safetensors").unlink()
    without = local_models.hash_model(tmp_path)
    (tmp_path / "pytorch_model.bin").unlink()
    assert local_models.hash_model(tmp_path) != without


# ---------------------------------------------------------------- without torch


@pytest.mark.usefixtures("no_torch")
def test_an_exported_folder_needs_nothing_else(encoder: TransformerEncoder, tmp_path: Path) -> None:
    source = SentenceTransformers(model=str(model_folder()))._exported().folder
    shutil.copytree(source, tmp_path / "model")
    loaded = opened(tmp_path / "model")
    assert loaded.id == encoder.id
    np.testing.assert_allclose(loaded.encode_documents(TEXTS), encoder.encode_documents(TEXTS), atol=1e-6)


@pytest.mark.usefixtures("no_torch")
def test_a_model_published_in_onnx_form(encoder: TransformerEncoder, tmp_path: Path) -> None:
    """Its vectors are the same here, but nothing tells so without torch: its identity is its own."""
    folder = copy_model(model_folder(), tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").symlink_to(SentenceTransformers(model=str(model_folder()))._exported().file)
    loaded = opened(folder)
    of_weights = SentenceTransformers(model=str(folder))._id(local_models.hash_model(folder))
    assert loaded.id not in (encoder.id, of_weights)
    np.testing.assert_allclose(loaded.encode_documents(TEXTS), encoder.encode_documents(TEXTS), atol=1e-6)


@pytest.mark.usefixtures("no_torch")
def test_published_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    folder = copy_model(model_folder(), tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(UsageError, match=r"does not run with engine=onnxruntime.*onnxruntime cannot load it"):
        SentenceTransformers(model=str(folder), engine="onnxruntime").open()


@pytest.mark.usefixtures("no_torch")
def test_what_cannot_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MissingExtraError, match=r"Run: pip install 'sentence-transformers>=5'"):
        SentenceTransformers(model=str(tmp_path), engine="torch").open()
    with pytest.raises(UsageError, match="engine=onnxruntime, precision=float32: exporting it needs sentence-transfor"):
        opened(tmp_path)
    with pytest.raises(UsageError, match="precision=int8 needs device=cpu and another engine than torch"):
        SentenceTransformers(model=str(tmp_path), engine="torch", precision="int8").open()


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json", "model.json"])
def test_damaged_and_older_exports_are_not_used(file: str, tmp_path: Path) -> None:
    folder = exported(tmp_path / "model")
    export = onnx_export.read_export(folder)
    assert export == onnx_export.ExportedModel(folder, "c0ffee", ModelSettings(9, "mean"), folder / "model.onnx")
    text = (folder / file).read_text()
    (folder / file).write_text(text.replace("o", "0") + " ")
    assert onnx_export.read_export(folder) is None
    (folder / file).write_text(text)
    (folder / "model.json").write_text((folder / "model.json").read_text().replace('"format": 1', '"format": 0'))
    durable_files.write_hashes(folder)
    assert onnx_export.read_export(folder) is None


UNSUPPORTED = {
    "its modules are Transformer, Pooling, Dense": (
        "modules.json",
        '[{"type": "a.Transformer"}, {"type": "a.Pooling", "path": "1_Pooling"}, {"type": "a.Dense"}]',
    ),
    "it has no modules.json": ("modules.json", None),
    "it has no tokenizer.json": ("tokenizer.json", None),
    "it sets no max_seq_length": ("sentence_bert_config.json", "{}"),
    "it sets do_lower_case": ("sentence_bert_config.json", '{"max_seq_length": 9, "do_lower_case": true}'),
    "it sets model_args": ("sentence_bert_config.json", '{"max_seq_length": 9, "model_args": {}}'),
    "its pooling is max": ("1_Pooling/config.json", '{"pooling_mode": "max"}'),
    "its pooling is cls, mean": (
        "1_Pooling/config.json",
        '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}',
    ),
    "its pooling is mean": ("1_Pooling/config.json", '{"pooling_mode": "mean", "include_prompt": false}'),
    "modules.json cannot be read": ("modules.json", "["),
}


@pytest.mark.parametrize("reason", UNSUPPORTED)
def test_models_that_only_torch_runs(reason: str, tmp_path: Path) -> None:
    folder = copy_model(model_folder(), tmp_path / "model")
    name, content = UNSUPPORTED[reason]
    (folder / name).unlink()
    if content is not None:
        replace_file(folder / name, content)
    with pytest.raises(UnsupportedModelError) as caught:
        read_model_settings(folder)
    assert str(caught.value).startswith(reason)


# ---------------------------------------------------------------- what runs it


def as_if_installed(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: Any) -> None:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    module.__dict__.update(attributes)
    monkeypatch.setitem(sys.modules, name, module)


def test_a_device_is_a_gpu_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_device("cuda:1") == "cuda:1"
    for driver, cuda, mps, expected in (
        *((True, True, False, "cuda"), (True, False, True, "mps"), (True, False, False, "cpu")),
        (False, True, True, "cpu"),  # torch is not even imported
    ):
        monkeypatch.setattr(local_models, "_may_have_gpu", lambda driver=driver: driver)
        simple_namespaces = [SimpleNamespace(is_available=lambda there=there: there) for there in (cuda, mps)]
        as_if_installed(
            monkeypatch, "torch", cuda=simple_namespaces[0], backends=SimpleNamespace(mps=simple_namespaces[1])
        )
        assert choose_device("auto") == expected


def test_what_doctor_says_runs_models(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = ["onnxruntime"]
    monkeypatch.setattr(sentence_transformer, "installed_engines", lambda: names)
    as_if_installed(monkeypatch, "sentence_transformers")
    assert sentence_transformer.describe_engine() == ("onnxruntime", f"on {available_cores()} cores")
    names.clear()
    engine, detail = sentence_transformer.describe_engine()
    assert engine == "torch"
    assert detail.startswith("on cpu; onnxruntime encodes faster than torch")
    assert detail.endswith("pip install 'onnx>=1.17' 'onnxruntime>=1.20'")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert sentence_transformer.describe_engine() == ("none", "pip install 'sentence-transformers>=5'")
    monkeypatch.setattr(sentence_transformer, "choose_device", lambda device: "cuda")
    assert sentence_transformer.describe_engine() == ("torch", "on cuda")
