"""The page of an audit: in the terminal, and the same as HTML."""

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ragindex.cli.console import strip_controls, text_table
from ragindex_eval.auditing.audit import Audit
from ragindex_eval.auditing.claims import VERDICTS, AuditedFigure, Claim
from ragindex_eval.auditing.rankings import AuditedPair, AuditedRun, RankingAudit
from ragindex_eval.format import about_questions, join_names, many, percent, points, probability, shown
from ragindex_eval.stats.printed_means import BINARY, GRADED

if TYPE_CHECKING:
    from ragindex_eval.auditing.questions import QuestionAudit

_FEW_FIGURES = 6  # so many are shown one by one
_MOST_CLAIMS = 40
_NAME = 60  # characters
_HTML_WIDTH = 150  # columns


def render_audit(audit: Audit) -> Group:
    """Return the page of an audit as text and tables."""
    parts = list[RenderableType]([_line(audit.source, bold=True)])
    if audit.figures:
        parts += ["", _render_figures(audit.figures)]
    if audit.claims:
        parts += ["", _render_claims(audit.claims), *_list_below_claims(audit.claims)]
    if audit.rankings is not None:
        parts += _render_rankings(audit.rankings)
    if audit.questions is not None:
        parts += ["", *map(_line, _describe_questions(audit.questions))]
    if audit.impossible:
        parts += ["", _line("Figures that cannot be:", bold=True), *map(_item, audit.impossible)]
    if audit.notes:
        parts += ["", _line("Notes:", bold=True), *map(_item, audit.notes)]
    return Group(*parts)


def to_html(audit: Audit) -> str:
    """Return the page as one HTML file without scripts and network requests."""
    console = Console(record=True, file=io.StringIO(), width=_HTML_WIDTH, highlight=False)
    console.print(render_audit(audit))
    return console.export_html(inline_styles=True)


# ---------------------------------------------------------------- figures and claims


def _render_figures(figures: Sequence[AuditedFigure]) -> Table:
    rows = list(_figure_rows(figures) if len(figures) <= _FEW_FIGURES else _column_rows(figures))
    named = ("figure", "value") if len(figures) <= _FEW_FIGURES else ("figures", "values")
    return text_table((*named, "questions", "95 % interval", "smallest difference they show"), rows)


def _figure_rows(figures: Sequence[AuditedFigure]) -> Iterator[tuple[str, ...]]:
    for figure in figures:
        name = " ".join(filter(None, (figure.data, figure.metric, figure.method)))
        at_most = "" if figure.binary else "at most "
        interval = f"{at_most}{percent(figure.interval[0])} to {percent(figure.interval[1])}"
        yield (
            shown(name, _NAME),
            percent(figure.value),
            f"{figure.questions:,}",
            interval,
            _range_of([*figure.smallest]),
        )


def _column_rows(figures: Sequence[AuditedFigure]) -> Iterator[tuple[str, ...]]:
    """Yield one row for each metric on each data set."""
    columns: dict[tuple[str, str, int], list[AuditedFigure]] = {}
    for figure in figures:
        columns.setdefault((figure.data, figure.metric, figure.questions), []).append(figure)
    for (data, metric, questions), column in columns.items():
        values = [figure.value for figure in column]
        reach = max(max(figure.interval[1] - figure.value, figure.value - figure.interval[0]) for figure in column)
        yield (
            shown(f"{' '.join(filter(None, (data, metric)))} ({len(column)})", _NAME),
            f"{percent(min(values))} to {percent(max(values))}",
            f"{questions:,}",
            f"at most ±{percent(reach)}",
            _range_of([smallest for figure in column for smallest in figure.smallest]),
        )


def _range_of(differences: Sequence[float | None]) -> str:
    known = [difference for difference in differences if difference is not None]
    if not known:
        return "none"
    low, high = percent(min(known)), percent(max(known))
    more = " or none" if len(known) < len(differences) else ""
    return f"{low} to {high}{more} points" if low != high else f"{low} points"


def _render_claims(claims: Sequence[Claim]) -> Table:
    columns = ("claim", "difference", "p", "verdict", "questions to show it")
    return text_table(columns, [claim_cells(claim) for claim in claims[:_MOST_CLAIMS]])


def claim_cells(claim: Claim) -> tuple[str, ...]:
    """Return the cells of a claim: what is claimed, its difference, p, verdict, and the questions that show it."""
    where = " ".join(filter(None, (claim.data, claim.metric)))
    pair = f"{shown(claim.method, _NAME)} over {shown(claim.baseline, _NAME)}"
    low, high = (_format_count(count) for count in claim.needed_questions)
    return (
        f"{where}: {pair}" if where else pair,
        points(claim.difference),
        " to ".join(dict.fromkeys(probability(p).removeprefix("p ").removeprefix("= ") for p in claim.p)),
        _describe_verdict(claim),
        low if low == high else f"{low} to {high}",
    )


def _format_count(questions: int | None) -> str:
    return "none are enough" if questions is None else about_questions(questions).removeprefix("about ")


def _describe_verdict(claim: Claim) -> str:
    if claim.verdict == "open" and claim.disagreements is not None:
        return f"open: at most {claim.disagreements:,} differ"
    if claim.verdict == "open" and claim.correlation is not None:
        return f"open: correlation {claim.correlation:.2f} up"
    return claim.verdict


def _list_below_claims(claims: Sequence[Claim]) -> Iterator[RenderableType]:
    counts = Counter(claim.verdict for claim in claims)
    if len(claims) > _MOST_CLAIMS:
        yield _line(f"… and {len(claims) - _MOST_CLAIMS} more: --json FILE has all")
    yield ""
    for verdict, meaning in VERDICTS.items():
        if counts[verdict]:
            yield _line(f"{verdict} ({counts[verdict]}): {meaning}")
    most = max(claim.comparisons for claim in claims)
    level = f"p < 0.05 / {most}, since a column makes up to {most} claims," if most > 1 else "p < 0.05"
    (low, high), (least, _) = BINARY.correlations, GRADED.shares
    yield ""
    yield _line(
        f"Significant is {level} in a paired test. A table does not show its pairs: p lies between the ends for all "
        f"samples with these means. Plausible are correlations of {low} to {high}, and for metrics that are not 0 or 1 "
        f"{100 * least:.0f} to 100 % of the largest variance."
    )


# ---------------------------------------------------------------- rankings


def _render_rankings(ranked: RankingAudit) -> list[RenderableType]:
    columns = ("run", ranked.metric, "95 % interval", "by order of ties", "questions tied", "missing", "short")
    rows = [
        (
            shown(run.name, _NAME),
            percent(run.value),
            f"{percent(run.interval[0])} to {percent(run.interval[1])}",
            f"{percent(run.by_ties[0])} to {percent(run.by_ties[1])}" if run.tied else "the same",
            *map(str, (run.tied, run.missing, run.short)),
        )
        for run in ranked.runs
    ]
    parts: list[RenderableType] = ["", text_table(columns, rows)]
    if ranked.pairs:
        titles = ("pair", "difference", "95 % interval", "p, corrected", "smallest difference shown", "to show it")
        parts += ["", text_table(titles, [_pair_row(pair) for pair in ranked.pairs])]
    return [*parts, "", *map(_item, _list_findings(ranked))]


def _pair_row(pair: AuditedPair) -> tuple[str, ...]:
    return (
        f"{shown(pair.first, _NAME)} over {shown(pair.second, _NAME)}",
        points(pair.difference),
        f"{points(pair.interval[0])} to {points(pair.interval[1])}",
        probability(pair.p_adjusted),
        "none" if pair.smallest is None else f"{percent(pair.smallest)} points",
        f"{_format_count(pair.needed_questions)}{'' if pair.needed_questions is None else ' questions'}",
    )


def _list_findings(ranked: RankingAudit) -> Iterator[str]:
    yield f"{many(ranked.questions, 'judged question')} with {many(ranked.gold, 'relevant document')}"
    if ranked.unanswerable:
        yield f"{many(ranked.unanswerable, 'question has', 'questions have')} no relevant document, and score 0"
    share = percent(ranked.never_found / ranked.gold)
    by = "the run" if len(ranked.runs) == 1 else "any run"
    yield f"never found by {by}, at any rank: {many(ranked.never_found, 'relevant document')} ({share} %)" + _such_as(
        ranked.examples, "never_found"
    )
    if ranked.unmatched is not None:
        yield f"relevant documents that the corpus lacks: {ranked.unmatched:,}{_such_as(ranked.examples, 'unmatched')}"
    for run in ranked.runs:
        yield from _list_run_findings(run)


def _list_run_findings(run: AuditedRun) -> Iterator[str]:
    if run.missing:
        yield f"{run.name} lacks {many(run.missing, 'judged question')}: each scores 0"
    if run.unjudged:
        yield f"{run.name} ranks for {many(run.unjudged, 'question')} without judgements, which are left out"
    if run.unjudged_hits:
        yield f"{run.name}: {percent(run.unjudged_hits)} % of its first documents have no judgement, and count as wrong"
    if run.unknown:
        yield f"{run.name} has {many(run.unknown, 'document')} that the corpus lacks"


# ---------------------------------------------------------------- questions


def _describe_questions(audit: "QuestionAudit") -> Iterator[str]:
    of = "" if audit.documents is None else f" on {many(audit.documents, 'document')}"
    yield f"{many(audit.questions, 'question')}{of}. Smallest difference that they show: {_range_of(audit.smallest)}."
    yield ""
    rows = {
        "questions with the text of an earlier one": (audit.duplicates, "duplicates"),
        "questions left out, as they could not be read or their gold is no document": (audit.left_out, "left_out"),
        "questions without gold": (audit.without_gold, ""),
        "questions whose whole text stands in a title": (audit.in_titles, "in_titles"),
        "questions with an answer that stands in a title": (audit.answer_in_titles, "answer_in_titles"),
        "questions that name the title of their gold": (audit.naming, ""),
        "documents with title and text of an earlier one": (audit.duplicate_documents, "duplicate_documents"),
        "gold documents among documents of equal text": (audit.duplicate_gold, ""),
    }
    for says, (count, name) in rows.items():
        if count is not None and (audit.documents is not None or name == "duplicates"):
            yield f"{count:6,}  {says}{_such_as(audit.examples, name)}"


def _such_as(examples: Mapping[str, Sequence[str]], name: str) -> str:
    texts = [repr(shown(text, 60)) for text in examples.get(name, ())[:2]]
    return f", such as {join_names(texts)}" if texts else ""


def _item(text: str) -> Padding:
    return Padding(Text(f"- {strip_controls(text)}"), (0, 0, 0, 2), expand=False)


def _line(text: str, *, bold: bool = False) -> Text:
    return Text(strip_controls(text), style="bold" if bold else "")
