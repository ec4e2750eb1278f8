"""Sentence Transformers models on each engine, and their export by torch, with the weights of all-MiniLM-L6-v2."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from minilm import copy_model, export_without_torch, random_texts, replace_file, weights_folder
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import no_grad
from transformers import AutoModel, AutoTokenizer

from ragindex.encoders import onnx_export
from ragindex.encoders.sentence_transformer import SentenceTransformerEncoder, SentenceTransformers
from ragindex.encoders.transformer_model import TransformerEncoder, open_engine, read_model_settings
from ragindex.errors import UsageError

try:
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
except ModuleNotFoundError:  # its earlier place
    from sentence_transformers.models import StaticEmbedding

FOLDER = weights_folder()
TEXTS = ["A cat sleeps on the warm stove.", "Der Zug fährt um acht Uhr ab.", "Interest rates rose again in March."]
ENGINES = ("torch", "onnxruntime", "openvino")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def encoder(engine: str) -> Any:
    return SentenceTransformers(model=str(FOLDER), batch_size=2, engine=engine, query_prompt="query: ").open()


@pytest.fixture(scope="module")
def torch() -> Any:
    return SentenceTransformers(model=str(FOLDER), engine="torch", query_prompt="query: ").open()


# ---------------------------------------------------------------- engines


def test_vectors_are_the_published_models(torch: Any) -> None:
    """Mean of the last hidden states over the attention mask, by transformers alone."""
    tokenizer, model = AutoTokenizer.from_pretrained(FOLDER), AutoModel.from_pretrained(FOLDER)
    batch = tokenizer(TEXTS, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with no_grad():
        states = model(**batch).last_hidden_state.numpy()
    mask = batch["attention_mask"].numpy()[:, :, np.newaxis]
    expected = (states * mask).sum(axis=1) / mask.sum(axis=1)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(torch.encode_documents(TEXTS), expected, atol=1e-5)
    [embeddings] = torch.encode_tokens(TEXTS[:1])
    inside = states[0][1 : int(mask[0].sum()) - 1]
    np.testing.assert_allclose(embeddings.vectors, inside / np.linalg.norm(inside, axis=1, keepdims=True), atol=1e-5)
    assert [TEXTS[0][start:end] for start, end in embeddings.spans] == [*TEXTS[0][:-1].split(), "."]


def assert_equal(mine: Any, theirs: Any, texts: list[str]) -> None:
    """Vectors, token vectors and spans, of documents and queries."""
    np.testing.assert_allclose(mine.encode_documents(texts), theirs.encode_documents(texts), atol=1e-5)
    np.testing.assert_allclose(mine.encode_queries(texts), theirs.encode_queries(texts), atol=1e-5)
    vectors, tokens = mine.encode_queries_with_tokens(texts)
    expected_vectors, expected_tokens = theirs.encode_queries_with_tokens(texts)
    np.testing.assert_allclose(vectors, expected_vectors, atol=1e-5)
    pairs = [*zip(tokens, expected_tokens, strict=True)]
    pairs += zip(mine.encode_tokens(texts), theirs.encode_tokens(texts), strict=True)
    for embedding, expected in pairs:
        assert embedding.spans == expected.spans
        np.testing.assert_allclose(embedding.vectors, expected.vectors, atol=1e-5)


def test_engines_give_the_vectors_of_torch_and_their_spans(
    encoder: Any, engine: str, torch: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(encoder, SentenceTransformerEncoder if engine == "torch" else TransformerEncoder)
    assert (encoder.id, encoder.max_tokens) == (torch.id, 254)
    assert_equal(encoder, torch, [" \n Hello  wörld\0!\ud800unbelievability ", "", "stove " * 1000, *random_texts(6)])
    assert capfd.readouterr() == ("", "")


def test_many_threads_get_their_own_vectors(encoder: Any) -> None:
    texts = random_texts(3)
    alone = [encoder.encode_queries([text])[0] for text in texts]
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(lambda text: encoder.encode_queries([text])[0], texts * 2))
    np.testing.assert_allclose(vectors, alone * 2, atol=1e-6)


_CLOSE_TWO_MODELS = """
import signal, sys
from ragindex.encoders.sentence_transformer import SentenceTransformers

folder, engine = sys.argv[1:]
models = [SentenceTransformers(model=folder, engine=engine, document_prompt=prompt).open() for prompt in ("", "a: ")]
assert [len(model.encode_documents(["A cat."])) for model in models] == [1, 1]
del models[0]
del models[0]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts programs in the background without it
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_after_models_are_closed(engine: str) -> None:
    """OpenVINO unmaps the stack for signals of the thread that compiled a model."""
    arguments = [sys.executable, "-c", _CLOSE_TWO_MODELS, str(FOLDER), engine]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


# ---------------------------------------------------------------- what sentence-transformers does


@pytest.mark.parametrize("names", [("note",), ("query", "note"), ("passage", "note"), ("query", "document", "note")])
def test_prompts_are_those_that_sentence_transformers_chooses(names: tuple[str, ...], tmp_path: Path) -> None:
    """Named, empty and default prompts in all combinations, for both ways of encoding a query."""
    prompts = {name: "" if name == "query" and len(names) == 2 else f"{name}: " for name in names}
    folder = copy_model(FOLDER, tmp_path / "model", prompts=prompts, default_prompt_name="note")
    library = SentenceTransformer(str(folder), device="cpu")
    queries = library.encode_query(TEXTS, normalize_embeddings=True)
    documents = library.encode_document(TEXTS, normalize_embeddings=True)
    longest = int(library.max_seq_length or 0) - 2 - len(library.tokenizer.tokenize(library.prompts["document"] or ""))
    run = open_engine("onnxruntime", SentenceTransformers(model=str(FOLDER))._exported().file, 1)
    for ours in (
        SentenceTransformers(model=str(folder), engine="torch").open(),
        TransformerEncoder("ours", folder, read_model_settings(folder), run, threads=1),
    ):
        np.testing.assert_allclose(ours.encode_queries(TEXTS), queries, atol=1e-5)
        np.testing.assert_allclose(ours.encode_queries_with_tokens(TEXTS)[0], queries, atol=1e-5)
        np.testing.assert_allclose(ours.encode_documents(TEXTS), documents, atol=1e-5)
        assert ours.max_tokens == longest


def test_a_static_model_has_no_token_vectors(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    weights = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 8)).astype(np.float32)
    static = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")
    static.save(str(tmp_path / "static"))
    encoder = SentenceTransformers(model=str(tmp_path / "static")).open()
    np.testing.assert_allclose(np.linalg.norm(encoder.encode_documents(TEXTS), axis=1), 1, atol=1e-6)
    for ask in (encoder.encode_tokens, encoder.encode_queries_with_tokens):
        with pytest.raises(UsageError, match="gives no vectors of tokens in the space of its texts: it has no token_"):
            ask(TEXTS)


@pytest.mark.parametrize("name", ["/no/such/folder", "empty", "spoilt"])
def test_unknown_model(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    if name == "spoilt":
        replace_file(copy_model(FOLDER, tmp_path / "spoilt") / "config.json", "{")
    model = name if name.startswith("/") else str(tmp_path / name)
    with pytest.raises(UsageError, match=r"cannot load the model .* or the path of a model's folder"):
        SentenceTransformers(model=model).open()


# ---------------------------------------------------------------- exports


def test_torchs_export_is_made_once_and_gives_the_vectors_of_ours(
    torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged export is replaced, what a killed process left is cleared away, and the graph is like minilm.py's."""
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path))
    sentence_transformers = SentenceTransformers(model=str(FOLDER), engine="onnxruntime", query_prompt="query: ")
    first = sentence_transformers._exported()
    abandoned = first.folder.with_name(f"{first.folder.name}.killed.partial")
    abandoned.mkdir()
    with first.file.open("r+b") as file:
        file.seek(50_000_000)
        file.write(b"other weights")
    texts = random_texts(2)
    by_default = sentence_transformers.open()
    assert_equal(by_default, torch, texts)
    assert {path.name for path in first.folder.parent.iterdir()} == {first.folder.name, f"{first.folder.name}.lock"}
    export_without_torch(FOLDER, first.content, tmp_path / "ours")
    ours = SentenceTransformers(model=str(tmp_path / "ours"), engine="onnxruntime", query_prompt="query: ").open()
    assert ours.id == by_default.id
    assert_equal(ours, by_default, texts)


def test_a_model_whose_export_differs_runs_on_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path))
    monkeypatch.setattr(onnx_export, "LARGEST_DIFFERENCE", 1e-12)
    assert isinstance(SentenceTransformers(model=str(FOLDER)).open(), SentenceTransformerEncoder)
    with pytest.raises(UsageError, match=r"does not run with engine=onnxruntime.*: its vectors .* differ by \d\.\de-0"):
        SentenceTransformers(model=str(FOLDER), engine="onnxruntime").open()
    assert [path.suffix for path in (tmp_path / "encoders").iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written_leaves_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path / "file"))
    assert isinstance(SentenceTransformers(model=str(FOLDER)).open(), SentenceTransformerEncoder)


def test_int8_is_another_encoder_with_near_vectors() -> None:
    unquantized = SentenceTransformers(model=str(FOLDER)).open()
    small = SentenceTransformers(model=str(FOLDER), precision="int8").open()
    assert small.id != unquantized.id
    cosines = (small.encode_documents(TEXTS) * unquantized.encode_documents(TEXTS)).sum(axis=1)
    assert 0.98 < cosines.min() < cosines.max() < 0.9999
