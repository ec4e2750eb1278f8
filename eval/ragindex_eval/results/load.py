"""Loading of the result files of a study, from which `ragindex report` makes the report."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

from ragindex.errors import DataError
from ragindex.index.figures import PartFigures
from ragindex.types import Query, Usage
from ragindex_eval.data.gold import EvidencePlace, Gold, SubQuestion
from ragindex_eval.metrics.evidence import TokensToRecall
from ragindex_eval.metrics.tree_coverage import Coverage
from ragindex_eval.results.finds_nothing import FindsNothing
from ragindex_eval.results.holdout_result import HoldoutResult
from ragindex_eval.results.json_values import answer_from_json
from ragindex_eval.results.model import (
    COSTS,
    RESULT_SCHEMA,
    Breakdown,
    Comparison,
    DatasetFacts,
    Latency,
    MethodAnswer,
    MethodPair,
    MethodResult,
    Percentiles,
    Study,
)
from ragindex_eval.results.published import PublishedComparison
from ragindex_eval.results.question_plan import QuestionPlan
from ragindex_eval.results.reader_results import ReaderFacts


def load_results(folder: Path) -> Study:
    """Load the study that `save_results` wrote into a folder. Raises DataError if files are missing or incomplete.

    For a method whose ranking depends on k, the files hold only the answers at the largest k.
    """
    value = _read_object(folder / "study.json")
    try:
        comparisons = tuple(_load_comparison(folder / name) for name in value["comparisons"])
        return Study(value["name"], comparisons, value["command"], value.get("started", ""), value.get("seconds", 0.0))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        expected = "the files that ragindex compare --out writes"
        what = f"none under the key {error}" if isinstance(error, KeyError) else f"others ({error})"
        raise DataError(expected, what, path=folder) from error


def _load_comparison(folder: Path) -> Comparison:
    value = _read_object(folder / "comparison.json")
    asked = list(_read_lines(folder / "questions.jsonl"))
    read = value.get("reader")
    found = _read_by_method(folder / "per_query.jsonl")
    bounds = _read_by_method(folder / "bounds.jsonl") if value.get("bounds") else {}
    failed = _read_by_method(folder / "failed.jsonl") if value["failed"] else {}
    for label, lines in found.items():
        if [line["query"] for line in lines] != [one["query"] for one in asked]:
            expected = f"a line for each of {len(asked)} questions and {label}"
            raise DataError(expected, f"{len(lines)}, or others", path=folder / "per_query.jsonl")
    facts = {"judged": value["dataset"]["questions"], **value["dataset"]}
    gold = {one["query"]: _gold(one) for one in asked if one["gold"] is not None}
    return Comparison(
        dataset=DatasetFacts(**facts),
        encoder=value["encoder"],
        encoder_id=value["encoder_id"],
        llm=value["llm"],
        store=value["store"],
        language=value["language"],
        seed=value["seed"],
        ks=tuple(value["ks"]),
        queries=tuple(Query(one["query"], one["question"]) for one in asked),
        gold=gold or None,
        titles={id: title for one in asked for id, title in one["titles"].items()},
        methods=tuple(_method(one, found[one["label"]], value["ks"][-1]) for one in value["methods"]),
        reader=ReaderFacts(**read) if read else None,
        coverage=Coverage.from_json(value["coverage"]) if value.get("coverage") else None,
        finds_nothing=tuple(FindsNothing.from_json(one) for one in value.get("finds_nothing", ())),
        enough=QuestionPlan.from_json(value["enough"]) if value.get("enough") else None,
        holdout=HoldoutResult.from_json(value["holdout"]) if value.get("holdout") else None,
        published=PublishedComparison.from_json(value["published"]) if value.get("published") else None,
        bounds=tuple(_method(one, bounds.get(one["label"], []), value["ks"][-1]) for one in value.get("bounds", [])),
        asked=tuple(value["asked"]),
        failed=tuple(_method(one, failed[one["label"]], value["ks"][-1]) for one in value["failed"]),
        pairs=tuple(_pair(pair) for pair in value["pairs"]),
        notes=tuple(value["notes"]),
        details=tuple(value.get("details", ())),
        left_out=tuple(value["left_out"]),
        environment=value["environment"],
        fingerprint=value["fingerprint"],
        paid=_usage(value["spent"]) if "spent" in value else None,
        possibly_charged=value.get("spent", {}).get("possibly_charged", 0.0),
        retries=value.get("spent", {}).get("retries", 0),
        near_gold={one["query"]: one["near_gold"] for one in asked if "near_gold" in one},
        read_shares={id: share for one in asked for id, share in one.get("read_shares", {}).items()},
    )


def _read_by_method(file: Path) -> dict[str, list[dict[str, Any]]]:
    return {label: list(lines) for label, lines in groupby(_read_lines(file), lambda line: line["method"])}


def _gold(line: Mapping[str, Any]) -> Gold:
    grades, equal = line["gold"], line["twins"]
    parts = (SubQuestion(one["question"], tuple(one["answers"])) for one in line.get("sub_questions", ()))
    options = tuple(line.get("options", ()))
    return Gold(
        frozenset(grades),
        tuple(line["answers"]),
        line["kind"],
        line["source_id"],
        grades,
        equal,
        options,
        tuple(parts),
        evidence=tuple(_evidence(*one) for one in line.get("evidence", ())),
        alternatives=frozenset(line.get("alternatives", ())),
        answerable=line.get("answerable", True),
        own_document=line.get("own_document", ""),
    )


def _evidence(doc_id: str, *words: Sequence[int]) -> EvidencePlace:
    return EvidencePlace(doc_id, tuple((start, end) for start, end in words))


def _method(value: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], k: int) -> MethodResult:
    times, reference = (
        {line["query"]: line[name] for line in lines if line[name] is not None}
        for name in ("latency_ms", "reference_ms")
    )
    split = value["latency_ms"]
    encoder, store, own = (Percentiles(**split[name]) for name in ("encoder", "store", "own"))
    return MethodResult(
        name=value["name"],
        label=value["label"],
        params=value["params"],
        fingerprint=value["fingerprint"],
        answers={k: tuple(_answer(line) for line in lines)},
        per_query={line["query"]: line["metrics"] for line in lines if line["metrics"]},
        metrics=value["metrics"],
        latency=Latency(Percentiles(split["p50"], split["p95"]), encoder, store, own, times, split["taken"], reference),
        parts={
            name: PartFigures(name, part["seconds"], part["bytes"], part["search"], _usage(part, part["seconds"]))
            for name, part in value["index"]["parts"].items()
        },
        ci95=_intervals(value["ci95"]),
        tokens_to_recall={name: _tokens_to_recall(one) for name, one in value["tokens_to_recall"].items()},
        spent=_usage(value["usage"]["spent"]),
        stages=value["usage"]["stages"],
        breakdown=tuple(map(_breakdown, value["breakdown"])),
        built=value["index"]["seconds"] is not None,
    )


def _tokens_to_recall(value: Mapping[str, Any]) -> TokensToRecall:
    return TokensToRecall(value["tokens"], None if value["ci95"] is None else tuple(value["ci95"]))


def _breakdown(value: Mapping[str, Any]) -> Breakdown:
    return Breakdown(
        value["by"],
        value["value"],
        value["questions"],
        value["metrics"],
        _intervals(value["ci95"]),
        Percentiles(**value["latency_ms"]),
        _usage(value["usage"]),
        value["usage"]["calls"],
    )


def _usage(value: Mapping[str, Any], seconds: float = 0.0) -> Usage:
    known = {
        name: value[name] for name in COSTS if value[name] is not None or name == "money"
    }  # unknown tokens are null
    return Usage(seconds, **known, estimated=value.get("estimated", False))


def _answer(line: Mapping[str, Any]) -> MethodAnswer:
    names = {field.name for field in fields(MethodAnswer)} & line.keys()
    return answer_from_json({"query_id": line["query"]} | {name: line[name] for name in names})


def _pair(value: Mapping[str, Any]) -> MethodPair:
    bounds = None if value["ci95"] is None else _bounds(value["ci95"])
    return MethodPair(**{name: held for name, held in value.items() if name != "statistic"} | {"ci95": bounds})


def _intervals(value: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    return {name: _bounds(bounds) for name, bounds in value.items()}


def _bounds(value: Sequence[float]) -> tuple[float, float]:
    low, high = value
    return low, high


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
        found = value.get("schema") if isinstance(value, dict) else type(value).__name__
        hint = "run the comparison again" if isinstance(found, int) and found < RESULT_SCHEMA else "update ragindex"
        raise DataError(f"results of schema {RESULT_SCHEMA}", f"{found!r}; {hint}", path=path)
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
