"""Sentence Transformers models: by their name on the Hugging Face hub or by the path of a model's folder."""

import importlib.util
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ragindex._util.canonical import digest, encodable
from ragindex._util.cores import available_cores
from ragindex._util.distribution import install_line, require_installed, require_module
from ragindex.encoders import onnx_export
from ragindex.encoders.local_models import choose_device, hash_model, hide_progress_bars, quiet_log
from ragindex.encoders.model_hub import (
    find_snapshot,
    hub_contacts,
    list_model_folders,
    locate_model,
    require_snapshot,
)
from ragindex.encoders.onnx_export import ExportedModel
from ragindex.encoders.transformer_model import (
    DOCUMENT_PROMPTS,
    QUERY_PROMPTS,
    EngineName,
    TransformerEncoder,
    UnsupportedModelError,
    choose_prompt,
    installed_engines,
    open_engine,
    read_model_settings,
)
from ragindex.encoders.vectors import locate_tokens, normalize_rows
from ragindex.errors import UsageError
from ragindex.interfaces import Encoder, EncoderPlugin, Floats, TokenEmbeddings
from ragindex.interfaces.llm import LLMSettings
from ragindex.plugins.base import Contact
from ragindex.types import Span

_log = logging.getLogger(__name__)


class SentenceTransformers(EncoderPlugin):
    """`sentence-transformers:NAME_OR_PATH`. Texts are cut at the model's longest input.

    The prompts are put before each text; without them the model's own are used, where it has any. HF_HOME and
    HF_HUB_OFFLINE are honoured. On a CPU the model runs on the fastest engine that is installed, with the same vectors.
    """

    argument: ClassVar[str] = "model"
    version: ClassVar[int] = 1

    model: str = Field(description="Folder of a model, or its name on the Hugging Face hub.")
    batch_size: int = Field(default=64, ge=1, description="Texts encoded at once, at most.")
    device: str = Field(default="auto", description="auto (a GPU where there is one), cpu, cuda or mps.")
    engine: Literal["auto", "openvino", "onnxruntime", "torch"] = Field(
        default="auto", description="What runs the model on a CPU; auto: the first of these that is installed."
    )
    precision: onnx_export.Precision = Field(
        default="float32", description="int8: faster on CPUs, with other vectors; needs onnxruntime."
    )
    query_prompt: str | None = Field(
        default=None, description="Text put before each query. null: the model's own prompt."
    )
    document_prompt: str | None = Field(
        default=None, description="Text put before each document. null: the model's own prompt."
    )

    def contacts(self) -> tuple[Contact, ...]:
        """Return the hub, if the model is not on this machine."""
        return hub_contacts(self.model)

    def model_folders(self) -> tuple[str, ...]:
        """Return the model's folder, if it is given by its path."""
        return list_model_folders(self.model)

    def open(self, setting: LLMSettings | None = None) -> "SentenceTransformerEncoder | TransformerEncoder":
        """Load the model.

        Raises MissingExtraError if no engine is installed, and UsageError if there is no such model or the engine
        asked for cannot run it.
        """
        device = choose_device(self.device)
        if device == "cpu" and self.engine != "torch":
            try:
                return self._open_compiled()
            except UnsupportedModelError as reason:
                if self.engine != "auto" or self.precision != "float32":
                    options = f"engine={self.engine}, precision={self.precision}"
                    raise UsageError(
                        f"{self.model!r} does not run with {options}: {reason}. "
                        "Leave both out to use the fastest engine that can run it."
                    ) from reason
                _log.info("%s runs on torch: %s", self.model, reason)
        elif self.precision != "float32":
            raise UsageError(f"precision={self.precision} needs device=cpu and another engine than torch.")
        model = self._load(device)
        return SentenceTransformerEncoder(self, model, hash_model(self._folder() or require_snapshot(self.model)))

    def _open_compiled(self) -> TransformerEncoder:
        """Raises UnsupportedModelError with the reason if only torch can run the model here."""
        engine: EngineName
        if self.engine == "openvino" or self.engine == "onnxruntime":
            engine = self.engine
        elif self.precision == "int8":
            engine = "onnxruntime"  # OpenVINO runs these integer operators slower than 32 bits
        elif installed_engines():
            engine = installed_engines()[0]
        else:
            raise UnsupportedModelError("neither openvino nor onnxruntime is installed")
        exported = self._exported()
        threads = available_cores()
        try:
            run = open_engine(engine, exported.file, threads)
        except (OSError, RuntimeError, ValueError) as error:
            raise UnsupportedModelError(f"{engine} cannot load it ({str(error).partition(chr(10))[0]})") from error
        return TransformerEncoder(
            self._id(exported.content),
            exported.folder,
            exported.settings,
            run,
            threads=threads,
            batch_size=self.batch_size,
            query_prompt=self.query_prompt,
            document_prompt=self.document_prompt,
        )

    def _exported(self) -> ExportedModel:
        """Return the model in ONNX form: the folder given, the one in the cache, or one exported now."""
        folder = self._folder()
        given = onnx_export.read_export(folder) if folder else None
        if given is not None:
            return given
        model = None
        if folder is None:  # not downloaded yet; sentence-transformers does that
            model = self._load("cpu")
            folder = require_snapshot(self.model)
        content = hash_model(folder)
        export = onnx_export.find_export(content, self.precision)
        if export is not None:
            return export
        if importlib.util.find_spec("sentence_transformers") is None and self.precision == "float32":
            published = onnx_export.read_published(folder, content)
            if published is not None:
                return published
        if not onnx_export.can_export():
            raise UnsupportedModelError("exporting it needs sentence-transformers, onnx and onnxruntime")
        settings = read_model_settings(folder)
        model = model or self._load("cpu")
        plain = self.model_copy(update={"query_prompt": None, "document_prompt": None})
        reference = SentenceTransformerEncoder(plain, model, content)
        try:
            return onnx_export.export_model(folder, content, settings, self.precision, model, reference)
        except OSError as error:
            raise UnsupportedModelError(f"the cache of exported models cannot be written ({error})") from error

    def _folder(self) -> Path | None:
        """Return the model's folder: the one given, or the one in the hub's cache; None if it is not there yet."""
        folder = Path(self.model).expanduser()
        return folder if folder.is_dir() else find_snapshot(self.model)

    def _id(self, content: str) -> str:
        return f"sentence-transformers-{digest([content, self.query_prompt, self.document_prompt])}"

    def _load(self, device: str) -> Any:
        """Load the model with sentence-transformers. Raises MissingExtraError and UsageError."""
        needed = ("sentence_transformers", "sentence-transformers", f"The encoder sentence-transformers:{self.model}")
        require_installed(*needed)
        place = locate_model(self.model)  # before the import, which takes long
        module = require_module(*needed)
        try:
            with hide_progress_bars(), quiet_log("sentence_transformers"):
                return module.SentenceTransformer(place, device=device)
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(
                f"sentence-transformers cannot load the model {self.model!r} ({str(error).partition(chr(10))[0]}). "
                "Give the name of a model on the Hugging Face hub or the path of a model's folder; with "
                "HF_HUB_OFFLINE=1 a named model must be in HF_HOME already."
            ) from error


def describe_engine() -> tuple[str, str]:
    """Return what runs models here, as "onnxruntime", and details: the device, and how to install a faster engine."""
    device = choose_device("auto")
    if device != "cpu":
        return "torch", f"on {device}"
    if installed_engines():
        needed = "" if onnx_export.can_export() else "; models in ONNX form only, or run: "
        line = install_line("onnx", "onnxruntime", "sentence-transformers") if needed else ""
        return installed_engines()[0], f"on {available_cores()} cores{needed}{line}"
    faster = (
        "onnxruntime encodes faster than torch, see docs/how-to/speed-up-encoding.md: "
        f"{install_line('onnx', 'onnxruntime')}"
    )
    there = importlib.util.find_spec("sentence_transformers") is not None
    return ("torch", f"on cpu; {faster}") if there else ("none", install_line("sentence-transformers"))


class SentenceTransformerEncoder(Encoder):
    """A model at work; one thread computes at a time, because tokenizers cannot be shared."""

    def __init__(self, plugin: SentenceTransformers, model: Any, content: str) -> None:
        self._plugin, self._model, self._lock = plugin, model, Lock()
        self._id = plugin._id(content)
        own = (model.prompts, model.prompts.get(model.default_prompt_name or "") or "")
        self._query_prompt = choose_prompt(plugin.query_prompt, QUERY_PROMPTS, *own)
        self._document_prompt = choose_prompt(plugin.document_prompt, DOCUMENT_PROMPTS, *own)
        self._dimensions = model.encode(["."], show_progress_bar=False).shape[1]

    @property
    def id(self) -> str:
        """The hash of the model's files and the prompts: the same wherever the model lies."""
        return self._id

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        return int(self._dimensions)

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """(len(texts), dimensions), rows of length one."""
        return self._encode(self._model.encode_document, texts, self._document_prompt)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """(len(texts), dimensions), rows of length one."""
        return self._encode(self._model.encode_query, texts, self._query_prompt)

    def _encode(self, encode: Any, texts: Sequence[str], prompt: str) -> Floats:
        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        with self._lock:
            vectors = encode(
                [encodable(text) for text in texts],
                prompt=prompt,
                batch_size=self._plugin.batch_size,
                show_progress_bar=False,
            )
        return normalize_rows(vectors)

    @property
    def max_tokens(self) -> int | None:
        """The number of tokens of a document that are read, without the special ones and those of the prompt."""
        longest = self._model.max_seq_length
        if longest is None or longest == float("inf"):
            return None
        special = getattr(self._model.tokenizer, "num_special_tokens_to_add", lambda pair=False: 0)
        return max(0, int(longest) - special(False) - len(self.token_spans(self._document_prompt)))

    def token_spans(self, text: str) -> list[Span]:
        """Return the characters of each word piece of the whole text. Raises UsageError if the model has no offsets."""
        stripped = encodable(text).strip()
        try:
            with self._lock:
                pieces = self._model.tokenizer(
                    stripped,
                    add_special_tokens=False,
                    truncation=False,
                    return_offsets_mapping=True,
                    return_special_tokens_mask=True,
                    verbose=False,  # a text longer than the model reads is no mistake here
                )
        except (NotImplementedError, TypeError) as error:
            raise UsageError(
                f"The tokenizer of {self._plugin.model!r} does not tell where its tokens stand. Use: by=words"
            ) from error
        return list(locate_tokens(text, pieces["offset_mapping"], pieces["special_tokens_mask"])[1])

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        """Return one vector per word piece, without prompts and special tokens.

        Each text runs alone, so that its vectors do not depend on the texts beside it. Raises UsageError if
        the model's token vectors are in another space than its text vectors.
        """
        if not texts:
            return []
        stripped = [encodable(text).strip() for text in texts]
        with self._lock, self._require_tokens():
            embeddings = self._model.encode(
                stripped,
                prompt="",
                batch_size=1,
                output_value="token_embeddings",
                show_progress_bar=False,
            )
            pieces = self._pieces(stripped)
        return [self._token_vectors(*row, 0) for row in zip(texts, embeddings, *pieces, strict=True)]

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[TokenEmbeddings]]:
        """As `encode_queries`, prompt and all, with the vectors of the text's word pieces in it: one pass.

        Raises UsageError where the model's tokens are of another space.
        """
        if not texts:
            return self.encode_queries(texts), []
        stripped = [encodable(text).strip() for text in texts]
        prompt = self._query_prompt
        with self._lock:
            outputs = self._model.encode_query(
                stripped,
                prompt=prompt,
                batch_size=self._plugin.batch_size,
                output_value=None,
                show_progress_bar=False,
            )
        with self._require_tokens():
            rows = [output["token_embeddings"][output["attention_mask"].bool()] for output in outputs]
        with self._lock:
            pieces = self._pieces([prompt + text for text in stripped])
        vectors = normalize_rows(np.stack([output["sentence_embedding"].float().cpu().numpy() for output in outputs]))
        return vectors, [self._token_vectors(*row, len(prompt)) for row in zip(texts, rows, *pieces, strict=True)]

    def _pieces(self, texts: list[str]) -> tuple[list[list[tuple[int, int]]], list[list[int]]]:
        """Of each text the spans of its word pieces, and which of them are special."""
        pieces = self._model.tokenizer(
            texts,
            truncation=True,
            max_length=self._model.max_seq_length,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
        )
        return pieces["offset_mapping"], pieces["special_tokens_mask"]

    def _token_vectors(
        self, text: str, vectors: Any, offsets: Sequence[tuple[int, int]], special: Sequence[int], prompt: int
    ) -> TokenEmbeddings:
        rows = vectors.float().cpu().numpy()
        if rows.shape != (len(offsets), self.dimensions):
            shape = " x ".join(map(str, rows.shape))
            raise self._without_tokens(f"expected {len(offsets)} x {self.dimensions}, got {shape}")
        token_rows, spans = locate_tokens(text, offsets, special, prompt)
        return TokenEmbeddings(spans, normalize_rows(rows[token_rows]))

    def _without_tokens(self, reason: str) -> UsageError:
        return UsageError(
            f"The model {self._plugin.model!r} gives no vectors of tokens in the space of its texts: {reason}. "
            "Use another model."
        )

    @contextmanager
    def _require_tokens(self) -> Iterator[None]:
        """Raise UsageError if the model, such as a static one, has no states of tokens."""
        try:
            yield
        except KeyError as error:
            raise self._without_tokens(f"it has no {str(error).strip(chr(39))}") from error
