"""Sentence Transformers models: by their name on the Hugging Face hub or by the path of a model's folder."""

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from ragindex.canonical import digest, encodable
from ragindex.distribution import require_module
from ragindex.encoders.common import normalize_rows
from ragindex.errors import UsageError
from ragindex.interfaces import EncoderPlugin, Floats, TokenEmbeddings
from ragindex.llm.settings import LLMSettings

_READ = frozenset({".json", ".txt", ".model", ".safetensors", ".bin"})
_OTHER_ENGINES = frozenset({"onnx", "openvino"})


class SentenceTransformers(EncoderPlugin):
    """`sentence-transformers:NAME_OR_PATH`. Texts are cut at the model's longest input.

    The prompts are put before each text; without them the model's own are used, where it has any. HF_HOME and
    HF_HUB_OFFLINE are honoured.
    """

    argument: ClassVar[str] = "model"
    version: ClassVar[int] = 1

    model: str = Field(description="Folder of a model, or its name on the Hugging Face hub.")
    batch_size: int = Field(default=64, ge=1, description="Texts encoded at once.")
    device: str = Field(default="cpu", description="Device that the model runs on, as cpu or cuda.")
    query_prompt: str | None = Field(
        default=None, description="Text put before each query. null: the model's own prompt."
    )
    document_prompt: str | None = Field(
        default=None, description="Text put before each document. null: the model's own prompt."
    )

    def open(self, setting: LLMSettings | None = None) -> "SentenceTransformerEncoder":
        """The model, loaded. Raises MissingExtraError without the extra, UsageError where there is no such model."""
        module = require_module(
            "sentence_transformers", "sentence-transformers", f"The encoder sentence-transformers:{self.model}"
        )
        folder = Path(self.model).expanduser()
        try:
            with _no_progress_bars(), _quiet("sentence_transformers"):
                model = module.SentenceTransformer(str(folder) if folder.is_dir() else self.model, device=self.device)
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(
                f"sentence-transformers cannot load the model {self.model!r} ({str(error).partition(chr(10))[0]}). "
                "Give the name of a model on the Hugging Face hub or the path of a model's folder; with "
                "HF_HUB_OFFLINE=1 a named model must be in HF_HOME already."
            ) from error
        return SentenceTransformerEncoder(self, model, _content(folder if folder.is_dir() else _snapshot(self.model)))


class SentenceTransformerEncoder:
    """A model at work; one thread computes at a time, because tokenizers cannot be shared."""

    def __init__(self, plugin: SentenceTransformers, model: Any, content: str) -> None:
        self._plugin, self._model, self._lock = plugin, model, Lock()
        self._id = f"sentence-transformers-{digest([content, plugin.query_prompt, plugin.document_prompt])}"
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
        return self._encode(self._model.encode_document, texts, self._plugin.document_prompt)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """(len(texts), dimensions), rows of length one."""
        return self._encode(self._model.encode_query, texts, self._plugin.query_prompt)

    def _encode(self, encode: Any, texts: Sequence[str], prompt: str | None) -> Floats:
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

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        """One vector a word piece, without prompts and special tokens. Raises UsageError where it is another space."""
        if not texts:
            return []
        stripped = [encodable(text).strip() for text in texts]
        with self._lock:
            found = self._model.encode(
                stripped,
                prompt="",
                batch_size=self._plugin.batch_size,
                output_value="token_embeddings",
                show_progress_bar=False,
            )
            pieces = self._pieces(stripped)
        return [self._token_vectors(*row, 0) for row in zip(texts, found, *pieces, strict=True)]

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[TokenEmbeddings]]:
        """As `encode_queries`, prompt and all, with the vectors of the text's word pieces in it: one pass.

        Raises UsageError where the model's tokens are of another space.
        """
        if not texts:
            return self.encode_queries(texts), []
        stripped = [encodable(text).strip() for text in texts]
        prompt = self._query_prompt()
        with self._lock:
            found = self._model.encode_query(
                stripped,
                prompt=prompt,
                batch_size=self._plugin.batch_size,
                output_value=None,
                show_progress_bar=False,
            )
            pieces = self._pieces([prompt + text for text in stripped])
        vectors = normalize_rows(np.stack([one["sentence_embedding"].float().cpu().numpy() for one in found]))
        rows = [one["token_embeddings"][one["attention_mask"].bool()] for one in found]
        return vectors, [self._token_vectors(*row, len(prompt)) for row in zip(texts, rows, *pieces, strict=True)]

    def _query_prompt(self) -> str:
        """What stands before a question: the plugin's, else the model's own."""
        if self._plugin.query_prompt is not None:
            return self._plugin.query_prompt
        own: Mapping[str, str] = self._model.prompts
        return own.get("query") or own.get(self._model.default_prompt_name or "") or ""

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
        """`offsets` are places in what was encoded: a prompt of that length, and the text without outer blanks."""
        rows = vectors.float().cpu().numpy()
        if rows.shape != (len(offsets), self.dimensions):
            raise UsageError(
                f"The model {self._plugin.model!r} gives no vectors of tokens in the space of its texts: expected "
                f"{len(offsets)} x {self.dimensions}, got {' x '.join(map(str, rows.shape))}. Use another model."
            )
        kept = [i for i, (start, end) in enumerate(offsets) if not special[i] and max(start, prompt) < end]
        moved = len(text) - len(text.lstrip()) - prompt
        spans = tuple((max(offsets[i][0], prompt) + moved, offsets[i][1] + moved) for i in kept)
        return TokenEmbeddings(spans, normalize_rows(rows[kept]))


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """What a library says before it fails is said again in our error."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    logging = import_module("transformers.utils.logging")
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


# ---------------------------------------------------------------- which model it is


def _snapshot(model: str) -> Path:
    """The folder that the hub's cache keeps a loaded model in."""
    from huggingface_hub import try_to_load_from_cache

    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    for name in (model, f"sentence-transformers/{model}"):
        for file in ("modules.json", "config.json"):
            found = try_to_load_from_cache(name, file, cache_dir=cache) if name.count("/") <= 1 else None
            if isinstance(found, str):
                return Path(found).parent
    raise UsageError(
        f"The files of the model {model!r} are not in the Hugging Face cache, so its revision is unknown. "
        "Download the model and give the path of its folder."
    )


def _content(folder: Path) -> str:
    """A hash of the files that vectors depend on: configuration, tokenizer, weights."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in _READ and path.is_file()]
    hashes = {}
    for path in files:
        name = path.relative_to(folder)
        twin = path.suffix == ".bin" and any(path.parent.glob("*.safetensors"))  # the same weights again
        if twin or _OTHER_ENGINES & set(name.parts) or any(part.startswith(".") for part in name.parts):
            continue
        with path.open("rb") as file:
            hashes[name.as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return digest(hashes)
