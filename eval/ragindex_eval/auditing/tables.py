"""Printed tables: files and rows of figures, read as they are printed.

    .csv .tsv .md   a row for each method, columns such as `method`, `data`, `n`, `R@5` or `MuSiQue R@5`
                    or a row for each figure: `method`, `metric`, `value`, and `data` and `n` as far as they differ
    .json           a list of such rows as objects
    .yaml           a table of `studies/`, with its numbers of questions and its baselines

A figure may have a percent sign, stars of bold print, and what follows ± or stands in brackets, which is left out. It
is a percentage if any figure of its metric is above 1 or has the sign.
"""

import csv
import io
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regex
import yaml
from pydantic import ValidationError

from ragindex.errors import DataError, UsageError
from ragindex_eval.auditing.benchmarks import find_count, require_count
from ragindex_eval.auditing.metrics import MetricName, read_metric, split_heading
from ragindex_eval.data.published import PublishedTable
from ragindex_eval.format import join_names, many
from ragindex_eval.stats.printed_means import PrintedMean

MOST_ASKED = 10_000_000
_METHOD = ("method", "model", "system", "retriever", "name", "variant", "variants", "setup", "")
_DATA = ("data", "dataset", "data set", "benchmark", "corpus")
_COUNT = ("n", "questions", "queries")
_VALUE, _METRIC, _BASELINE = ("value", "figure", "score"), ("metric", "measure"), ("baseline", "against")
_NO_FIGURE = regex.compile(r"|[-–—]+|n/?a|none|nan|null", regex.IGNORECASE)
_FIGURE = regex.compile(
    r"[*_†‡§¶^~\s]*(?P<number>[0-9]{1,9}(?:[.,](?P<decimals>[0-9]{1,9}))?|\.(?P<bare>[0-9]{1,9}))"
    r"\s*(?P<percent>%?)[*_†‡§¶^\s]*(?P<spread>(?:±|\+/?-|\().*)?"
)
_AVERAGE = regex.compile(r"(?:macro[ -]?)?(?:avg|average|mean|overall average)\.?", regex.IGNORECASE)
_COUNT_TEXT = regex.compile(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class TableFigure:
    """A figure of a table: the mean of a metric of a method on the questions of a data set."""

    data: str
    metric: MetricName
    method: str
    mean: PrintedMean
    baseline: str = ""


@dataclass(frozen=True, slots=True)
class FigureTable:
    """The figures of a table in its order, and notes on what was left out."""

    source: str
    figures: tuple[TableFigure, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cell:
    """A figure as it is written; `count` is the number of questions or the name of a benchmark, "" for neither."""

    data: str
    metric: str
    method: str
    written: str
    count: str = ""
    baseline: str = ""


@dataclass(frozen=True, slots=True)
class _Number:
    number: float
    decimals: int
    percent: bool
    spread: bool


def read_figures(
    table: Path | Sequence[Mapping[str, Any]], count: str = "", metric: str = "", *, binary: bool | None = None
) -> FigureTable:
    """Read a table from a file, or from rows as of a JSON file.

    `count` is the number of questions, or the name of a benchmark, of figures that state neither; `metric` is that of
    columns that name none. `binary` says whether the values of single questions are 0 or 1, where the name of the
    metric does not. Raises DataError for a file that is no table, and UsageError if a number of questions is unknown.
    """
    if isinstance(table, Path) and table.suffix.lower() in (".yaml", ".yml"):
        published = _read_published(table)
        return _make_table(published.source, list(_published_cells(published)), count, binary=binary)
    rows = _read_rows(table) if isinstance(table, Path) else list(table)
    where = table if isinstance(table, Path) else None
    cells = [cell for row in rows for cell in _read_row(row, metric, where)]
    if not cells:
        raise DataError("rows of methods with their figures", "none", path=where)
    return _make_table(where.name if where else "the rows", cells, count, binary=binary)


def make_figures(
    values: Sequence[str], count: str, metric: str, *, binary: bool | None = None
) -> tuple[FigureTable, str]:
    """Return the table of one value or of a value and its baseline, and the name of the baseline, "" without one."""
    if not all(_parse_figure(value) for value in values):
        raise UsageError(f"A value must be a number, such as 40.5, 40.5% or 0.405. Got {', '.join(values)}.")
    names = ("the value", "the baseline")[: len(values)]
    data = count if find_count(count) is not None else ""
    cells = [_Cell(data, metric, name, written) for name, written in zip(names, values, strict=True)]
    return _make_table("values as given", cells, count, binary=binary), names[1] if len(names) > 1 else ""


def parse_count(written: str) -> int:
    """Return a number of questions that is written as one, or as the name of a benchmark. Raises UsageError."""
    text = written.strip()
    if _COUNT_TEXT.fullmatch(text) is None:
        return require_count(text)
    questions = int(text.replace(",", ""))
    if not 1 <= questions <= MOST_ASKED:
        raise UsageError(f"A number of questions must be from 1 to {MOST_ASKED:,}. Got {text}.")
    return questions


# ---------------------------------------------------------------- files


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("a table in UTF-8", getattr(error, "strerror", None) or str(error), path=path) from error


def _read_rows(path: Path) -> list[Mapping[str, Any]]:
    text, suffix = _read_text(path), path.suffix.lower()
    if suffix == ".json":
        return _read_json(text, path)
    if suffix == ".md":
        return _read_markdown(text, path)
    if suffix in (".csv", ".tsv"):
        lines = csv.reader(io.StringIO(text), delimiter="\t" if suffix == ".tsv" else _find_delimiter(text))
        return _name_cells([line for line in lines if any(cell.strip() for cell in line)], path)
    raise DataError("a table as .csv, .tsv, .md, .json or .yaml", suffix or "no suffix", path=path)


def _find_delimiter(text: str) -> str:
    """Return what separates the columns: a comma, or a semicolon, as where decimals have a comma."""
    header = text.partition("\n")[0]
    return ";" if header.count(";") > header.count(",") else ","


def _read_json(text: str, path: Path) -> list[Mapping[str, Any]]:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise DataError("JSON", str(error), path=path) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError('a list of rows, as [{"method": "bm25", "R@5": 41.2}, …]', "something else", path=path)
    return rows


def _read_markdown(text: str, path: Path) -> list[Mapping[str, Any]]:
    """Return the rows of the first table."""
    lines = list[list[str]]()
    for line in text.split("\n"):
        if "|" in line:
            lines.append([cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")])
        elif lines:
            break
    rows = [line for line in lines if not all(regex.fullmatch(r":?-*:?", cell) for cell in line)]
    return _name_cells(rows, path)


def _name_cells(lines: Sequence[Sequence[str]], path: Path) -> list[Mapping[str, Any]]:
    if len(lines) < 2:
        raise DataError("a header and rows", many(len(lines), "line"), path=path)
    header = [_strip_marks(cell) for cell in lines[0]]
    for line in lines[1:]:
        if len(line) > len(header):
            shown = repr(", ".join(line)[:60])
            raise DataError(f"{many(len(header), 'column')} in each row", f"{len(line)} in {shown}", path=path)
    return [dict(zip(header, [*line, *[""] * (len(header) - len(line))], strict=True)) for line in lines[1:]]


def _read_published(path: Path) -> PublishedTable:
    try:
        value = yaml.safe_load(_read_text(path))
    except yaml.YAMLError as error:
        raise DataError("YAML", str(error).replace("\n", " "), path=path) from error
    published = value.get("published", value) if isinstance(value, dict) else value
    try:
        return PublishedTable.model_validate(published)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError("a published table, as in studies/", f"{place}: {first['msg']}", path=path) from error


def _published_cells(table: PublishedTable) -> Iterator[_Cell]:
    """Yield the figures of a study, whose decimals YAML does not keep: those of a metric have equally many."""
    written = [[str(value) for value in values if value is not None] for values in _columns(table)]
    decimals = [max((len(text.partition(".")[2].rstrip("0")) for text in texts), default=0) for texts in written]
    for data, rows in table.data.items():
        count = table.conditions_on(data).get("questions", "")
        for method, values in rows.figures.items():
            for metric, value, places in zip(table.metrics, values, decimals, strict=True):
                if value is not None:
                    sign = "%" if table.unit == "percent" else ""
                    baseline = table.baseline_of(method) or ""
                    yield _Cell(data, metric, method, f"{value:.{places}f}{sign}", str(count), baseline)


def _columns(table: PublishedTable) -> Iterator[list[float | None]]:
    for column in range(len(table.metrics)):
        yield [values[column] for rows in table.data.values() for values in rows.figures.values()]


# ---------------------------------------------------------------- rows


def _read_row(row: Mapping[str, Any], metric: str, path: Path | None) -> Iterator[_Cell]:
    """Yield the figures of a row, in one column or in several."""
    texts = {_strip_marks(str(name)): "" if value is None else str(value).strip() for name, value in row.items()}
    named = {name.casefold(): name for name in texts}

    def take(names: Iterable[str]) -> str:
        return next((_strip_marks(texts[named[name]]) for name in names if name in named), "")

    value_column = next((named[name] for name in _VALUE if name in named), None)
    method_column = next((named[name] for name in _METHOD if name in named), None)
    method_column = next(iter(texts)) if method_column is None and value_column is None and texts else method_column
    if method_column is None:
        raise DataError("a column `method`", join_names(list(texts)) or "an empty row", path=path)
    method, data, count, baseline = _strip_marks(texts[method_column]), take(_DATA), take(_COUNT), take(_BASELINE)
    if value_column is not None:
        yield _Cell(data, take(_METRIC) or metric, method, texts[value_column], count, baseline)
        return
    known = {*_DATA, *_COUNT, *_BASELINE, method_column.casefold()}
    for heading, written in texts.items():
        if heading.casefold() not in known:
            of_data, of_metric = split_heading(heading)
            yield _Cell(of_data or data, of_metric or metric, method, written, count, baseline)


def _strip_marks(text: str) -> str:
    """Return a text without marks of bold and italic print and of links."""
    linked = regex.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return str(regex.sub(r"\*\*|__|`|<[^>]{1,40}>", "", linked)).strip()


def _parse_figure(written: str) -> _Number | None:
    match = _FIGURE.fullmatch(_strip_marks(written))
    if match is None:
        return None
    text, decimals = match["number"].replace(",", "."), match["decimals"] or match["bare"] or ""
    return _Number(float(text), len(decimals), bool(match["percent"]), bool(match["spread"]))


def _make_table(source: str, cells: Sequence[_Cell], count: str, *, binary: bool | None) -> FigureTable:
    parsed = [(cell, read_metric(cell.metric), _parse_figure(cell.written)) for cell in cells]
    numbers = [(metric.name, number) for _, metric, number in parsed if number is not None]
    in_percent = {name for name, number in numbers if number.percent or number.number > 1}
    columns = list(dict.fromkeys((cell.data, cell.metric) for cell in cells))
    empty = set(columns) - {(cell.data, cell.metric) for cell, _, number in parsed if number is not None}
    notes, figures = dict[str, None](), list[TableFigure]()
    for cell, metric, number in parsed:
        reason = _explain_left_out(cell, metric, number, empty)
        if reason or number is None:
            notes |= {reason: None} if reason else {}
            continue
        questions = parse_count(cell.count or count or _require_data(cell))
        notes |= dict.fromkeys(_list_assumptions(cell, number, questions, stated=bool(cell.count or count)))
        if not metric.known and binary is None:
            notes[_note_unknown(metric)] = None
        of_values = (metric.binary if binary is None else binary) and not number.spread
        mean = _make_mean(cell, number, questions, in_percent=metric.name in in_percent, binary=of_values)
        figures.append(TableFigure(cell.data, metric, cell.method, mean, cell.baseline))
    if not figures:
        raise UsageError(f"{source} has no figure that can be audited.")
    _require_single(figures)
    places = {(data, metric): place for place, (data, metric) in enumerate(columns)}
    figures.sort(key=lambda figure: places[figure.data, figure.metric.name])
    return FigureTable(source, tuple(figures), tuple(notes))


def _explain_left_out(
    cell: _Cell, metric: MetricName, number: _Number | None, empty: Collection[tuple[str, str]]
) -> str:
    """Return why a cell is left out; "" if it is not, or if it says itself that there is no figure.

    `empty` are columns without any figure.
    """
    if (cell.data, cell.metric) in empty:
        return f"{' '.join(filter(None, (cell.data, cell.metric))) or 'a column'} has no figures, and is left out"
    if number is None:
        blank = _NO_FIGURE.fullmatch(_strip_marks(cell.written))
        return "" if blank else f"no figure, and left out: {cell.written[:30]!r} of {cell.method}"
    if metric.corpus:
        return f"{metric.name} is of a whole corpus, not a mean over questions, and is left out"
    if _AVERAGE.fullmatch(cell.data):
        return "averages over data sets are left out: no number of questions belongs to them"
    return ""


def _list_assumptions(cell: _Cell, number: _Number, questions: int, *, stated: bool) -> Iterator[str]:
    """Yield what is assumed of a figure; `stated` says that its number of questions was given."""
    if number.spread:
        yield "what follows ± is left out: runs say nothing about other questions, and their mean is not of 0 and 1"
    known = find_count(cell.data)
    if not stated:
        yield f"{cell.data}: {questions:,} questions, by its name"
    elif known not in (None, questions):
        yield f"{cell.data}: {questions:,} questions, as given; the benchmark of this name has {known:,}"


def _note_unknown(metric: MetricName) -> str:
    name = f"{metric.name!r} is no known metric" if metric.name else "no metric is named (--metric)"
    return f"{name}: its values are taken to be from 0 to 1; --binary says that they are 0 or 1"


def _require_data(cell: _Cell) -> str:
    if not cell.data:
        raise UsageError("How many questions are the figures of? Give the number or a benchmark's name: --n 1000")
    return cell.data


def _make_mean(cell: _Cell, number: _Number, questions: int, *, in_percent: bool, binary: bool) -> PrintedMean:
    scale = 100.0 if in_percent else 1.0
    value, half = number.number / scale, 0.5 * 10.0**-number.decimals / scale
    if not math.isfinite(value) or value > 1:
        where = " ".join(filter(None, (cell.data, cell.metric, cell.method)))
        raise UsageError(f"{where}: a mean must be from 0 to 1, or from 0 to 100 %. Got {cell.written}.")
    return PrintedMean(questions, value - half, value + half, binary)


def _require_single(figures: Sequence[TableFigure]) -> None:
    seen = set[tuple[str, str, str]]()
    for figure in figures:
        key = figure.data, figure.metric.name, figure.method
        if key in seen:
            where = " of ".join(filter(None, (figure.metric.name or "a figure", figure.data)))
            raise UsageError(f"{figure.method!r} has two figures for {where}: name the rows differently.")
        seen.add(key)
