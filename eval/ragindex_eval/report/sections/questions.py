"""Single questions, with what each method found: those on which methods disagree, or side by side without gold."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from markupsafe import Markup

from ragindex.retrieval.steps import format_path
from ragindex.types import Query, Step
from ragindex_eval.format import many, percent, short, shown, without_folders
from ragindex_eval.metrics.retrieval import ranking, standing
from ragindex_eval.metrics.score import judgements, twins
from ragindex_eval.report.plots import svg
from ragindex_eval.results.model import Comparison, MethodAnswer, MethodResult, SavedHit

_MOST, _MOST_WITHOUT_GOLD = 20, 50
_HITS = 5
_GOLD, _ANSWERS = 10, 5
_STEPS, _IDS, _TRIPLES = 20, 8, 6
_TEXT, _TITLE, _QUERY, _ID = 180, 140, 240, 60  # characters


@dataclass(frozen=True, slots=True)
class HitRow:
    """One hit. `mark` is "gold", "only here" (no other method has its documents among its first hits) or ""."""

    rank: int
    title: str
    text: str
    score: str
    mark: str


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of a retrieval."""

    iteration: int
    index: str
    query: str
    ids: str
    triples: str
    ms: str
    tokens: str
    note: str


@dataclass(frozen=True, slots=True)
class MethodFindings:
    """What one method found. `ranks` are those of the gold documents, `figure` the recall
    at the smallest k, `answer` what a reader made of it, "" where none was asked.
    """

    label: str
    key: Markup
    figure: str
    ranks: str
    hits: tuple[HitRow, ...]
    steps: tuple[StepRow, ...]
    more_steps: int
    notes: tuple[str, ...]
    error: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class GoldDocument:
    """A gold document."""

    title: str
    id: str


@dataclass(frozen=True, slots=True)
class QuestionDetail:
    """A question, what is right, and what each method found."""

    text: str
    id: str
    kind: str
    spread: str
    gold: tuple[GoldDocument, ...]
    more_gold: int
    answers: tuple[str, ...]
    found: tuple[MethodFindings, ...]


@dataclass(frozen=True, slots=True)
class Questions:
    """Those that are shown, of how many; `judged` where there is gold, and `metric` is what they are chosen by."""

    judged: bool
    metric: str
    shown: tuple[QuestionDetail, ...]
    of: int
    single: bool


def render_questions(comparison: Comparison) -> Questions | None:
    """With gold, the questions on which the methods' recall lies furthest apart; else the first fifty."""
    judged, metric = bool(comparison.dataset.judged), f"R@{comparison.ks[0]}"
    single = len(comparison.methods) == 1
    if judged:
        spreads = _spreads(comparison)
        order = sorted(spreads, key=lambda at: (-spreads[at][0], -spreads[at][1], at))
        chosen, of = order[:_MOST], len(spreads)
    else:
        chosen, of = list(range(len(comparison.queries)))[:_MOST_WITHOUT_GOLD], len(comparison.queries)
    return Questions(judged, metric, tuple(_question(comparison, at) for at in chosen), of, single)


def _spreads(comparison: Comparison) -> Mapping[int, tuple[float, float]]:
    """For every question on which recall differs at some k: how far apart it lies at the first k, and at all."""
    names, found = [f"R@{k}" for k in comparison.ks], {}
    for at, query in enumerate(comparison.queries):
        scores = [method.per_query[query.id] for method in comparison.methods if query.id in method.per_query]
        by_k = [[score.get(name, 0.0) for score in scores] for name in names] if scores else []
        if any(max(values) > min(values) for values in by_k):
            every = sum(statistics.pstdev(values) for values in by_k)
            found[at] = (max(by_k[0]) - min(by_k[0]), every)
    return found


def _question(comparison: Comparison, at: int) -> QuestionDetail:
    query, methods = comparison.queries[at], comparison.methods
    gold = None if comparison.gold is None else comparison.gold.get(query.id)
    grades, equal = judgements(comparison.gold, query.id), twins(comparison.gold, query.id)
    answers = [method.final[at] for method in methods]
    counts = Counter(id for answer in answers for id in _first_documents(answer))
    found = tuple(
        _found(comparison, number, method, answer, (grades, equal), counts)
        for number, (method, answer) in enumerate(zip(methods, answers, strict=True))
    )
    wanted = tuple(_wanted(comparison, id, equal) for id in sorted(grades)[:_GOLD])
    kind, said = (gold.kind, gold.answers) if gold else ("", ())
    spread = _spread(methods, query, f"R@{comparison.ks[0]}") if grades else ""
    id = shown(f"{query.id} · {gold.source_id}" if gold and gold.source_id else query.id, 2 * _ID)
    answers_shown = tuple(shown(answer, _TITLE) for answer in said[:_ANSWERS])
    return QuestionDetail(
        query.text, id, shown(kind, _ID), spread, wanted, max(0, len(grades) - _GOLD), answers_shown, found
    )


def _wanted(comparison: Comparison, id: str, equal: Mapping[str, str]) -> GoldDocument:
    title = shown(comparison.titles.get(id, ""), _TITLE)
    copies = sum(stands == id for stands in equal.values())
    name = [shown(id, _ID)] if title else []
    also = [f"or {many(copies, 'document')} of the same text"] if copies else []
    return GoldDocument(title or shown(id, _TITLE), ", ".join([*name, *also]))


def _spread(methods: Sequence[MethodResult], query: Query, metric: str) -> str:
    every = [method.per_query.get(query.id, {}) for method in methods]
    values = [scores[metric] for scores in every if metric in scores]
    return f"{percent(min(values))} to {percent(max(values))}" if values else ""


def _first_documents(answer: MethodAnswer) -> set[str]:
    return {id for hit in answer.hits[:_HITS] for id in hit.doc_ids}


def _found(
    comparison: Comparison,
    number: int,
    method: MethodResult,
    answer: MethodAnswer,
    gold: tuple[Mapping[str, int], Mapping[str, str]],
    counts: Mapping[str, int],
) -> MethodFindings:
    metrics = method.per_query.get(answer.query_id, {})
    figure = percent(metrics[name]) if (name := f"R@{comparison.ks[0]}") in metrics else ""
    others, held = counts if len(comparison.methods) > 1 else {}, {*gold[0], *gold[1]}
    return MethodFindings(
        label=method.label,
        key=Markup(svg.key(number)),  # noqa: S704  # drawn by us, holds no text
        figure=figure,
        ranks=_ranks(answer, *gold, comparison.ks[-1]),
        hits=tuple(_hit(rank, hit, held, others) for rank, hit in enumerate(answer.hits[:_HITS], start=1)),
        steps=tuple(_line(step) for step in answer.trace[:_STEPS]),
        more_steps=max(0, len(answer.trace) - _STEPS),
        notes=tuple(shown(note, _QUERY) for note in answer.notes[:_ANSWERS]),
        error=shown(without_folders(method.failures.get(answer.query_id, ""))),
        answer=_answered(answer, metrics),
    )


def _answered(answer: MethodAnswer, metrics: Mapping[str, float]) -> str:
    """What was read out of the hits, whether they were thought to hold it, and its F1."""
    read = answer.reading
    if read is None:
        return ""
    if read.error is not None:
        return shown(f"not read: {without_folders(read.error)}", _QUERY)
    said = shown(read.answer, _TITLE) or "no answer"
    about = [*([] if read.found else ["not held by what was found"]), *_f1(metrics)]
    return f"{said} ({'; '.join(about)})" if about else said


def _f1(metrics: Mapping[str, float]) -> list[str]:
    return [f"F1 {percent(metrics['F1'])}"] if "F1" in metrics else []


def _ranks(answer: MethodAnswer, grades: Mapping[str, int], equal: Mapping[str, str], k: int) -> str:
    """Where the gold documents are in the ranking, and how many are not; "" where there are none."""
    ranked = standing(ranking(hit.doc_ids for hit in answer.hits), equal)
    places = {id: rank for rank, id in enumerate(ranked, start=1)}
    found = sorted(places[id] for id in grades if id in places)
    missing = len(grades) - len(found)
    there = [f"gold at rank {_joined(map(str, found), _GOLD)}"] if found else []
    absent = [f"{missing} of {len(grades)} gold not in the first {k}"] if missing else []
    return "; ".join([*there, *absent])


def _hit(rank: int, hit: SavedHit, gold: Set[str], counts: Mapping[str, int]) -> HitRow:
    only = bool(counts) and bool(hit.doc_ids) and all(counts.get(id) == 1 for id in hit.doc_ids)
    mark = "gold" if any(id in gold for id in hit.doc_ids) else "only here" if only else ""
    title = shown(hit.title, _TITLE) or _joined(hit.doc_ids or (hit.id,), 3)
    return HitRow(rank, title, shown(hit.text, _TEXT), f"{hit.score:.4g}", mark)


def _line(step: Step) -> StepRow:
    paths = [(triple,) for triple in step.triples] + list(step.paths)
    tokens = step.input_tokens + step.output_tokens
    return StepRow(
        step.iteration,
        shown(step.index, _ID),
        shown(step.query, _QUERY),
        _joined(step.ids, _IDS),
        _joined(map(format_path, dict.fromkeys(paths)), _TRIPLES, longest=_QUERY),
        short(step.ms),
        f"{tokens:,}" if tokens else "",
        shown(step.note, _QUERY),
    )


def _joined(texts: Iterable[str], most: int, longest: int = _ID) -> str:
    """The first few, and how many more there are."""
    every = list(texts)
    more = [f"and {len(every) - most} more"] if len(every) > most else []
    return ", ".join([*(shown(text, longest) for text in every[:most]), *more])
