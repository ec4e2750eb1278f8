"""Report section that sets the figures of a published table beside those of the comparison."""

from dataclasses import dataclass

from ragindex_eval.data.published import EFFICIENCY
from ragindex_eval.format import percent, points, short
from ragindex_eval.results.model import Comparison
from ragindex_eval.results.records import ComparedFigure, ComparedGain, PublishedComparison
from ragindex_eval.stats.intervals import Interval


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A published figure and that of the comparison as texts, shares in percent and percentage points."""

    method: str
    metric: str
    published: str
    here: str
    difference: str
    verdict: str
    over: str
    published_gain: str
    gain: str
    direction: str


@dataclass(frozen=True, slots=True)
class PublishedFigures:
    """Rows of a published table, the rows that gains are over, and sentences on what the verdicts rest on."""

    title: str
    rows: tuple[PublishedRow, ...]
    baselines: frozenset[str]
    sentences: tuple[str, ...]


def render_published(comparison: Comparison) -> PublishedFigures | None:
    """Make the rows; None if the comparison was not set beside a published table."""
    return None if comparison.published is None else tabulate_published(comparison.published)


def tabulate_published(comparison: PublishedComparison) -> PublishedFigures:
    """Make a row for each published figure, and the sentences on conditions."""
    rows = tuple(map(_row, comparison.figures))
    sentences = [
        f"Not comparable, because {comparison.reason}." if comparison.reason else "All stated conditions are equal."
    ]
    if comparison.unchecked:
        sentences.append(f"Not checked: {'; '.join(comparison.unchecked)}.")
    baselines = frozenset(row.over for row in rows if row.over)
    return PublishedFigures(f"{comparison.source}, {comparison.data}", rows, baselines, tuple(sentences))


def _row(figure: ComparedFigure) -> PublishedRow:
    gain = ("", "", "", "") if figure.gain is None else _gain(figure.gain)
    form = short if figure.metric in EFFICIENCY else percent
    here = "–" if figure.here is None else form(figure.here) + _format_interval(figure.ci95)
    published = form(figure.published)
    return PublishedRow(figure.method, figure.metric, published, here, figure.difference, figure.verdict, *gain)


def _gain(gain: ComparedGain) -> tuple[str, str, str, str]:
    here = "–" if gain.here is None else points(gain.here) + _format_interval(gain.ci95)
    return gain.over, points(gain.published), here, gain.direction


def _format_interval(bounds: Interval | None) -> str:
    return "" if bounds is None else f" ({percent(bounds[0])} to {percent(bounds[1])})"
