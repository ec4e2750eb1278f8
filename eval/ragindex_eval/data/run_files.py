"""Rankings and judgements in files: TREC's formats, JSON and CSV, each also as .gz.

    TREC run      QUERY Q0 DOCUMENT RANK SCORE TAG a line; what follows the tag is left out
    TREC qrels    QUERY ITERATION DOCUMENT GRADE a line
    .json         {QUERY: {DOCUMENT: SCORE or GRADE}}, or a list of {"query", "document", "score" or "grade"}
    .csv .tsv     a header with query, document, and score or grade

As trec_eval has it, the score orders a ranking, not the written rank; scores are compared in single precision, and
documents of equal scores come in falling order of their ids.
"""

import csv
import gzip
import io
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ragindex.errors import DataError

_SUFFIXES = (".gz", ".json", ".csv", ".tsv", ".trec", ".run", ".txt", ".qrels", ".res")


@dataclass(frozen=True, slots=True)
class RunFile:
    """Rankings of one method: its name, and the ids and scores of the documents by query, best first."""

    name: str
    rankings: Mapping[str, tuple[tuple[str, float], ...]]


def read_run(path: Path) -> RunFile:
    """Read the rankings in a file. Raises DataError with file and line for what cannot be read."""
    rankings = {query: _rank(of_query) for query, of_query in _collect(path, "score").items()}
    name = path.name
    while (stem := Path(name)).suffix.lower() in _SUFFIXES and stem.stem:
        name = stem.stem
    return RunFile(name, rankings)


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Read the grades of documents by query. Raises DataError with file and line for what cannot be read."""
    grades = _collect(path, "grade")
    for query, of_query in grades.items():
        for document, grade in of_query.items():
            if not grade.is_integer():
                raise DataError("a whole number as grade", f"{grade:g} of {document!r} for {query!r}", path=path)
    return {query: {document: int(grade) for document, grade in grades[query].items()} for query in grades}


def _rank(scores: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return documents with their scores, best first: by score as trec_eval keeps it, then by id, both falling."""
    with np.errstate(over="ignore"):  # what is too large for single precision is infinite there
        single = np.array(list(scores.values()), dtype=np.float32).tolist()
    ranked = sorted(zip(single, scores, strict=True), reverse=True)
    return tuple((document, scores[document]) for _, document in ranked)


def _collect(path: Path, value: str) -> dict[str, dict[str, float]]:
    """Return the scores or grades of a file by query and document."""
    collected = defaultdict[str, dict[str, float]](dict)
    for line, query, document, written in _read_entries(path, value):
        try:
            number = float(written)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number) or isinstance(written, bool):
            raise DataError(f"a finite number as {value}", repr(written)[:80], path=path, line=line)
        of_query = collected[query]
        if document in of_query:
            repeat = f"{document!r} twice for the query {query!r}"
            raise DataError("each document once for a query", repeat, path=path, line=line)
        of_query[document] = number
    if not collected:
        raise DataError(f"queries, documents and {value}s", "an empty file", path=path)
    return collected


def _read_entries(path: Path, value: str) -> Iterator[tuple[int | None, str, str, Any]]:
    """Yield line, query, document, and score or grade."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix.lower() == ".gz" else content
        text = content.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError("a file of rankings or judgements in UTF-8", str(error), path=path) from error
    kind = Path(path.name.lower().removesuffix(".gz")).suffix
    if kind == ".json":
        return _read_json(text, path, value)
    if kind in (".csv", ".tsv"):
        return _read_table(text, path, value, "\t" if kind == ".tsv" else ",")
    return _read_trec(text, path, value)


def _read_trec(text: str, path: Path, value: str) -> Iterator[tuple[int, str, str, str]]:
    expected = "QUERY Q0 DOCUMENT RANK SCORE TAG" if value == "score" else "QUERY ITERATION DOCUMENT GRADE"
    place = 4 if value == "score" else 3
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split()
        if not fields or fields[0][0] == "#":
            continue
        if len(fields) <= place:
            raise DataError(f"{expected} a line", repr(line[:80]), path=path, line=number)
        yield number, fields[0], fields[2], fields[place]


def _read_table(text: str, path: Path, value: str, delimiter: str) -> Iterator[tuple[int, str, str, str | None]]:
    reader = csv.DictReader(io.StringIO(text), delimiter=delimiter)
    missing = [name for name in ("query", "document", value) if name not in (reader.fieldnames or ())]
    if missing:
        header = ", ".join(reader.fieldnames or ()) or "an empty file"
        raise DataError(f"a header with query, document and {value}", header, path=path, line=1)
    for row in reader:
        if not row["query"] or not row["document"]:
            raise DataError("a query and a document in each row", repr(row)[:80], path=path, line=reader.line_num)
        yield reader.line_num, row["query"], row["document"], row[value]


def _read_json(text: str, path: Path, value: str) -> Iterator[tuple[None, str, str, Any]]:
    expected = f'{{QUERY: {{DOCUMENT: {value}}}}}, or a list of {{"query", "document", "{value}"}}'
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise DataError("JSON", str(error), path=path) from error
    entries = parsed if isinstance(parsed, list) else None
    if isinstance(parsed, dict) and all(isinstance(of_query, dict) for of_query in parsed.values()):
        entries = [
            {"query": query, "document": document, value: number}
            for query, of_query in parsed.items()
            for document, number in of_query.items()
        ]
    names = {"query", "document", value}
    if entries is None or not all(isinstance(entry, dict) and names <= entry.keys() for entry in entries):
        raise DataError(expected, "something else", path=path)
    for entry in entries:
        yield None, str(entry["query"]), str(entry["document"]), entry[value]
