"""Models of sentence-transformers exported to ONNX form, once per model, into the user's cache.

An exported folder holds model.onnx, tokenizer.json and model.json. It can be copied to a machine without torch: given
as the model there, it makes the same vectors under the same id.
"""

import importlib.util
import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from filelock import FileLock

from ragindex._util import durable_files
from ragindex._util.canonical import digest
from ragindex.encoders.transformer_model import (
    ModelSettings,
    TransformerEncoder,
    UnsupportedModelError,
    open_engine,
    read_model_settings,
)
from ragindex.interfaces import Encoder, TokenEncoder

Precision: TypeAlias = Literal["float32", "int8"]
LARGEST_DIFFERENCE = 1e-4
"""Between the vectors of torch and of the exported model. Exports that differ more are not used."""
_FORMAT = 1
_FILE = "model.onnx"
_OPSET = 17
_PROBES = (
    "a",
    "Who wrote the novel that the 1995 film is based on?",
    "Zürich, Łódź and São Paulo: naïve café façades.",
    "北京是中华人民共和国的首都。 日本語のテキスト。",
    "def f(x): return x ** 2  # 🦊 emoji & symbols € < > \u00ad",
    "lighthouse " * 700,
    " ".join(f"The harbour board met on {day} March 1931 and voted on pier {day * 7}." for day in range(1, 9)),
)
"""Short, long, cut, and in several scripts: what tokenizers and padding could treat differently."""


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """A model in ONNX form on disk."""

    folder: Path
    content: str
    """The hash of the files that the model was exported from, and of its precision: the identity of its vectors."""
    settings: ModelSettings
    file: Path


def cache_folder() -> Path:
    """Return the folder of exported models, in that of `durable_files.cache_root`."""
    return durable_files.cache_root() / "encoders"


def can_export() -> bool:
    """Whether the packages that an export needs are installed."""
    return all(importlib.util.find_spec(name) for name in ("sentence_transformers", "onnx", "onnxruntime"))


def read_export(folder: Path) -> ExportedModel | None:
    """Open an exported folder; None if it is none, or if a file in it is damaged."""
    if not (folder / "model.json").is_file() or durable_files.find_folder_damage(folder) is not None:
        return None
    metadata = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    if metadata.get("format") != _FORMAT:
        return None
    return ExportedModel(folder, metadata["content"], ModelSettings(**metadata["settings"]), folder / _FILE)


def read_published(folder: Path, content: str) -> ExportedModel | None:
    """Open a model that its author published in ONNX form beside its weights; None if there is no such file.

    Nothing tells that its vectors are those of the weights, so its identity is its own. Raises UnsupportedModelError.
    """
    file = next((path for path in (folder / "onnx" / _FILE, folder / _FILE) if path.is_file()), None)
    if file is None:
        return None
    return ExportedModel(folder, digest([content, durable_files.hash_file(file)]), read_model_settings(folder), file)


def find_export(content: str, precision: Precision) -> ExportedModel | None:
    """Return the model in the cache that was exported from files with this hash, or None."""
    return read_export(cache_folder() / _name(content, precision))


def export_model(
    source: Path, content: str, settings: ModelSettings, precision: Precision, model: Any, reference: Encoder
) -> ExportedModel:
    """Export `model`, a SentenceTransformer loaded from `source`, into the cache, in one step.

    `reference` encodes with torch: raises UnsupportedModelError if the exported model's vectors differ from its
    vectors by more than LARGEST_DIFFERENCE, or if torch cannot export the model. Raises OSError if the cache cannot be
    written.
    """
    target = cache_folder() / _name(content, precision)
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        exported = read_export(target)  # another process may have exported it meanwhile
        if exported is not None:
            return exported
        for abandoned in target.parent.glob(f"{target.name}.*.partial"):
            shutil.rmtree(abandoned)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.", suffix=".partial") as partial:
            folder = Path(partial) / "model"
            folder.mkdir()
            shutil.copyfile(source / "tokenizer.json", folder / "tokenizer.json")
            _write_onnx(model, folder / _FILE)
            _check(ExportedModel(folder, content, settings, folder / _FILE), reference)
            if precision == "int8":
                _quantize(folder / _FILE)
            identity = content if precision == "float32" else digest([content, precision])
            about = {"format": _FORMAT, "content": identity, "settings": asdict(settings)}
            (folder / "model.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
            durable_files.write_hashes(folder)
            durable_files.move_durably(folder, target)
        exported = read_export(target)
    if exported is None:
        raise OSError(f"{target} changed while it was written")
    return exported


def _name(content: str, precision: Precision) -> str:
    return f"{content}-{precision}"


def _write_onnx(model: Any, file: Path) -> None:
    """Trace the transformer of a SentenceTransformer. Raises UnsupportedModelError."""
    import torch

    transformer = model[0].auto_model

    class LastHiddenState(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, *inputs: Any) -> Any:
            feeds = dict(zip(names, inputs, strict=True))
            return self.transformer(**feeds, return_dict=False)[0]

    example = model.tokenizer(["Two texts of", "unlike lengths"], padding=True, return_tensors="pt")
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in example]
    axes = {name: {0: "batch", 1: "length"} for name in [*names, "last_hidden_state"]}
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                LastHiddenState().eval(),
                tuple(example[name] for name in names),
                str(file),
                input_names=names,
                output_names=["last_hidden_state"],
                dynamic_axes=axes,
                opset_version=_OPSET,
                dynamo=False,
            )
    except (RuntimeError, torch.onnx.OnnxExporterError) as error:
        raise UnsupportedModelError(f"torch cannot export it ({str(error).partition(chr(10))[0]})") from error


def _check(exported: ExportedModel, reference: Encoder) -> None:
    """Compare vectors of texts and of tokens with those of torch. Raises UnsupportedModelError."""
    encoder = TransformerEncoder(
        "check", exported.folder, exported.settings, open_engine("onnxruntime", exported.file, 1), threads=1
    )
    pairs: list[tuple[Any, Any]] = [
        (encoder.encode_documents(_PROBES), reference.encode_documents(_PROBES)),
        (encoder.encode_queries(_PROBES), reference.encode_queries(_PROBES)),
    ]
    if isinstance(reference, TokenEncoder):
        for mine, theirs in zip(encoder.encode_tokens(_PROBES), reference.encode_tokens(_PROBES), strict=True):
            if mine.spans != theirs.spans:
                raise UnsupportedModelError("its tokens in ONNX form stand for other characters")
            pairs.append((mine.vectors, theirs.vectors))
    largest = max(float(np.abs(mine - theirs).max(initial=0.0)) for mine, theirs in pairs)
    if not largest <= LARGEST_DIFFERENCE:
        raise UnsupportedModelError(f"its vectors in ONNX form differ by {largest:.1e}")


def _quantize(file: Path) -> None:
    """Replace the weights of an ONNX file by 8-bit integers: a scale per channel, 7 bits, as AVX2 needs."""
    quantization: Any = import_module("onnxruntime.quantization")

    name = file.with_name("float32.onnx")
    file.rename(name)
    with _no_log_messages():
        quantization.quantize_dynamic(
            str(name), str(file), weight_type=quantization.QuantType.QInt8, per_channel=True, reduce_range=True
        )
    name.unlink()


@contextmanager
def _no_log_messages() -> Iterator[None]:
    """Silence a library that logs advice to the root logger and installs a handler there."""
    root = logging.getLogger()
    level, handlers = root.manager.disable, root.handlers[:]
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(level)
        root.handlers[:] = handlers
