"""Terminal output of comparisons, in tables that fit a terminal of any width."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from ragindex._util.text import first_names
from ragindex.cli.console import escape_markup
from ragindex.llm.offline import display_name
from ragindex_eval.conclusions.first_sentence import state_conclusion
from ragindex_eval.format import describe_lsa, many, shown
from ragindex_eval.report.sections.kinds import QuestionGroup, render_kinds, render_nothing
from ragindex_eval.report.sections.published import PublishedFigures, PublishedRow, render_published
from ragindex_eval.report.sections.questions import describe_read_shares, find_missed
from ragindex_eval.report.tables import (
    BOLD,
    Column,
    ColumnGroup,
    MetricCell,
    Table,
    make_table,
    meaning,
    metrics_shown,
    token_cells,
    token_shares,
)
from ragindex_eval.results.model import UNKNOWN, Comparison, MethodResult, Study, failed_on

_GAP = 2  # blanks between two columns
_NAME = 12, 40  # the fewest and most columns of the terminal for names, where not all fits; names are never cut


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """Title, with line breaks, and a cell for each row, both of markup."""

    title: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        """The width in columns of the terminal."""
        return max(Text.from_markup(line).cell_len for line in [*self.title.split("\n"), *self.cells])


@dataclass(frozen=True, slots=True)
class FittedTable:
    """Table with a name for each row, as markup, and groups of columns.

    Groups that do not fit give way, the last one first: they stand in further tables below. A group is divided only if
    it is wider than the terminal by itself. Where not everything fits, names of more than 40 characters, or half of the
    width, are wrapped.
    """

    head: str
    names: tuple[str, ...]
    groups: tuple[tuple[FittedColumn, ...], ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the tables, with a blank line between two."""
        width, name = options.max_width, FittedColumn(self.head, self.names).width
        if name + sum(_GAP + column.width for group in self.groups for column in group) > width:
            name = min(name, max(_NAME[0], min(_NAME[1], width // 2)))
        for number, columns in enumerate(_divide(self.groups, width - name)):
            if number:
                yield ""
            yield self._make_table(columns, name)

    def _make_table(self, columns: Sequence[FittedColumn], name: int) -> RichTable:
        table = RichTable(box=None, pad_edge=False, header_style="bold")
        table.add_column(self.head, overflow="fold", width=name)
        for column in columns:
            table.add_column(column.title, justify="right", no_wrap=True)
        for number, row in enumerate(self.names):
            table.add_row(row, *(column.cells[number] for column in columns))
        return table


def _divide(groups: Sequence[Sequence[FittedColumn]], width: int) -> Iterator[list[FittedColumn]]:
    """Yield the columns of each table: as many whole groups as fit into `width`, which is without the names."""
    columns, used = list[FittedColumn](), 0
    for group in groups:
        fits = used + sum(_GAP + column.width for column in group) <= width
        for number, column in enumerate(group):
            if columns and (used + _GAP + column.width > width or (number == 0 and not fits)):
                yield columns
                columns, used = [], 0
            columns.append(column)
            used += _GAP + column.width
    yield columns


# ---------------------------------------------------------------- the report

_SHOWN_REASONS = 3
_SHOWN_DETAILS = 5
_FEWEST_SHARED = 5  # questions; the intervals of shares of fewer reach from a few to nearly all percent
_LONGEST_KIND = 24  # columns of the terminal


class _BoldLegend:
    """What bold figures mean, where they can be seen."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.color_system is not None:
            yield f"[dim]bold: {BOLD}[/]"


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
    table = make_table(comparison)
    names = [escape_markup(row.label) for row in table.rows]
    others = (*table.bounds, *([table.total] if table.total else []))
    labels = (*names, *(f"[dim]{row.label}[/]" for row in others))
    conclusion = f"[bold]{escape_markup(state_conclusion(comparison))}[/]"
    facts = map(escape_markup, _fact_lines(comparison))
    published = render_published(comparison)
    beside = [] if published is None else ["", *_published_lines(published)]
    return Group(
        FittedTable("method", labels, _column_groups(table)),
        *_one_doc_lines(table),
        *_token_lines(comparison),
        *_kind_lines(comparison),
        *_nothing_lines(comparison),
        *([_BoldLegend()] if table.bold else []),
        "",
        conclusion,
        *(escape_markup(sentence) for sentence in (comparison.holdout.describe() if comparison.holdout else ())),
        *facts,
        *_warning_lines(comparison),
        *beside,
    )


def _published_lines(published: PublishedFigures) -> list[RenderableType]:
    """Return a table of published figures beside those here, under its title, and the sentences on it."""
    table = RichTable(box=None, pad_edge=False, header_style="bold")
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


def _one_doc_lines(table: Table) -> list[RenderableType]:
    """Return a table of one_doc_R for the methods of which it differs from recall; [] if there are none."""
    places = [place for place, column in enumerate(table.columns) if column.title.startswith("one doc")]
    shown_texts = {place: [_text_unless_repeated(row.cells[place]) for row in table.rows] for place in places}
    numbers = [number for number in range(len(table.rows)) if any(texts[number] for texts in shown_texts.values())]
    if not numbers:
        return []
    columns = tuple(
        FittedColumn(
            table.columns[place].lines.replace("one doc", "one-doc"), tuple(texts[number] for number in numbers)
        )
        for place, texts in shown_texts.items()
    )
    labels = tuple(escape_markup(table.rows[number].label) for number in numbers)
    legend = f"[dim]one-doc R: {meaning('one_doc_R')}; elsewhere it is equal to R[/]"
    return ["", FittedTable("method", labels, (columns,)), legend]


def _text_unless_repeated(cell: MetricCell) -> str:
    return "" if cell.repeated or cell.text == "–" else cell.text


def _token_lines(comparison: Comparison) -> list[RenderableType]:
    """Return a table of the tokens that must be read for a recall; [] if the questions name no evidence."""
    metrics = metrics_shown(comparison)
    shares = token_shares(metrics) if comparison.methods[0].tokens_to_recall else []
    if not shares:
        return []
    rows = [token_cells(method, metrics) for method in comparison.methods]
    columns = tuple(
        FittedColumn(
            f"tokens to recall\n{share} of evidence",
            tuple(f"{cell.text} ({cell.interval})" if cell.interval else cell.text for cell in cells),
        )
        for share, cells in zip(shares, zip(*rows, strict=True), strict=True)
    )
    labels = tuple(escape_markup(method.label) for method in comparison.methods)
    return ["", FittedTable("method", labels, (columns,))]


def _kind_lines(comparison: Comparison) -> list[RenderableType]:
    """Return a table of the first metric by kind of question, or by hops, and by whether a title is named."""
    groupings = render_kinds(comparison)
    by = {} if groupings is None else {table.by: table for table in groupings.tables}
    tables = [table for table in by.values() if table.by != "hops" or "kind" not in by]
    if not tables:
        return []
    labels = tuple(escape_markup(method.label) for method in comparison.methods)
    columns = tuple(tuple(map(_kind_column, table.groups)) for table in tables)
    title = f"{metrics_shown(comparison)[0]} by {' and by '.join(table.heading for table in tables)}"
    return ["", f"[bold]{title}[/]", FittedTable("method", labels, columns)]


def _kind_column(group: QuestionGroup) -> FittedColumn:
    """Return the column of a group of questions, with the first metric of the methods."""
    title = f"{escape_markup(shown(group.name, _LONGEST_KIND))}\nn = {group.questions:,}"
    return FittedColumn(title, tuple(row.cells[0].text for row in group.rows))


def _nothing_lines(comparison: Comparison) -> list[RenderableType]:
    """Return a table of how often methods find nothing, or a line if the questions are few for it.

    [] if no questions are marked as unanswerable.
    """
    table = render_nothing(comparison)
    if table is None:
        return []
    if table.fewest < _FEWEST_SHARED:
        return [
            "",
            f"[dim]{table.fewest} questions say next to nothing of which methods find nothing; see the report[/]",
        ]
    columns = (
        FittedColumn("rightly, of\nunanswerable", tuple(row.rightly for row in table.rows)),
        FittedColumn("wrongly, of\nthe others", tuple(row.wrongly for row in table.rows)),
    )
    title = "[bold]Finds nothing[/] [dim](best score below a threshold that was chosen on the other questions)[/]"
    return ["", title, FittedTable("method", tuple(escape_markup(row.label) for row in table.rows), (columns,))]


def _column_groups(table: Table) -> tuple[tuple[FittedColumn, ...], ...]:
    """Return quality, times and size, tokens and money. In a narrow terminal the last give way first."""
    rows = [(row, "{}") for row in table.rows]
    rows += [(row, "[dim]{}[/]") for row in (*table.bounds, *([table.total] if table.total else []))]

    def fit(place: int, column: Column) -> FittedColumn:
        cells = ((row.cells[place], form) for row, form in rows)
        texts = (("[bold]{}[/]" if cell.best else form).format(cell.text) for cell, form in cells)
        return FittedColumn(column.lines, tuple(texts))

    return tuple(
        tuple(fit(place, column) for place, column in enumerate(table.columns) if column.group == group)
        for group in get_args(ColumnGroup)
    )


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
        f"{_describe_setup(comparison)}seed {comparison.seed}; fingerprint {comparison.fingerprint}",
        *filter(None, [describe_lsa(comparison.encoder, _list_resting(comparison))]),
        *([] if comparison.enough is None else [comparison.enough.describe()]),
        *_describe_missed(comparison),
        *_describe_reader(comparison),
    ]


def _describe_setup(comparison: Comparison) -> str:
    """Return encoder, language model and store; "" if the rankings come from files, for which they are unknown."""
    if comparison.encoder == UNKNOWN:
        return ""
    return f"encoder {comparison.encoder}; language model {display_name(comparison.llm)}; store {comparison.store}; "


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
    given = comparison.reader.describe_input("", " (estimated)" if comparison.reader.estimated else "")
    return [f"answers read by {display_name(comparison.reader.llm)}, from {given}{paid}"]


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
