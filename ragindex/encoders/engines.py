"""Engines that run a model in ONNX form on CPUs: OpenVINO and ONNX Runtime. Both compute in 32 bits."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from threading import BoundedSemaphore
from typing import Any, Literal, TypeAlias

import numpy as np

from ragindex._util.distribution import require_module
from ragindex.encoders.transformer_model import RunModel, TokenIds
from ragindex.interfaces import Floats

EngineName: TypeAlias = Literal["openvino", "onnxruntime"]
ENGINES: tuple[EngineName, ...] = ("openvino", "onnxruntime")
"""The engines in order of preference, by the measurements of benchmarks/encoders.py."""


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
    with ThreadPoolExecutor(1) as one:
        return one.submit(opening, file, threads).result()


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
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    return {name: given[name] for name in names}
