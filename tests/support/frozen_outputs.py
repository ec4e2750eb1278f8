"""Save what the commands find and print, and compare it with what they found before a change of the code.

    PYTHONPATH=tests/support python -m frozen_outputs save FOLDER DATA...
    PYTHONPATH=tests/support python -m frozen_outputs compare BEFORE AFTER

DATA are folders with a corpus and questions, or worlds as `world:200`. For each: the JSON of a comparison of all
methods without an LLM, ten searches with each method, the estimate, the parts, and the hits of each exported method.
Once: `doctor`, and the outcome of every contract check. `compare` prints each value that differs and exits with 1 if
there is one; figures of time, of bytes and of the machine are left out when they are saved.
"""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from command_line import ragindex

ROOT = Path(__file__).resolve().parents[2]
VOLATILE = re.compile(
    r"seconds|latency|_ms|^ms$|bytes|taken|environment|processor|memory|disk|versions?$|^modified$|^at$|free|path|^folder$|^out$"
    r"|p50|p95|per_second|spent_seconds|python|system"
)
"""Keys whose values differ between two runs of the same code."""
CONTRACT_OUTCOME = re.compile(r"^(PASSED|FAILED|XFAIL|XPASS|ERROR|SKIPPED)\s+\S+::(\S+)", re.MULTILINE)


def save(folder: Path, data: list[str]) -> None:
    """Run all commands in `folder`, and write one JSON file for each; what is there already is not run again."""
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    for name in data:
        _save_data(folder, str(Path(name).resolve()) if Path(name).exists() else name)
    _save_command(folder, "doctor", "doctor")
    _save_contract(folder)
    for file in sorted(folder.glob("*.json")):
        print(hashlib.sha256(file.read_bytes()).hexdigest()[:16], file.name)


def _save_data(folder: Path, data: str) -> None:
    name = re.sub(r"\W+", "-", Path(data).name)
    index, results = folder / f"index-{name}", folder / f"results-{name}"
    arguments = ("--methods", "all", "--limit", 50, "--index", index, "--out", results)
    compared = _save_command(folder, f"compare-{name}", "compare", data, *arguments)
    labels = [method["label"] for method in compared["methods"]]
    runs = {label: (results / "runs" / f"{label}.trec").read_text("utf-8").splitlines() for label in labels}
    _write(folder / f"runs-{name}.json", {label: [row.split()[:5] for row in rows] for label, rows in runs.items()})
    questions = [json.loads(line) for line in (results / "questions.jsonl").read_text("utf-8").splitlines()]
    texts = [question.get("text") or question["question"] for question in questions][:10]
    for label in labels:
        for number, text in enumerate(texts):
            arguments = (text, "--index", index, "--method", label, "--explain")
            _save_command(folder, f"search-{name}-{label}-{number}", "search", *arguments)
        _save_export(folder, name, label, texts)
    _save_command(folder, f"estimate-{name}", "estimate", data, "--methods", "all", "--llm", "openai:gpt-4o-mini")
    _save_command(folder, f"parts-{name}", "parts", "--index", index)


def _save_export(folder: Path, name: str, label: str, texts: list[str]) -> None:
    exported = folder / _file_name(f"export-{name}-{label}")
    if not exported.exists():
        _run("export", "--index", folder / f"index-{name}", "--method", label, "--out", exported)
    for number, text in enumerate(texts[:2]):
        _save_command(folder, f"exported-{name}-{label}-{number}", "search", text, "--retriever", exported)


def _save_contract(folder: Path) -> None:
    file = folder / "contract.json"
    if not file.exists():
        command = [sys.executable, "-m", "pytest", "-q", "-rA", "-n", "2", "tests/contract"]
        printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
        _write(file, {test: outcome for outcome, test in sorted(CONTRACT_OUTCOME.findall(printed))})


def _save_command(folder: Path, name: str, *arguments: object) -> Any:
    file = folder / f"{_file_name(name)}.json"
    if not file.exists():
        complete_file = folder / "whole.json"
        _run(*arguments, "--json", complete_file)
        _write(file, _steady(json.loads(complete_file.read_text("utf-8")), folder))
    return json.loads(file.read_text("utf-8"))


def _run(*arguments: object) -> None:
    print("ragindex", *arguments, file=sys.stderr)
    finished = ragindex(*arguments)
    if finished.code:
        raise SystemExit(f"ragindex {arguments[0]} ended with {finished.code}:\n{finished.err[-2000:]}")


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name)


def _steady(value: Any, folder: Path) -> Any:
    """Return the value without the figures of time and machine, and with `folder` named FOLDER."""
    if isinstance(value, dict):
        return {key: _steady(item, folder) for key, item in value.items() if not VOLATILE.search(key)}
    if isinstance(value, list):
        return [_steady(item, folder) for item in value if not _is_of_time(item)]
    return value.replace(str(folder), "FOLDER") if isinstance(value, str) else value


def _is_of_time(item: Any) -> bool:
    return isinstance(item, dict) and VOLATILE.search(str(item.get("metric", ""))) is not None


def _write(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


def compare(before: Path, after: Path) -> int:
    """Print each value that differs between two saved folders; return how many there are."""
    names = sorted({file.name for folder in (before, after) for file in folder.glob("*.json")} - {"whole.json"})
    number = 0
    for name in names:
        values = [
            _steady(json.loads((folder / name).read_text("utf-8")), folder) if (folder / name).exists() else None
            for folder in (before, after)
        ]
        for place, old, new in _differences(*values):
            number += 1
            print(f"{name} {place}: {_shorten(old)} -> {_shorten(new)}")
    print(f"{number} differences in {len(names)} files")
    return number


def _differences(before: Any, after: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _differences(before.get(key), after.get(key), f"{place}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, f"{place}[{number}]")
    elif before != after:
        yield place, before, after


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["save", folder, *data] if data:
            save(Path(folder), data)
        case ["compare", before, after]:
            sys.exit(compare(Path(before), Path(after)) > 0)
        case _:
            sys.exit(__doc__)
