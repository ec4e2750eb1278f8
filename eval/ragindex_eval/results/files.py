"""The files of a study: rankings and gold in TREC formats, figures as JSON, which are read back as the same values.

    comparison.json               the figures of all methods; the schema of --json
    questions.jsonl               one line per question: text, gold, kind
    per_query.jsonl               one line per method and question: hits, retrieval steps and scores
    bounds.jsonl                  the same for the reader's bounds, if answers were read
    failed.jsonl                  the same for methods that failed on every question
    qrels.trec, runs/LABEL.trec   gold, and the document rankings at the largest k

study.json lists the comparisons. If there are several, each has its own folder with the other files.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import regex
from pydantic import ValidationError

from ragindex._util.canonical import digest
from ragindex._util.durable_files import HASH_DIGITS
from ragindex._util.ids import escape_field
from ragindex.errors import DataError, StoreError
from ragindex.types import Query
from ragindex_eval.data.gold import EvidencePlace, Gold, SubQuestion
from ragindex_eval.metrics.retrieval import equivalents, judgements, ranking, standing
from ragindex_eval.results.model import LATENCY, RESULT_SCHEMA, Comparison, MethodAnswer, MethodResult, Study

RESULTS, REPORT_FILE = Path("ragindex-results"), "report.html"
"""The folder of all results if `--out` names no other one, and the name of a report in its folder."""
_ANSWER_FILES = {"methods": "per_query.jsonl", "bounds": "bounds.jsonl", "failed": "failed.jsonl"}
"""The files with the answers of methods, by the field of comparison.json that has their figures."""


def folder_name(name: str) -> str:
    """Return a name with the characters that are unsafe in a folder name replaced."""
    return str(regex.sub(r"[^\w.+-]", "-", name)).strip(".") or "data"


def remove_records(folder: Path) -> None:
    """Remove the records in a results folder, before its results are written anew. Raises StoreError."""
    for path in folder.glob("inputs-*.json"):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path} could not be removed: {error.strerror or error}.") from error


def save_results(study: Study, folder: Path) -> Mapping[str, str]:
    """Write all files of a study, and return their hashes by relative path. Raises StoreError if one cannot be written.

    Runs of an earlier comparison in the folder whose methods are not in the study are removed. A hash is that of what
    was written, so a file that another process replaced meanwhile does not match it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        places = _comparison_folders(study, folder)
        earlier = {run for place in places for run in _list_runs(place)}
        files = {
            place / name: lines
            for place, comparison in zip(places, study.comparisons, strict=True)
            for name, lines in _comparison_files(comparison).items()
        }
        names = [place.relative_to(folder).as_posix() for place in places]
        value = {"schema": RESULT_SCHEMA, "name": study.name, "command": study.command, "comparisons": names}
        value |= {"started": study.started, "seconds": study.seconds}
        files[folder / "study.json"] = [json.dumps(value, indent=2, ensure_ascii=False)]
        hashes = {path.relative_to(folder).as_posix(): _write(path, lines) for path, lines in files.items()}
        for run in earlier - files.keys():
            run.unlink(missing_ok=True)
        return hashes
    except OSError as error:
        raise StoreError(f"The results could not be written to {folder}: {error.strerror or error}.") from error


def _comparison_folders(study: Study, folder: Path) -> list[Path]:
    """Return the folder of each comparison: `folder` itself if there is only one, else a subfolder each."""
    if len(study.comparisons) == 1:
        return [folder]
    return [
        folder / f"{number:02d}-{method_file_name(comparison.dataset.name)}"
        for number, comparison in enumerate(study.comparisons, start=1)
    ]


def _list_runs(folder: Path) -> list[Path]:
    """Return the runs of the comparison whose files are in a folder; none if they cannot be read."""
    try:
        value = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
        return [folder / _run_name(method["label"]) for method in value["methods"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _run_name(label: str) -> str:
    return f"runs/{method_file_name(label)}.trec"


def _comparison_files(comparison: Comparison) -> dict[str, Iterable[str]]:
    """Return the lines of each file of a comparison, by its path in the folder of the comparison."""
    files: dict[str, Iterable[str]] = {
        "comparison.json": _figure_lines(comparison),
        "questions.jsonl": _question_lines(comparison),
    }
    for group, name in _ANSWER_FILES.items():
        if group == "methods" or getattr(comparison, group):
            files[name] = _answer_lines(comparison, getattr(comparison, group))
    runs = {_run_name(method.label): _trec_run(comparison, method) for method in comparison.methods}
    return {**files, **_qrels_file(comparison), **runs}


def _figure_lines(comparison: Comparison) -> Iterable[str]:
    yield json.dumps(comparison.to_json(), indent=2, ensure_ascii=False)


def list_files(study: Study, folder: Path) -> list[Path]:
    """Return the files of a study, and its report, that `folder` has, and no other files there."""
    places = zip(_comparison_folders(study, folder), study.comparisons, strict=True)
    files = [place / name for place, comparison in places for name in _comparison_files(comparison)]
    return [path for path in (folder / "study.json", folder / REPORT_FILE, *files) if path.is_file()]


def list_written(folder: Path) -> list[Path]:
    """Return the files of whatever study a folder has, with its report and records, and no other files there."""
    try:
        names = json.loads((folder / "study.json").read_text(encoding="utf-8"))["comparisons"]
        places = [folder / name for name in names]
    except (OSError, ValueError, KeyError, TypeError):
        places = [folder]
    fixed = ("comparison.json", "questions.jsonl", "qrels.trec", *_ANSWER_FILES.values())
    files = [path for place in places for path in (*(place / name for name in fixed), *_list_runs(place))]
    own = [folder / "study.json", folder / REPORT_FILE, *folder.glob("inputs-*.json")]
    return [path for path in (*files, *own) if path.is_file()]


def save_method(comparison: Comparison, method: MethodResult, folder: Path) -> None:
    """Write run.trec, qrels.trec and per_query.jsonl of one method. Raises OSError if they cannot be written."""
    own = {"run.trec": _trec_run(comparison, method), "per_query.jsonl": _answer_lines(comparison, [method])}
    for name, lines in (own | _qrels_file(comparison)).items():
        _write(folder / name, lines)


def _qrels_file(comparison: Comparison) -> dict[str, Iterable[str]]:
    """Return the lines of qrels.trec by its name; {} if no question has gold documents."""
    lines = list(_trec_qrels(comparison))
    return {"qrels.trec": lines} if lines else {}


def _trec_run(comparison: Comparison, method: MethodResult) -> Iterable[str]:
    """Yield the document rankings at the largest k as a TREC run; scores fall with the rank, so that there are no ties.

    The first of several documents of equal text is written as the gold document. So a tool that reads run and qrels,
    without the texts, computes the same metrics as this package at the largest k, and at every k where each document is
    one passage. Elsewhere its metrics at a smaller k are of k documents, which may take more than k hits.
    """
    label = escape_field(method.label)
    for answer in method.final:
        ranked = standing(_document_ranking(answer), equivalents(comparison.gold, answer.query_id))
        query_id = escape_field(answer.query_id)
        for rank, doc_id in enumerate(ranked, start=1):
            yield f"{query_id} Q0 {escape_field(doc_id)} {rank} {len(ranked) - rank + 1} {label}"


def _trec_qrels(comparison: Comparison) -> Iterable[str]:
    """Yield the gold as TREC qrels."""
    for query in comparison.queries:
        for doc_id, grade in sorted(judgements(comparison.gold, query.id).items()):
            yield f"{escape_field(query.id)} 0 {escape_field(doc_id)} {grade}"


def _question_lines(comparison: Comparison) -> Iterable[str]:
    """Yield one JSON object per question; `gold` maps document ids to grades and is null if there is no gold.

    `twins` maps other documents that count as a gold document to that gold document: of the same text, or, listed under
    `alternatives` too, named by the question. Only multiple-choice questions have `options`, only ambiguous ones
    `sub_questions`, only those that are documents themselves `own_document`, and only those that name places
    `evidence`: per place, the document and the spans of its words. Only questions that no document answers have
    `answerable`, which is false. `near_gold` maps found documents to missed gold documents of nearly the same text,
    and `read_shares` gold documents of which words are missing to the share of the words that was read.
    """
    for query in comparison.queries:
        gold = None if comparison.gold is None else comparison.gold.get(query.id)
        judged = judgements(comparison.gold, query.id)
        line: dict[str, Any] = {
            "query": query.id,
            "question": query.text,
            "source_id": gold.source_id if gold else None,
            "kind": gold.kind if gold else None,
            "gold": judged if gold else None,
            "twins": dict(equivalents(comparison.gold, query.id)),
            "titles": {doc_id: comparison.titles.get(doc_id, "") for doc_id in judged},
            "answers": list(gold.answers) if gold else [],
        }
        if near := comparison.near_gold.get(query.id):
            line["near_gold"] = dict(near)
        if shares := {id: comparison.read_shares[id] for id in line["gold"] or () if id in comparison.read_shares}:
            line["read_shares"] = shares
        if gold:
            line |= _rare_gold_fields(gold)
        yield json.dumps(line, ensure_ascii=False)


def _rare_gold_fields(gold: Gold) -> dict[str, Any]:
    """Return the fields of a question's gold that only some data sets have."""
    fields: dict[str, Any] = {
        "options": list(gold.options),
        "alternatives": sorted(gold.alternatives),
        "evidence": [[place.doc_id, *place.words] for place in gold.evidence],
        "own_document": gold.own_document,
        "sub_questions": [asdict(question) for question in gold.sub_questions],
    }
    rare = {name: value for name, value in fields.items() if value}
    return rare if gold.answerable else {**rare, "answerable": False}


def _answer_lines(comparison: Comparison, methods: Iterable[MethodResult]) -> Iterable[str]:
    """Yield one JSON object per method and question: the question, its gold, the hits and the scores."""
    queries = {query.id: query for query in comparison.queries}
    for method in methods:
        failures = method.failures
        for answer in method.final:
            query = queries[answer.query_id]
            gold = None if comparison.gold is None else comparison.gold.get(query.id)
            line: dict[str, Any] = {
                "method": method.label,
                "query": query.id,
                "source_id": gold.source_id if gold else None,
                "kind": gold.kind if gold else None,
                "question": query.text,
                "gold": judgements(comparison.gold, query.id),
                "twins": dict(equivalents(comparison.gold, query.id)),
                "documents": _document_ranking(answer),
                "metrics": method.per_query.get(query.id, {}),
                "latency_ms": method.latency.per_query.get(query.id),
                "reference_ms": method.latency.reference.get(query.id),
                "error": failures.get(query.id),
                **{name: value for name, value in answer.to_json().items() if name not in ("query_id", "error")},
            }
            yield json.dumps(line, ensure_ascii=False)


def _document_ranking(answer: MethodAnswer) -> list[str]:
    """Return the document ranking of an answer."""
    return ranking(hit.doc_ids for hit in answer.hits)


def method_file_name(label: str) -> str:
    """Return a file name for a label: the label itself if it is safe, else a safe form made unique by a hash."""
    safe = regex.sub(r"[^\w.()=,+-]", "_", label)[:80]
    return safe if safe == label and not label.startswith(".") else f"_{safe.lstrip('.')}-{digest(label)[:8]}"


def _write(path: Path, lines: Iterable[str]) -> str:
    """Write a temporary file and rename it, so that an earlier result stays intact until the new one is complete.

    Returns a hash of the content, as `durable_files.hash_file` does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, hashed = path.with_name(f"{path.name}.partial"), hashlib.sha256()
    with partial.open("wb") as file:
        for line in lines:
            content = f"{line}\n".encode("utf-8", "surrogatepass")
            hashed.update(content)
            file.write(content)
    partial.replace(path)
    return hashed.hexdigest()[:HASH_DIGITS]


# ---------------------------------------------------------------- reading


def load_results(folder: Path) -> Study:
    """Load the study that `save_results` wrote into a folder. Raises DataError if files are missing or incomplete.

    For a method whose ranking depends on k, the files hold only the answers at the largest k.
    """
    value = _read_object(folder / "study.json")
    try:
        comparisons = tuple(_load_comparison(folder / name) for name in value["comparisons"])
        return Study(value["name"], comparisons, value["command"], value.get("started", ""), value.get("seconds", 0.0))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            "the files that ragindex compare --out writes", _describe_mistake(error), path=folder
        ) from error


def _describe_mistake(error: Exception) -> str:
    """Return what is wrong with the values of files: the key that is missing, or the first value that is wrong."""
    if isinstance(error, KeyError):
        return f"none under the key {error}"
    if not isinstance(error, ValidationError):
        return f"others ({error})"
    mistake = error.errors()[0]
    place = ".".join(map(str, mistake["loc"]))
    return f"none under the key {place!r}" if mistake["type"] == "missing" else f"others ({place}: {mistake['msg']})"


def _load_comparison(folder: Path) -> Comparison:
    value = _read_object(folder / "comparison.json")
    questions = list(_read_lines(folder / "questions.jsonl"))
    ids = [question["query"] for question in questions]
    answers = {
        group: _read_by_method(folder / file) if value.get(group) else {} for group, file in _ANSWER_FILES.items()
    }
    for label, lines in answers["methods"].items():
        if [line["query"] for line in lines] != ids:
            expected = f"a line for each of {len(ids)} questions and {label}"
            raise DataError(expected, f"{len(lines)}, or others", path=folder / _ANSWER_FILES["methods"])
    gold = {question["query"]: _read_gold(question) for question in questions if question["gold"] is not None}
    return Comparison.from_json(
        {
            **value,
            **{
                group: [
                    _add_answers(method, by_label[method["label"]], value["ks"][-1]) for method in value.get(group, ())
                ]
                for group, by_label in answers.items()
            },
            "queries": [Query(question["query"], question["question"]) for question in questions],
            "gold": gold or None,
            "titles": {id: title for question in questions for id, title in question["titles"].items()},
            "near_gold": {
                question["query"]: question["near_gold"] for question in questions if "near_gold" in question
            },
            "read_shares": {
                id: share for question in questions for id, share in question.get("read_shares", {}).items()
            },
        }
    )


def _add_answers(method: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], k: int) -> dict[str, Any]:
    """Return the JSON of a method with what the lines of its answers hold."""
    times, reference = (
        {line["query"]: line[name] for line in lines if line[name] is not None}
        for name in ("latency_ms", "reference_ms")
    )
    return {
        **method,
        LATENCY: {**method[LATENCY], "per_query": times, "reference": reference},
        "answers": {k: [{**line, "query_id": line["query"]} for line in lines]},
        "per_query": {line["query"]: line["metrics"] for line in lines if line["metrics"]},
    }


def _read_by_method(file: Path) -> dict[str, list[dict[str, Any]]]:
    return {label: list(lines) for label, lines in groupby(_read_lines(file), lambda line: line["method"])}


def _read_gold(line: Mapping[str, Any]) -> Gold:
    parts = (SubQuestion(part["question"], tuple(part["answers"])) for part in line.get("sub_questions", ()))
    evidence = (
        EvidencePlace(doc_id, tuple((start, end) for start, end in words))
        for doc_id, *words in line.get("evidence", ())
    )
    return Gold(
        frozenset(line["gold"]),
        tuple(line["answers"]),
        line["kind"],
        line["source_id"],
        line["gold"],
        line["twins"],
        tuple(line.get("options", ())),
        tuple(parts),
        evidence=tuple(evidence),
        alternatives=frozenset(line.get("alternatives", ())),
        answerable=line.get("answerable", True),
        own_document=line.get("own_document", ""),
    )


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"), parse_constant=_reject_constant)
    except OSError as error:
        raise DataError(
            "a folder that ragindex compare --out wrote", error.strerror or str(error), path=path
        ) from error
    except ValueError as error:
        raise DataError("JSON", str(error), path=path) from error
    if not isinstance(value, dict) or value.get("schema") != RESULT_SCHEMA:
        version = value.get("schema") if isinstance(value, dict) else type(value).__name__
        hint = "run the comparison again" if isinstance(version, int) and version < RESULT_SCHEMA else "update ragindex"
        raise DataError(f"results of schema {RESULT_SCHEMA}", f"{version!r}; {hint}", path=path)
    return value


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8", errors="surrogatepass") as file:
            for number, line in enumerate(file, start=1):
                yield _parse_line(line, path, number)
    except OSError as error:
        raise DataError(
            "a folder that ragindex compare --out wrote", error.strerror or str(error), path=path
        ) from error


def _parse_line(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line, parse_constant=_reject_constant)
    except ValueError as error:
        raise DataError("a JSON object a line", str(error), path=path, line=number) from error
    if not isinstance(value, dict):
        raise DataError("a JSON object a line", type(value).__name__, path=path, line=number)
    return value
