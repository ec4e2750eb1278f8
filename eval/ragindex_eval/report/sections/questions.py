"""Report section on single questions with the hits of each method; with gold, those on which methods disagree."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from markupsafe import Markup

from ragindex.corpus.chunking import split_passage_id
from ragindex.retrieval.formatting import format_path, format_positions
from ragindex.retrieval.trace import KEPT_IDS
from ragindex.types import Query, Step
from ragindex_eval.format import many, percent, short, shown, without_folders
from ragindex_eval.metrics.retrieval import equivalents, gold_ranks, judgements
from ragindex_eval.report.plots import svg
from ragindex_eval.results.model import Comparison, MethodAnswer, MethodResult, SavedHit

_MAX_QUESTIONS, _MAX_WITHOUT_GOLD, _MAX_MISSED = 20, 50, 20
_HITS = 5
_GOLD, _ANSWERS = 10, 5
_STEPS, _IDS, _TRIPLES = 20, 8, 6
_TEXT, _TITLE, _QUERY, _ID = 180, 140, 240, 60  # characters


@dataclass(frozen=True, slots=True)
class HitRow:
    """Hit. `mark` is "gold", "only here" (no other method has its documents among its first hits) or ""."""

    rank: int
    title: str
    place: str
    text: str
    score: str
    mark: str


@dataclass(frozen=True, slots=True)
class StepRow:
    """Step of a retrieval."""

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
    """Hits and steps of one method for one question.

    `ranks` are the ranks of the gold documents, `lost` says where the others were last, `figure` is the recall at the
    smallest k, and `answer` is that of the reader, "" if there is none.
    """

    label: str
    key: Markup
    figure: str
    ranks: str
    lost: tuple[str, ...]
    hits: tuple[HitRow, ...]
    steps: tuple[StepRow, ...]
    more_steps: int
    notes: tuple[str, ...]
    error: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class GoldDocument:
    """Gold document."""

    title: str
    id: str


@dataclass(frozen=True, slots=True)
class QuestionDetail:
    """Question with its gold documents and answers, and the findings of each method.

    `near` says which found documents have nearly the text of a gold document that was missed, and `in_part` which gold
    documents were read in part.
    """

    text: str
    id: str
    kind: str
    spread: str
    gold: tuple[GoldDocument, ...]
    more_gold: int
    answers: tuple[str, ...]
    findings: tuple[MethodFindings, ...]
    near: tuple[str, ...] = ()
    in_part: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions shown, out of `of`; if they are `judged`, they are chosen by `metric`.

    `missed` are those, out of `missed_of`, for which no method finds a gold document in its first `depth` hits.
    """

    judged: bool
    metric: str
    shown: tuple[QuestionDetail, ...]
    of: int
    single: bool
    missed: tuple[QuestionDetail, ...] = ()
    missed_of: int = 0
    depth: int = 0


def render_questions(comparison: Comparison) -> Questions | None:
    """Choose the questions to show: with gold, those on which recall differs most; else the first fifty."""
    judged, metric = bool(comparison.dataset.judged), f"R@{comparison.ks[0]}"
    single = len(comparison.methods) == 1
    if judged:
        spreads = _spreads(comparison)
        order = sorted(spreads, key=lambda at: (-spreads[at][0], -spreads[at][1], at))
        chosen, of = order[:_MAX_QUESTIONS], len(spreads)
    else:
        chosen, of = list(range(len(comparison.queries)))[:_MAX_WITHOUT_GOLD], len(comparison.queries)
    details = tuple(_question_detail(comparison, at) for at in chosen)
    missed = find_missed(comparison)
    missed_details = tuple(_question_detail(comparison, at) for at in missed[:_MAX_MISSED])
    return Questions(judged, metric, details, of, single, missed_details, len(missed), comparison.ks[-1])


def find_missed(comparison: Comparison) -> list[int]:
    """Return the numbers of the questions for which no method finds a gold document, at the largest k."""
    name = f"R@{comparison.ks[-1]}"
    missed = []
    for at, query in enumerate(comparison.queries):
        scores = [method.per_query.get(query.id, {}).get(name) for method in comparison.methods]
        if scores and all(score == 0 for score in scores):
            missed.append(at)
    return missed


def _spreads(comparison: Comparison) -> Mapping[int, tuple[float, float]]:
    """Return the spread of recall for every question on which it differs at some k.

    The spread is the range at the first k, and the sum of the standard deviations over all k.
    """
    names, spreads = [f"R@{k}" for k in comparison.ks], {}
    for at, query in enumerate(comparison.queries):
        scores = [method.per_query[query.id] for method in comparison.methods if query.id in method.per_query]
        by_k = [[score.get(name, 0.0) for score in scores] for name in names] if scores else []
        if any(max(values) > min(values) for values in by_k):
            every = sum(statistics.pstdev(values) for values in by_k)
            spreads[at] = (max(by_k[0]) - min(by_k[0]), every)
    return spreads


def _question_detail(comparison: Comparison, at: int) -> QuestionDetail:
    query, methods = comparison.queries[at], comparison.methods
    gold = None if comparison.gold is None else comparison.gold.get(query.id)
    grades, equal = judgements(comparison.gold, query.id), equivalents(comparison.gold, query.id)
    answers = [method.final[at] for method in methods]
    found_by_method = ({id for hit in answer.hits[:_HITS] for id in hit.doc_ids} for answer in answers)
    counts = Counter(id for documents in found_by_method for id in documents)
    findings = tuple(
        _method_findings(comparison, number, method, answer, (grades, equal), counts)
        for number, (method, answer) in enumerate(zip(methods, answers, strict=True))
    )
    other_texts = gold.alternatives if gold else frozenset()
    wanted = tuple(_gold_document(comparison, id, equal, other_texts) for id in sorted(grades)[:_GOLD])
    kind, answer_texts = (gold.kind, gold.answers) if gold else ("", ())
    spread = _format_spread(methods, query, f"R@{comparison.ks[0]}") if grades else ""
    id = shown(f"{query.id} · {gold.source_id}" if gold and gold.source_id else query.id, 2 * _ID)
    answers_shown = tuple(shown(answer, _TITLE) for answer in answer_texts[:_ANSWERS])
    pairs = comparison.near_gold.get(query.id, {})
    near = tuple(
        f"{shown(other, _ID)} has nearly the text of {shown(missed, _ID)}" for other, missed in [*pairs.items()][:_GOLD]
    )
    more = max(0, len(grades) - _GOLD)
    in_part = tuple(describe_read_shares(comparison, grades)[:_GOLD])
    return QuestionDetail(
        query.text, id, shown(kind, _ID), spread, wanted, more, answers_shown, findings, near, in_part
    )


def describe_read_shares(comparison: Comparison, ids: Iterable[str]) -> list[str]:
    """Return a sentence for each document that was read in part."""
    shares = comparison.read_shares
    return [f"{shown(id, _ID)} was read to {100 * shares[id]:.0f} %" for id in sorted(ids) if id in shares]


def _gold_document(comparison: Comparison, id: str, equal: Mapping[str, str], other_texts: Set[str]) -> GoldDocument:
    title = shown(comparison.titles.get(id, ""), _TITLE)
    members = {other for other, stands in equal.items() if stands == id}
    copies = len(members - other_texts)
    name = [shown(id, _ID)] if title else []
    also = [f"or {many(copies, 'document')} of the same text"] if copies else []
    also += [f"or {_join(sorted(members & other_texts), _ANSWERS)}"] if members & other_texts else []
    return GoldDocument(title or shown(id, _TITLE), ", ".join([*name, *also]))


def _format_spread(methods: Sequence[MethodResult], query: Query, metric: str) -> str:
    every = [method.per_query.get(query.id, {}) for method in methods]
    values = [scores[metric] for scores in every if metric in scores]
    return f"{percent(min(values))} to {percent(max(values))}" if values else ""


def _method_findings(
    comparison: Comparison,
    number: int,
    method: MethodResult,
    answer: MethodAnswer,
    gold: tuple[Mapping[str, int], Mapping[str, str]],
    counts: Mapping[str, int],
) -> MethodFindings:
    metrics = method.per_query.get(answer.query_id, {})
    figure = percent(metrics[name]) if (name := f"R@{comparison.ks[0]}") in metrics else ""
    others, gold_ids = counts if len(comparison.methods) > 1 else {}, {*gold[0], *gold[1]}
    return MethodFindings(
        label=method.label,
        key=Markup(svg.key(number)),  # noqa: S704  # drawn by us, holds no text
        figure=figure,
        ranks=_format_ranks(answer, *gold, comparison.ks[-1]),
        lost=tuple(list_lost_gold(answer, *gold)[:_GOLD]),
        hits=tuple(_hit_row(rank, hit, gold_ids, others) for rank, hit in enumerate(answer.hits[:_HITS], start=1)),
        steps=tuple(_step_row(step) for step in answer.trace[:_STEPS]),
        more_steps=max(0, len(answer.trace) - _STEPS),
        notes=tuple(shown(note, _QUERY) for note in answer.notes[:_ANSWERS]),
        error=shown(without_folders(method.failures.get(answer.query_id, ""))),
        answer=_format_answer(answer, metrics),
    )


def _format_answer(answer: MethodAnswer, metrics: Mapping[str, float]) -> str:
    """Format the answer of the reader, whether it was found in the hits, and its F1, accuracy or STR-EM."""
    read = answer.reading
    if read is None:
        return ""
    if read.error is not None:
        return shown(f"not read: {without_folders(read.error)}", _QUERY)
    answer_text = shown(read.answer, _TITLE) or "no answer"
    scores = [f"{name} {percent(metrics[name])}" for name in ("F1", "accuracy", "STR-EM") if name in metrics]
    about = [*([] if read.found else ["not held by what was found"]), *scores[:1]]
    return f"{answer_text} ({'; '.join(about)})" if about else answer_text


def _format_ranks(answer: MethodAnswer, grades: Mapping[str, int], equal: Mapping[str, str], k: int) -> str:
    """Format the ranks of the gold documents, and how many are missing; "" if there is no gold."""
    ranks = sorted(gold_ranks((hit.doc_ids for hit in answer.hits), grades, equal).values())
    missing = len(grades) - len(ranks)
    there = [f"gold at rank {_join(map(str, ranks), _GOLD)}"] if ranks else []
    absent = [f"{missing} of {len(grades)} gold not in the first {k} hits"] if missing else []
    return "; ".join([*there, *absent])


def list_lost_gold(answer: MethodAnswer, grades: Mapping[str, int], equal: Mapping[str, str]) -> list[str]:
    """Return for each gold document that is not among the hits the last step that has it, of the ids that are saved.

    No search is made for it; `ragindex search --expect` makes one.
    """
    missed = sorted(grades.keys() - gold_ranks((hit.doc_ids for hit in answer.hits), grades, equal).keys())
    lost = []
    for id in missed if answer.trace else ():
        copies = {id, *(other for other, stands in equal.items() if stands == id)}
        ranks = {step.index: rank for step in answer.trace if (rank := _find_rank(step, copies)) is not None}
        last = next(reversed(ranks.items()), None)
        lost.append(
            f"{shown(id, _ID)}: among the first {KEPT_IDS} of no step"
            if last is None
            else f"{shown(id, _ID)}: lost after “{shown(last[0], _ID)}”, rank {last[1]}"
        )
    return lost


def _find_rank(step: Step, doc_ids: Set[str]) -> int | None:
    """Return the rank of the first passage of these documents among the saved ids of a step, from 1."""
    for rank, id in enumerate(step.ids[:KEPT_IDS], start=1):
        split = split_passage_id(id)
        if id in doc_ids or (split is not None and split[0] in doc_ids):
            return rank
    return None


def _hit_row(rank: int, hit: SavedHit, gold: Set[str], counts: Mapping[str, int]) -> HitRow:
    only = bool(counts) and bool(hit.doc_ids) and all(counts.get(id) == 1 for id in hit.doc_ids)
    mark = "gold" if any(id in gold for id in hit.doc_ids) else "only here" if only else ""
    title = shown(hit.title, _TITLE) or _join(hit.doc_ids or (hit.id,), 3)
    place = shown(format_positions(hit.positions, hit.title) or _join(hit.doc_ids, 3), _TITLE)
    place = "" if place == title else place
    return HitRow(rank, title, place, shown(hit.text, _TEXT), f"{hit.score:.4g}", mark)


def _step_row(step: Step) -> StepRow:
    paths = [(triple,) for triple in step.triples] + list(step.paths)
    tokens = step.input_tokens + step.output_tokens
    return StepRow(
        step.iteration,
        shown(step.index, _ID),
        shown(step.query, _QUERY),
        _join(step.ids, _IDS),
        _join(map(format_path, dict.fromkeys(paths)), _TRIPLES, longest=_QUERY),
        short(step.ms),
        f"{tokens:,}" if tokens else "",
        shown(step.note, _QUERY),
    )


def _join(texts: Iterable[str], most: int, longest: int = _ID) -> str:
    """Join the first `most` texts, and say how many more there are."""
    every = list(texts)
    more = [f"and {len(every) - most} more"] if len(every) > most else []
    return ", ".join([*(shown(text, longest) for text in every[:most]), *more])
