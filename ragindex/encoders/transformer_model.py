"""Models of sentence-transformers without that library: configuration, tokenizer, pooling, engines for ONNX form.

Covered are models that consist of a transformer with a `tokenizer.json`, mean or first-token pooling, and an optional
normalization: nearly all English and multilingual text encoders. Others run on torch.
"""

import importlib.util
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from threading import BoundedSemaphore
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ragindex._util.canonical import encodable
from ragindex._util.distribution import require_module
from ragindex.encoders.vectors import locate_tokens, normalize_rows
from ragindex.interfaces import Encoder, Floats, TokenEmbeddings
from ragindex.types import Span

TokenIds: TypeAlias = npt.NDArray[np.int64]
RunModel: TypeAlias = Callable[[TokenIds, TokenIds], Floats]
"""Token ids and attention mask, both (texts, length), to the last hidden states (texts, length, dimensions)."""

QUERY_PROMPTS = ("query",)
DOCUMENT_PROMPTS = ("document", "passage", "corpus")
"""Names of a model's prompts, in the order in which sentence-transformers looks for them."""
_UNSET_PROMPTS = {"query": "", "document": ""}
"""The prompts of a model that sets none, as in sentence-transformers."""
_KNOWN_SETTINGS = frozenset({"max_seq_length", "do_lower_case"})
_BATCH_TOKENS = 1024
"""Padded tokens of one batch: its activations stay in a core's cache. Larger batches were slower."""


class UnsupportedModelError(Exception):
    """The model has a part that only sentence-transformers runs; the message names it."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What a model's folder says about how its texts become vectors."""

    max_length: int
    """Tokens of the longest input, special ones included."""
    pooling: str
    """"mean" or "cls"."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str = ""


def choose_prompt(prompt: str | None, names: Sequence[str], prompts: Mapping[str, str], default: str) -> str:
    """Return the text put before queries or documents: the one given, or the model's own, as in sentence-transformers.

    The model's own is the first of `names` among its prompts, even if empty, or else its default prompt.
    """
    own = (prompts[name] for name in names if name in prompts)
    return next(own, default) or "" if prompt is None else prompt


def read_model_settings(folder: Path) -> ModelSettings:
    """Read the settings of the model in `folder`. Raises UnsupportedModelError if only torch can run it."""
    modules = _read_json(folder / "modules.json")
    if not isinstance(modules, list):
        raise UnsupportedModelError("it has no modules.json")
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise UnsupportedModelError(f"its modules are {', '.join(kinds)}")
    if not (folder / "tokenizer.json").is_file():
        raise UnsupportedModelError("it has no tokenizer.json")
    transformer = _read_json(folder / "sentence_bert_config.json") or {}
    other = sorted(set(transformer) - _KNOWN_SETTINGS)
    if other or transformer.get("do_lower_case"):
        raise UnsupportedModelError(f"it sets {', '.join(other) or 'do_lower_case'}")
    if not isinstance(transformer.get("max_seq_length"), int):
        raise UnsupportedModelError("it sets no max_seq_length")
    settings = _read_json(folder / "config_sentence_transformers.json") or {}
    prompts = _UNSET_PROMPTS | {str(name): str(text) for name, text in (settings.get("prompts") or {}).items()}
    default = prompts.get(settings.get("default_prompt_name") or "", "")
    config = _read_json(folder / str(modules[1].get("path", "")) / "config.json") or {}
    flags = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    modes = [flags.get(key, key) for key, value in config.items() if key.startswith("pooling_mode_") and value]
    modes = [str(config["pooling_mode"])] if "pooling_mode" in config else modes
    if len(modes) != 1 or modes[0] not in ("mean", "cls") or config.get("include_prompt") is False:
        raise UnsupportedModelError(f"its pooling is {', '.join(modes) or 'not set'}")
    return ModelSettings(transformer["max_seq_length"], modes[0], prompts, default)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UnsupportedModelError(f"{path.name} cannot be read ({error})") from error


@dataclass(frozen=True, slots=True)
class _Encoded:
    """One text as the model reads it."""

    ids: Sequence[int]
    spans: Sequence[tuple[int, int]]
    special: Sequence[int]


class TransformerEncoder(Encoder):
    """A model in ONNX form at work. Thread-safe: each batch runs on one thread, batches run in parallel."""

    def __init__(
        self,
        id: str,
        folder: Path,
        settings: ModelSettings,
        run: RunModel,
        *,
        threads: int,
        batch_size: int = 64,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
    ) -> None:
        self._id, self._settings, self._run = id, settings, run
        self._threads, self._batch_size = threads, batch_size
        own = (settings.prompts, settings.default_prompt)
        self._query_prompt = choose_prompt(query_prompt, QUERY_PROMPTS, *own)
        self._document_prompt = choose_prompt(document_prompt, DOCUMENT_PROMPTS, *own)
        tokenizers = require_module("tokenizers", "tokenizers", f"The model {folder}")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(settings.max_length)
        self._tokenizer.no_padding()
        self._untruncated = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._untruncated.no_truncation()
        self._untruncated.no_padding()
        self._dimensions = self._embed(["."], "").shape[1]

    @property
    def id(self) -> str:
        """The hash of the model's files and the prompts: the same wherever the model lies."""
        return self._id

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        return int(self._dimensions)

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """Encode texts of the index: (len(texts), dimensions), rows of length one."""
        return self._embed(texts, self._document_prompt) if texts else np.zeros((0, self.dimensions), np.float32)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Encode questions: (len(texts), dimensions), rows of length one."""
        return self._embed(texts, self._query_prompt) if texts else np.zeros((0, self.dimensions), np.float32)

    @property
    def max_tokens(self) -> int:
        """The number of tokens of a document that are read, without the special ones and those of the prompt."""
        used = int(self._untruncated.num_special_tokens_to_add(False)) + len(self.token_spans(self._document_prompt))
        return max(0, self._settings.max_length - used)

    def token_spans(self, text: str) -> list[Span]:
        """Return the characters of each word piece of the whole text."""
        encoding = self._untruncated.encode(encodable(text).strip(), add_special_tokens=False)
        return list(locate_tokens(text, encoding.offsets, encoding.special_tokens_mask)[1])

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        """Return one vector per word piece, without prompts and special tokens.

        Each text runs alone, so that its vectors do not depend on the texts beside it.
        """
        embeddings: list[TokenEmbeddings] = [_NO_TOKENS] * len(texts)
        for number, encoded, states in self._states(texts, "", batch_size=1):
            embeddings[number] = _token_embeddings(texts[number], encoded, states, 0)
        return embeddings

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[TokenEmbeddings]]:
        """Return what `encode_queries` returns, and the token vectors of the same pass."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        embeddings: list[TokenEmbeddings] = [_NO_TOKENS] * len(texts)
        prompt = self._query_prompt
        for number, encoded, states in self._states(texts, prompt, self._batch_size):
            vectors[number] = self._pool(states)
            embeddings[number] = _token_embeddings(texts[number], encoded, states, len(prompt))
        return normalize_rows(vectors), embeddings

    def _embed(self, texts: Sequence[str], prompt: str) -> Floats:
        pooled: list[Floats] = [_NO_TOKENS.vectors] * len(texts)
        for number, _, states in self._states(texts, prompt, self._batch_size):
            pooled[number] = self._pool(states)
        return normalize_rows(np.stack(pooled))

    def _pool(self, states: Floats) -> Floats:
        """Return the vector of one text from its states (tokens, dimensions)."""
        pooled: Floats = states[0] if self._settings.pooling == "cls" else states.mean(axis=0)
        return pooled

    def _states(self, texts: Sequence[str], prompt: str, batch_size: int) -> Iterator[tuple[int, _Encoded, Floats]]:
        """Yield the number of each text, its tokens and their states (tokens, dimensions), shortest texts first."""
        encoded = [
            _Encoded(encoding.ids, encoding.offsets, encoding.special_tokens_mask)
            for encoding in self._tokenizer.encode_batch([prompt + encodable(text).strip() for text in texts])
        ]
        batches = _batches([len(encoding.ids) for encoding in encoded], batch_size)

        def run(numbers: Sequence[int]) -> Floats:
            length = len(encoded[numbers[-1]].ids)
            ids, mask = np.zeros((len(numbers), length), np.int64), np.zeros((len(numbers), length), np.int64)
            for row, number in enumerate(numbers):
                tokens = encoded[number].ids
                ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
            return self._run(ids, mask)

        for numbers, states in _in_parallel(run, batches, self._threads):
            for row, number in enumerate(numbers):
                yield number, encoded[number], states[row, : len(encoded[number].ids)]


def _batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Group texts of similar length, shortest first: at most `batch_size` texts and about _BATCH_TOKENS tokens each."""
    batches: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        last = batches[-1] if batches else []
        if last and len(last) < batch_size and (len(last) + 1) * lengths[number] <= _BATCH_TOKENS:
            last.append(number)
        else:
            batches.append([number])
    return batches


def _in_parallel(
    run: Callable[[Sequence[int]], Floats], batches: Sequence[list[int]], threads: int
) -> Iterator[tuple[list[int], Floats]]:
    """Yield each batch with its result, in order. At most two batches per thread are under way."""
    if threads == 1 or len(batches) == 1:
        yield from ((batch, run(batch)) for batch in batches)
        return
    waiting: deque[tuple[list[int], Future[Floats]]] = deque()
    with ThreadPoolExecutor(threads, "ragindex-encoder") as pool:
        try:
            for batch in batches:
                waiting.append((batch, pool.submit(run, batch)))
                if len(waiting) > 2 * threads:
                    first, result = waiting.popleft()
                    yield first, result.result()
            while waiting:
                first, result = waiting.popleft()
                yield first, result.result()
        finally:
            for _, result in waiting:  # an interrupt does not wait for batches that have not begun
                result.cancel()


_NO_TOKENS = TokenEmbeddings((), np.zeros((0, 0), np.float32))


def _token_embeddings(text: str, encoded: _Encoded, states: Floats, prompt: int) -> TokenEmbeddings:
    """Return the tokens of `text` that stand for characters after a prompt of that length."""
    rows, spans = locate_tokens(text, encoded.spans, encoded.special, prompt)
    return TokenEmbeddings(spans, normalize_rows(states[rows]))


# ---------------------------------------------------------------- engines: OpenVINO and ONNX Runtime, in 32 bits

EngineName: TypeAlias = Literal["openvino", "onnxruntime"]
ENGINES: tuple[EngineName, ...] = ("openvino", "onnxruntime")
"""The engines in order of preference, by the measurements in docs/dev/evidence/encoder-figures.md."""


def installed_engines() -> list[EngineName]:
    """Return the installed engines, the preferred one first. Imports none of them."""
    return [name for name in ENGINES if importlib.util.find_spec(name) is not None]


def open_engine(name: EngineName, file: Path, threads: int) -> RunModel:
    """Load an ONNX file; return a thread-safe function that uses at most `threads` threads, one per call.

    Raises MissingExtraError if the engine is not installed, and OSError or RuntimeError if it cannot load the file.
    """
    opening = _open_openvino if name == "openvino" else _open_onnxruntime
    # OpenVINO gives the thread that compiles a model a stack for signals, and unmaps it with the model: if this is the
    # main thread, the next signal, Ctrl-C for instance, then ends the process with a segmentation fault.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(opening, file, threads).result()


def _open_openvino(file: Path, threads: int) -> RunModel:
    openvino = require_module("openvino", "openvino", "The engine openvino")
    model = openvino.Core().compile_model(
        str(file),
        "CPU",
        {
            "INFERENCE_PRECISION_HINT": "f32",  # the default may be bfloat16, which changes the vectors
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": threads,
            "ENABLE_CPU_PINNING": False,  # other work shares the cores
        },
    )
    names = {name for port in model.inputs for name in port.get_names()}
    requests: SimpleQueue[Any] = SimpleQueue()
    for _ in range(threads):
        requests.put(model.create_infer_request())

    def run(ids: TokenIds, mask: TokenIds) -> Floats:
        request = requests.get()
        try:
            states: Floats = request.infer(_select_inputs(names, ids, mask), share_inputs=True)[0]
        finally:
            requests.put(request)
        return states

    return run


def _open_onnxruntime(file: Path, threads: int) -> RunModel:
    onnxruntime = require_module("onnxruntime", "onnxruntime", "The engine onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # batches run in parallel, not operators
    options.log_severity_level = 3
    state = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    failures = tuple(kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception))
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except failures as error:  # they have no base class but Exception
        raise RuntimeError(str(error)) from error
    names = {port.name for port in session.get_inputs()}
    free = BoundedSemaphore(threads)

    def run(ids: TokenIds, mask: TokenIds) -> Floats:
        with free:
            states: Floats = session.run(None, _select_inputs(names, ids, mask))[0]
        return states

    return run


def _select_inputs(names: set[str], ids: TokenIds, mask: TokenIds) -> dict[str, TokenIds]:
    """Return the inputs that the model declares. Every token belongs to the first segment."""
    feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    return {name: feeds[name] for name in names}
