"""Comparisons from plain numbers: what methods scored and how long they took, without running any."""

from collections.abc import Mapping, Sequence

from eval.comparison import Answer, Comparison, DatasetFacts, Latency, MethodResult, Percentiles, Ranked
from eval.datasets import Gold
from eval.inference import pairs, with_intervals
from eval.metrics import means
from ragindex.types import Query, Usage
from ragindex.workspace import PartFigures


def made(
    recalls: Mapping[str, Sequence[float]],
    milliseconds: Mapping[str, Sequence[float]] | None = None,
    *,
    kinds: Sequence[str] | None = None,
    found: Mapping[str, Sequence[Sequence[str]]] | None = None,
    metric: str = "R@5",
    ks: tuple[int, ...] = (5,),
    encoder: str = "lsa",
    seed: int = 0,
    name: str = "made",
) -> Comparison:
    """`recalls` by label, one a question (none: no gold); `found` are the documents, best first."""
    count = max(map(len, [*recalls.values(), *(milliseconds or {}).values(), *(found or {}).values()]))
    ids = [f"q{number}" for number in range(1, count + 1)]
    judged = any(recalls.values())
    gold = {id: Gold(frozenset({"a"}), kind=kinds[at] if kinds else "") for at, id in enumerate(ids)}
    methods = with_intervals(
        [_method(label, ids, values, milliseconds, found, metric) for label, values in recalls.items()],
        gold if judged else None,
        seed,
    )
    return Comparison(
        dataset=DatasetFacts(name, "made", 3, 3, count, count if judged else 0, f"fingerprint of {name}"),
        encoder=encoder,
        encoder_id=None,
        llm="none",
        store="lancedb",
        language="english",
        seed=seed,
        ks=ks,
        queries=tuple(Query(id, f"What is {id}?") for id in ids),
        gold=gold if judged else None,
        titles={"a": "The letter A"},
        methods=tuple(methods),
        pairs=pairs(methods, seed),
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
    found: Mapping[str, Sequence[Sequence[str]]] | None,
    metric: str,
) -> MethodResult:
    per_query = {id: {metric: float(value)} for id, value in zip(ids, recalls, strict=False)}
    times = dict(zip(ids, (milliseconds or {}).get(label, ()), strict=False))
    lists = (found or {}).get(label, [["a"]] * len(ids))
    middle = sorted(times.values())[len(times) // 2] if times else None
    nothing = Percentiles(None, None)
    return MethodResult(
        name=label,
        label=label,
        params={},
        fingerprint=f"fingerprint of {label}",
        answers={
            5: tuple(
                Answer(id, tuple(Ranked(doc, (doc,), 1.0 / rank) for rank, doc in enumerate(documents, start=1)))
                for id, documents in zip(ids, lists, strict=True)
            )
        },
        per_query=per_query,
        metrics=means(list(per_query.values())),
        latency=Latency(Percentiles(middle, middle), nothing, nothing, nothing, times),
        parts={"passages": PartFigures("passages", 1.0, 1000, "exact", Usage())},
    )
