"""Comparisons from plain numbers: what methods scored and how long they took, without running any."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ragindex.retrieval.trace import IF_STOPPED
from ragindex.types import PartFigures, Query, Step, Usage
from ragindex_eval.conclusions.differences import compare_methods, with_intervals
from ragindex_eval.data.gold import Gold
from ragindex_eval.metrics.retrieval import means
from ragindex_eval.results.model import (
    Comparison,
    DatasetFacts,
    Latency,
    MethodAnswer,
    MethodResult,
    Percentiles,
    SavedHit,
)
from ragindex_eval.run.scores import score_rankings


def make_comparison(
    recalls: Mapping[str, Sequence[float]],
    milliseconds: Mapping[str, Sequence[float]] | None = None,
    *,
    kinds: Sequence[str] | None = None,
    rankings: Mapping[str, Sequence[Sequence[str]]] | None = None,
    metric: str = "R@5",
    ks: tuple[int, ...] = (5,),
    encoder: str = "lsa",
    seed: int = 0,
    name: str = "made",
    paid: Mapping[str, Sequence[Usage]] | None = None,
    naming: Collection[str] = (),
    also: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    reference: Mapping[str, Sequence[float]] | None = None,
) -> Comparison:
    """`recalls` by label, one a question (none: no gold); `rankings` are the documents, best first.

    `naming` are the ids of the questions (q1, q2, …) that name a title. `paid` is by label what each question took;
    what all of them took is besides the method's index, and spent. `also` are other metrics, by name and label.
    `reference` are milliseconds of the reference work by label.

    """
    count = max(map(len, [*recalls.values(), *(milliseconds or {}).values(), *(rankings or {}).values()]))
    ids = [f"q{number}" for number in range(1, count + 1)]
    judged = any(recalls.values())
    gold = {id: Gold(frozenset({"a"}), kind=kinds[at] if kinds else "") for at, id in enumerate(ids)}
    methods = [_method(label, ids, values, milliseconds, rankings, metric) for label, values in recalls.items()]
    methods = [_paid(method, (paid or {}).get(method.label, ())) for method in methods]
    methods = [_also(method, also or {}, (reference or {}).get(method.label, ())) for method in methods]
    described = {"name": name, "encoder": encoder, "seed": seed}
    return _comparison(methods, ids, gold if judged else None, ks, **described, naming=naming)  # type: ignore[arg-type]


def answered(
    answers: Mapping[str, Sequence[MethodAnswer]],
    gold: Mapping[str, Gold] | None,
    ks: tuple[int, ...],
    *,
    written: Mapping[str, tuple[str, Mapping[str, Any]]] | None = None,
) -> Comparison:
    """From what methods answered, by label, scored as it is; `written` are their names and parameters."""
    ids = [answer.query_id for answer in next(iter(answers.values()))]
    methods = []
    for label, method_answers in answers.items():
        name, params = (written or {}).get(label, (label, {}))
        per_query = score_rankings({ks[-1]: method_answers}, gold, ks)
        methods.append(_result(name, label, params, {ks[-1]: tuple(method_answers)}, per_query, {}))
    return _comparison(methods, ids, gold, ks, name="made", encoder="lsa", seed=0)


def _comparison(
    methods: Sequence[MethodResult],
    ids: Sequence[str],
    gold: Mapping[str, Gold] | None,
    ks: tuple[int, ...],
    *,
    name: str,
    encoder: str,
    seed: int,
    naming: Collection[str] = (),
) -> Comparison:
    compared = tuple(with_intervals(methods, gold, seed, naming))
    pairs = compare_methods(compared, seed)
    return Comparison(
        dataset=DatasetFacts(name, "made", 3, 3, len(ids), len(gold or ()), f"fingerprint of {name}"),
        encoder=encoder,
        encoder_id=None,
        llm="none",
        store="lancedb",
        language="english",
        seed=seed,
        ks=ks,
        queries=tuple(Query(id, f"What is {id}?") for id in ids),
        gold=gold,
        titles={"a": "The letter A"},
        methods=compared,
        pairs=pairs,
        notes=(),
        left_out=(),
        environment={"python": "3.11.0", "processors": "2"},
        fingerprint="0123456789abcdef",
    )


def _method(
    label: str,
    ids: Sequence[str],
    recalls: Sequence[float],
    milliseconds: Mapping[str, Sequence[float]] | None,
    rankings: Mapping[str, Sequence[Sequence[str]]] | None,
    metric: str,
) -> MethodResult:
    per_query = {id: {metric: float(value)} for id, value in zip(ids, recalls, strict=False)}
    times = dict(zip(ids, (milliseconds or {}).get(label, ()), strict=False))
    lists = (rankings or {}).get(label, [["a"]] * len(ids))
    answers = tuple(
        MethodAnswer(id, tuple(SavedHit(doc, (doc,), 1.0 / rank) for rank, doc in enumerate(documents, start=1)))
        for id, documents in zip(ids, lists, strict=True)
    )
    return _result(label, label, {}, {5: answers}, per_query, times)


def _also(
    method: MethodResult, metrics: Mapping[str, Mapping[str, Sequence[float]]], reference: Sequence[float]
) -> MethodResult:
    per_query = {
        id: {**scores, **{name: float(values[method.label][at]) for name, values in metrics.items()}}
        for at, (id, scores) in enumerate(method.per_query.items())
    }
    latency = replace(method.latency, reference=dict(zip(method.latency.per_query, reference, strict=False)))
    return replace(method, per_query=per_query, metrics=means(list(per_query.values())), latency=latency)


def _paid(method: MethodResult, usages: Sequence[Usage]) -> MethodResult:
    if not usages:
        return method
    answers = tuple(replace(answer, usage=usage) for answer, usage in zip(method.final, usages, strict=True))
    total = sum(usages, Usage())
    parts = {"extractions": PartFigures("extractions", 1.0, 1000, "", total), **method.parts}
    return replace(method, answers={max(method.answers): answers}, parts=parts, spent=total)


def _result(
    name: str,
    label: str,
    params: Mapping[str, Any],
    answers: Mapping[int, tuple[MethodAnswer, ...]],
    per_query: Mapping[str, Mapping[str, float]],
    times: Mapping[str, float],
) -> MethodResult:
    p50, p95 = np.percentile(list(times.values()), (50, 95)).tolist() if times else (None, None)
    nothing = Percentiles(None, None)
    return MethodResult(
        name=name,
        label=label,
        params=params,
        fingerprint=f"fingerprint of {label}",
        answers=answers,
        per_query=per_query,
        metrics=means(list(per_query.values())),
        latency=Latency(Percentiles(p50, p95), nothing, nothing, nothing, times),
        parts={"passages": PartFigures("passages", 1.0, 1000, "exact", Usage())},
    )


def went(
    id: str, rankings: Sequence[Sequence[str]], paid: Sequence[tuple[int, int, int]] = (), **given: Any
) -> MethodAnswer:
    """An answer whose iterations gave `rankings`; `paid` are steps: iteration, tokens in, tokens out, of 10 ms each."""
    steps = [Step(n, "read", "?", ms=10.0, input_tokens=read, output_tokens=wrote) for n, read, wrote in paid]
    ends = [Step(n, IF_STOPPED, "?", tuple(ids), ms=1000.0) for n, ids in enumerate(rankings, start=1)]
    hits = tuple(SavedHit(id, (id.partition("#")[0],), 1.0) for id in rankings[-1])
    usage = Usage(0.0, sum(step_usage[1] for step_usage in paid), sum(step_usage[2] for step_usage in paid))
    return replace(MethodAnswer(id, hits, None, (*steps, *ends), usage=usage, calls=len(paid)), **given)
