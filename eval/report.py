"""A comparison as a person reads it in a terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table

from eval.comparison import Comparison, MethodResult
from ragindex.console import plain

_SHOWN_REASONS = 3
_SHOWN_NOTES = 5


@dataclass(frozen=True, slots=True)
class _Column:
    """A figure of every method; `best` is `max` or `min`, shown in bold."""

    title: str
    value: Callable[[MethodResult], float | None]
    best: Callable[..., float]
    form: Callable[[float], str]


def table(comparison: Comparison) -> RenderableType:
    """One line a method; below it, what the figures depend on and everything that did not go as planned."""
    columns = _columns(comparison)
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column("method", overflow="fold", min_width=12)
    for column in columns:
        made.add_column(column.title, justify="right", no_wrap=True)
    cells = [_cells(column, comparison.methods) for column in columns]
    for number, method in enumerate(comparison.methods):
        made.add_row(plain(method.label), *(column[number] for column in cells))
    return Group(made, "", *map(plain, _facts(comparison)), *_troubles(comparison))


def _columns(comparison: Comparison) -> list[_Column]:
    columns = [_metric(name) for name in _metrics_shown(comparison)]
    columns += [
        _Column("p50\nms", lambda method: method.latency.total.p50, min, _short),
        _Column("p95\nms", lambda method: method.latency.total.p95, min, _short),
        _Column("index\ns", lambda method: method.index_seconds, min, _short),
        _Column("index\nMB", lambda method: method.index_bytes / 1e6, min, _short),
    ]
    if any(method.failures for method in comparison.methods):
        columns.append(_Column("not\nanswered", lambda method: len(method.failures), min, "{:.0f}".format))
    return columns


def _metrics_shown(comparison: Comparison) -> list[str]:
    """Recall at every k, full recall and nDCG at one; recall of one-document hits only where it differs."""
    if not comparison.dataset.judged:
        return []
    ks, methods = comparison.ks, comparison.methods
    one = 10 if 10 in ks else ks[len(ks) // 2]
    differing = [k for k in ks if any(m.metrics[f"one_doc_R@{k}"] != m.metrics[f"R@{k}"] for m in methods)]
    return [*(f"R@{k}" for k in ks), f"full_R@{one}", f"nDCG@{one}", *(f"one_doc_R@{k}" for k in differing)]


def _metric(name: str) -> _Column:
    title = name.replace("_", " ").replace("@", "\n@").replace("one doc", "one-doc")
    return _Column(title, lambda method: 100 * method.metrics[name], max, "{:.1f}".format)


def _short(value: float) -> str:
    """Three digits or so."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _cells(column: _Column, methods: Sequence[MethodResult]) -> list[str]:
    """The figures as text; the best in bold, unless all are equal."""
    values = [column.value(method) for method in methods]
    texts = ["–" if value is None else column.form(value) for value in values]
    known = [value for value in values if value is not None]
    best = column.form(column.best(known)) if len(set(texts)) > 1 and known else None
    return [f"[bold]{text}[/]" if text == best else text for text in texts]


def _facts(comparison: Comparison) -> list[str]:
    data = comparison.dataset
    judged = "" if data.judged in (0, data.questions) else f" ({data.judged} with gold)"
    timed = max(method.latency.questions for method in comparison.methods)
    return [
        f"{data.name} ({data.format}): {_many(data.documents, 'document')}, {_many(data.passages, 'passage')}, "
        f"{_many(data.questions, 'question')}{judged}; k = {', '.join(map(str, comparison.ks))}; "
        f"metrics in percent; latency at k = {comparison.ks[-1]} over {_many(timed, 'question')}, one by one",
        f"encoder {comparison.encoder}; language model none; store {comparison.store}; seed {comparison.seed}; "
        f"fingerprint {comparison.fingerprint}",
    ]


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _troubles(comparison: Comparison) -> list[str]:
    shown, more = comparison.notes[:_SHOWN_NOTES], len(comparison.notes) - _SHOWN_NOTES
    lines = [f"[yellow]{plain(note)}[/]" for note in shown] + ([f"… and {more} more"] if more > 0 else [])
    if not comparison.dataset.judged:
        lines.append("[yellow]no gold: quality was not measured[/]")
    for method in comparison.methods:
        lines += _unanswered(method, comparison.dataset.questions)
    return lines + [f"[yellow]left out:[/] {plain(reason)}" for reason in comparison.left_out]


def _unanswered(method: MethodResult, questions: int) -> list[str]:
    if not method.failures:
        return []
    failed = len(method.failures)
    how_many = "NOT ONE QUESTION" if failed == questions else f"{questions - failed} of {questions} questions"
    reasons = list(dict.fromkeys(method.failures.values()))
    more = f" … and {len(reasons) - _SHOWN_REASONS} other reasons" if len(reasons) > _SHOWN_REASONS else ""
    said = "; ".join(reason[:300] for reason in reasons[:_SHOWN_REASONS])
    return [f"[bold red]{plain(method.label)} answered {how_many}; the others score 0:[/] {plain(said + more)}"]
