"""Terminal output of comparisons."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table

from ragindex._util.text import first_names
from ragindex.cli.console import escape_markup
from ragindex.llm.offline import display_name
from ragindex.types import Usage
from ragindex_eval.conclusions.first_sentence import state_conclusion
from ragindex_eval.conclusions.leaders import leaders
from ragindex_eval.format import describe_lsa, many, short, shown
from ragindex_eval.metrics.evidence import TokensToRecall, write_interval, write_tokens
from ragindex_eval.report.fitted_table import FittedColumn, FittedTable
from ragindex_eval.report.sections.kinds import GROUPINGS, group_name
from ragindex_eval.report.sections.published import PublishedFigures, PublishedRow, render_published
from ragindex_eval.report.sections.questions import describe_read_shares, find_missed
from ragindex_eval.report.sections.table import meaning, metrics_shown
from ragindex_eval.results.model import LATENCY, Comparison, MethodResult, Study, failed_on

_SHOWN_REASONS = 3
_SHOWN_DETAILS = 5
_FEWEST_SHARED = 5  # questions; the intervals of shares of fewer reach from a few to nearly all percent
_TOGETHER = "together"
_LONGEST_KIND = 24  # columns of the terminal


@dataclass(frozen=True, slots=True)
class _Column:
    """Column of the table. If `metric` is set, the methods that may be the best by it are bold (`leaders`).

    Values of which `estimated` holds are marked with ~. Columns that are `added` up have a sum, and a figure for each
    of the reader's bounds.
    """

    title: str
    value: Callable[[MethodResult], float | None]
    form: Callable[[float], str]
    metric: str | None = None
    estimated: Callable[[MethodResult], bool] = lambda method: False
    added: bool = False


class _BoldLegend:
    """What bold figures mean, where they can be seen."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.color_system is not None:
            yield "[dim]bold: cannot be excluded as the best of its column[/]"


def render_study(study: Study) -> RenderableType:
    """Render every comparison of a study, one below the other."""
    if len(study.comparisons) == 1:
        return render_comparison(study.comparisons[0])
    parts = []
    for comparison in study.comparisons:
        heading = f"{comparison.dataset.name}, encoder {comparison.encoder}, seed {comparison.seed}"
        parts += [f"[bold underline]{escape_markup(heading)}[/]", render_comparison(comparison), ""]
    return Group(*parts[:-1])


def render_comparison(comparison: Comparison) -> RenderableType:
    """Render a table with one row per method; below it the conclusion, the facts, and the warnings.

    In a narrow terminal, tokens and money give way first, then times and sizes: they stand in tables below.
    The methods that cannot be excluded as the best are bold; nothing is bold if no method can be excluded.
    """
    names = [escape_markup(method.label) for method in comparison.methods]
    bounds = [f"[dim]{bound.label}[/]" for bound in comparison.bounds]
    together = [f"[dim]{_TOGETHER}[/]"] if _has_total(comparison) else []
    groups = tuple(tuple(_fit(column, comparison) for column in group) for group in _column_groups(comparison))
    table = FittedTable("method", (*names, *bounds, *together), groups)
    bold = any(cell.startswith("[bold]") for group in groups for column in group for cell in column.cells)
    conclusion = f"[bold]{escape_markup(state_conclusion(comparison))}[/]"
    facts = map(escape_markup, _fact_lines(comparison))
    published = render_published(comparison)
    beside = [] if published is None else ["", *_published_lines(published)]
    return Group(
        table,
        *_one_doc_lines(comparison),
        *_token_lines(comparison),
        *_kind_lines(comparison),
        *_nothing_lines(comparison),
        *([_BoldLegend()] if bold else []),
        "",
        conclusion,
        *(escape_markup(sentence) for sentence in (comparison.holdout.describe() if comparison.holdout else ())),
        *facts,
        *_warning_lines(comparison),
        *beside,
    )


def _published_lines(published: PublishedFigures) -> list[RenderableType]:
    """Return a table of published figures beside those here, under its title, and the sentences on it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("method", overflow="fold", min_width=8)
    over = f" over {min(published.baselines)}" if len(published.baselines) == 1 else ""
    gains = [f"gain{over}"] if published.baselines else []
    for title in ["metric", "published", "here", "here −\npublished", "verdict", *gains]:
        table.add_column(escape_markup(title))
    for number, row in enumerate(published.rows):
        again = number > 0 and published.rows[number - 1].method == row.method
        figures = [row.metric, row.published, row.here, row.difference, row.verdict]
        cells = ["" if again else row.method, *figures, *([_gain_cell(row, over)] if gains else [])]
        table.add_row(*map(escape_markup, cells))
    return [f"[bold]{escape_markup(published.title)}[/]", table, *map(escape_markup, published.sentences)]


def _gain_cell(row: PublishedRow, over: str) -> str:
    if not row.over:
        return ""
    named = "" if over else f"over {row.over}: "
    return f"{named}published {row.published_gain}, here {row.gain}: {row.direction}"


def _one_doc_lines(comparison: Comparison) -> list[RenderableType]:
    """Return a table of one_doc_R for the methods of which it differs from recall; [] if there are none."""
    ks = [k for k in comparison.ks if f"one_doc_R@{k}" in metrics_shown(comparison)]
    methods = [method for method in comparison.methods if any(_one_doc_recall(method, k) is not None for k in ks)]
    if not methods:
        return []
    columns = []
    for k in ks:
        values = [_one_doc_recall(method, k) for method in methods]
        columns.append(
            FittedColumn(f"one-doc R\n@{k}", tuple("" if value is None else f"{value:.1f}" for value in values))
        )
    table = FittedTable("method", tuple(escape_markup(method.label) for method in methods), (tuple(columns),))
    return ["", table, f"[dim]one-doc R: {meaning('one_doc_R')}; elsewhere it is equal to R[/]"]


def _token_lines(comparison: Comparison) -> list[RenderableType]:
    """Return a table of the tokens that must be read for a recall; [] if the questions name no evidence."""
    shown_metrics = metrics_shown(comparison)
    names = list(comparison.methods[0].tokens_to_recall)
    if not names or not any(name.startswith("evidence_R") for name in shown_metrics):
        return []
    columns = tuple(
        FittedColumn(
            f"tokens to recall\n{float(name.partition('@')[2]):.0%} of evidence",
            tuple(_format_tokens(method.tokens_to_recall.get(name)) for method in comparison.methods),
        )
        for name in names
    )
    labels = tuple(escape_markup(method.label) for method in comparison.methods)
    return ["", FittedTable("method", labels, (columns,))]


def _format_tokens(recall: TokensToRecall | None) -> str:
    if recall is None:
        return "–"
    interval = write_interval(recall) if recall.tokens is not None else ""
    return f"{write_tokens(recall)} ({interval})" if interval else write_tokens(recall)


def _one_doc_recall(method: MethodResult, k: int) -> float | None:
    """Return recall at k over the hits that name exactly one document, in percent; None if it is equal to recall."""
    value = method.metrics.get(f"one_doc_R@{k}")
    return None if value == method.metrics.get(f"R@{k}") else _percent(value)


def _kind_lines(comparison: Comparison) -> list[RenderableType]:
    """Return a table of the first metric by kind of question, or by hops, and by whether a title is named."""
    ways = list(dict.fromkeys(group.by for group in comparison.methods[0].breakdown))
    shown_ways = [by for by in ways if by != "hops" or "kind" not in ways]
    if not shown_ways:
        return []
    metric, names = metrics_shown(comparison)[0], tuple(escape_markup(method.label) for method in comparison.methods)
    groups = tuple(tuple(_kind_columns(comparison, by, metric)) for by in shown_ways)
    by = " and by ".join(GROUPINGS[by] for by in shown_ways)
    return ["", f"[bold]{metric} by {by}[/]", FittedTable("method", names, groups)]


def _nothing_lines(comparison: Comparison) -> list[RenderableType]:
    """Return a table of how often methods find nothing, or a line if the questions are few for it.

    [] if no questions are marked as unanswerable.
    """
    rows = comparison.finds_nothing
    if not rows:
        return []
    if (fewest := min(min(row.rightly.of, row.wrongly.of) for row in rows)) < _FEWEST_SHARED:
        return ["", f"[dim]{fewest} questions say next to nothing of which methods find nothing; see the report[/]"]
    columns = (
        FittedColumn("rightly, of\nunanswerable", tuple(row.rightly.describe() for row in rows)),
        FittedColumn("wrongly, of\nthe others", tuple(row.wrongly.describe() for row in rows)),
    )
    title = "[bold]Finds nothing[/] [dim](best score below a threshold that was chosen on the other questions)[/]"
    return ["", title, FittedTable("method", tuple(escape_markup(row.label) for row in rows), (columns,))]


def _kind_columns(comparison: Comparison, by: str, metric: str) -> Iterator[FittedColumn]:
    """Yield a column for each group of questions; a method without the metric has a dash."""
    groups = [[group for group in method.breakdown if group.by == by] for method in comparison.methods]
    for parts in zip(*groups, strict=True):
        title = f"{escape_markup(shown(group_name(by, parts[0].value), _LONGEST_KIND))}\nn = {parts[0].questions:,}"
        values = [_percent(part.metrics.get(metric)) for part in parts]
        yield FittedColumn(title, tuple("–" if value is None else f"{value:.1f}" for value in values))


def _column_groups(comparison: Comparison) -> list[list[_Column]]:
    """Return the columns: quality, time and size, tokens and money. In a narrow terminal the last give way first."""
    quality = [_metric_column(name) for name in metrics_shown(comparison) if not name.startswith("one_doc")]
    if any(method.failures for method in comparison.methods):
        quality.append(_Column("not\nanswered", lambda method: len(method.failures), "{:.0f}".format))
    sizes = [
        _Column("p50\nms", lambda method: method.latency.total.p50, short, LATENCY),
        _Column("p95\nms", lambda method: method.latency.total.p95, short),
        _Column("index\ns", lambda method: method.index_seconds, short),
        _Column("index\nMB", lambda method: _megabytes(method.index_bytes), short),
    ]
    return [quality, sizes, _cost_columns(comparison)]


def _cost_columns(comparison: Comparison) -> list[_Column]:
    """Return the columns of tokens, money and calls that are not 0 for every method."""
    columns = [
        _token_column("index\ntokens", lambda method: method.index_tokens, lambda method: method.index_usage),
        _money_column("index\n$", lambda method: method.index_usage, "{:.4f}".format),
        replace(_money_column("spent\n$", lambda method: method.spent, "{:.4f}".format), added=True),
        _token_column("tokens/\nquestion", lambda method: method.query_tokens, lambda method: method.query_usage),
        _money_column("$/\nquestion", lambda method: method.query_usage, "{:.5f}".format),
        _Column("calls/\nquestion", lambda method: method.calls, "{:.1f}".format),
    ]
    shown_methods = (*comparison.methods, *comparison.bounds)
    return [column for column in columns if any(_tells(column.value(method), method) for method in shown_methods)]


def _tells(cost: float | None, method: MethodResult) -> bool:
    """Return whether a cost is worth a column: it is not 0, nor unknown because the ranking comes from elsewhere."""
    return cost != 0 and (method.built or cost is not None)


def _has_total(comparison: Comparison) -> bool:
    return comparison.spent.money != 0


def _token_column(
    title: str, tokens: Callable[[MethodResult], float | None], usage: Callable[[MethodResult], Usage]
) -> _Column:
    return _Column(title, tokens, "{:,.0f}".format, estimated=lambda method: usage(method).estimated)


def _megabytes(size: int | None) -> float | None:
    return None if size is None else size / 1e6


def _money_column(title: str, usage: Callable[[MethodResult], Usage], form: Callable[[float], str]) -> _Column:
    return _Column(title, lambda method: usage(method).money, form, estimated=lambda method: usage(method).estimated)


def _bound_cell(column: _Column, bound: MethodResult) -> str:
    """Return the cell of a reader's bound, which has answer metrics and what its answers cost."""
    if column.added:
        return f"[dim]{_text(column, bound)}[/]"
    known = column.metric in bound.metrics
    return f"[dim]{column.form(column.value(bound) or 0.0)}[/]" if known else ""


def _total_cell(column: _Column, comparison: Comparison) -> str:
    if not column.added:
        return ""
    spent = comparison.spent
    return "[dim]–[/]" if spent.money is None else f"[dim]{'~' if spent.estimated else ''}{column.form(spent.money)}[/]"


def _metric_column(name: str) -> _Column:
    title = name.replace("_", " ").replace("@", "\n@")
    return _Column(title, lambda method: _percent(method.metrics.get(name)), "{:.1f}".format, name)


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _fit(column: _Column, comparison: Comparison) -> FittedColumn:
    """Return a column with its cells: of the methods, below them of the reader's bounds, and what was spent in all."""
    bounds = [_bound_cell(column, bound) for bound in comparison.bounds]
    together = [_total_cell(column, comparison)] if _has_total(comparison) else []
    return FittedColumn(column.title, (*_cells(column, comparison), *bounds, *together))


def _text(column: _Column, method: MethodResult) -> str:
    value = column.value(method)
    return "–" if value is None else f"{'~' if column.estimated(method) else ''}{column.form(value)}"


def _cells(column: _Column, comparison: Comparison) -> list[str]:
    """Return the cells of a column as text."""
    texts = [_text(column, method) for method in comparison.methods]
    ahead = leaders(comparison, column.metric) if column.metric else ()
    differs = 0 < len(ahead) < len(comparison.methods)
    return [
        f"[bold]{text}[/]" if differs and method.label in ahead else text
        for text, method in zip(texts, comparison.methods, strict=True)
    ]


def _fact_lines(comparison: Comparison) -> list[str]:
    data = comparison.dataset
    judged = "" if data.judged in (0, data.questions) else f" ({data.judged} with gold)"
    timed = max(method.latency.questions for method in comparison.methods)
    built = any(method.built for method in comparison.methods)
    return [
        f"{data.name} ({data.format}): {data.describe_size()}, "
        f"{many(data.questions, 'question')}{judged}; k = {', '.join(map(str, comparison.ks))}; "
        f"metrics in percent{_describe_noise(comparison)}"
        + (f"; latency at k = {comparison.ks[-1]} over {many(timed, 'question')}, one by one" if timed or built else "")
        + _timing_note(comparison),
        f"encoder {comparison.encoder}; language model {display_name(comparison.llm)}; store {comparison.store}; "
        f"seed {comparison.seed}; fingerprint {comparison.fingerprint}",
        *filter(None, [describe_lsa(comparison.encoder, _list_resting(comparison))]),
        *([] if comparison.enough is None else [comparison.enough.describe()]),
        *_describe_missed(comparison),
        *_describe_reader(comparison),
    ]


def _list_resting(comparison: Comparison) -> list[str]:
    """Return the methods that rest on an encoder that is fitted to the documents."""
    return [method.label for method in comparison.methods if any(name.endswith(" fit") for name in method.parts)]


def _describe_missed(comparison: Comparison) -> list[str]:
    """Return a line with the number of questions for which no method finds anything right, and the first of them."""
    missed = find_missed(comparison)
    if not missed:
        return []
    first, more = shown(comparison.queries[missed[0]].text, 60), ", …" if len(missed) > 1 else ""
    gold = {id for at in missed for id in (comparison.gold or {})[comparison.queries[at].id].doc_ids}
    in_part = describe_read_shares(comparison, gold)
    return [
        f"for {many(len(missed), 'question')} no method finds a gold document in its first {comparison.ks[-1]} hits; "
        f"the report shows {'it' if len(missed) == 1 else 'them'}: {first!r}{more}",
        *([f"of their gold documents: {first_names(in_part)}"] if in_part else []),
    ]


def _timing_note(comparison: Comparison) -> str:
    """Return when latency was measured, since it may come from an earlier run."""
    moment = next((method.latency.taken for method in comparison.methods if method.latency.taken), "")
    return f", taken {moment[:16].replace('T', ' ')} UTC" if moment else ""


def _describe_reader(comparison: Comparison) -> list[str]:
    """Return a line about the reader: LLM, token limit, and costs per question."""
    if comparison.reader is None:
        return []
    read = [method.reading_costs for method in comparison.methods]
    tokens = [usage.input_tokens + usage.output_tokens for usage in read if usage]
    money = [usage.money for usage in read if usage]
    paid = f"; {max(tokens):,.0f} tokens{_highest_cost(money)} a question at most" if any(tokens) else ""
    estimated = " (estimated)" if comparison.reader.estimated else ""
    counted = f"{comparison.reader.tokens:,} tokens{estimated} of what was found"
    return [f"answers read by {display_name(comparison.reader.llm)}, from {counted}{paid}"]


def _highest_cost(money: list[float | None]) -> str:
    """Return the highest cost of reading per question, or say that some costs are unknown."""
    known = [cost for cost in money if cost is not None]
    if len(known) < len(money):
        return " and an unknown sum"
    return f" and ${max(known):.5f}" if any(known) else ""


def _describe_noise(comparison: Comparison) -> str:
    """Return how far the intervals of the first metric reach from its means, as a measure of the noise."""
    metric = f"R@{comparison.ks[0]}"
    arms = [
        abs(bound - method.metrics[metric]) for method in comparison.methods for bound in method.ci95.get(metric, ())
    ]
    return f" (95 % intervals of {metric}: ±{100 * max(arms):.1f} at most)" if arms else ""


def _warning_lines(comparison: Comparison) -> list[str]:
    """Return lines on methods that failed, every note, the first details, and what was not answered or left out."""
    noted, more = [*comparison.notes, *comparison.details[:_SHOWN_DETAILS]], len(comparison.details) - _SHOWN_DETAILS
    lines = [
        f"[bold red]{escape_markup(method.label)} {failed_on(method)} and is not compared:[/] "
        f"{escape_markup(_reasons(method))}"
        for method in comparison.failed
    ]
    lines += [f"[yellow]{escape_markup(note)}[/]" for note in noted]
    lines += [f"… and {many(more, 'more detail')}, in the report under “Warnings”"] if more > 0 else []
    for method in comparison.methods:
        lines += _describe_unanswered(method, comparison.dataset.questions)
    return lines + [f"[yellow]left out:[/] {escape_markup(reason)}" for reason in comparison.left_out]


def _describe_unanswered(method: MethodResult, questions: int) -> list[str]:
    if not method.failures:
        return []
    how_many = f"{questions - len(method.failures)} of {questions} questions"
    head = f"[bold red]{escape_markup(method.label)} answered {how_many}; the others score 0:[/]"
    return [f"{head} {escape_markup(_reasons(method))}"]


def _reasons(method: MethodResult) -> str:
    unread = [answer.reading.error for answer in method.final if answer.reading is not None and answer.reading.error]
    reasons = list(dict.fromkeys([*method.failures.values(), *([] if method.failures else unread)]))
    more = f" … and {len(reasons) - _SHOWN_REASONS} other reasons" if len(reasons) > _SHOWN_REASONS else ""
    return "; ".join(reason[:300] for reason in reasons[:_SHOWN_REASONS]) + more
