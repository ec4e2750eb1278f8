"""Report of a study as one self-contained HTML file, without scripts and network requests.

The templates escape all text from the data and limit its length, whatever a section passes to them, so that a very long
title does not make a very large page.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ragindex._util import durable_files
from ragindex.errors import StoreError
from ragindex_eval.conclusions.first_sentence import state_conclusion
from ragindex_eval.format import block, count_known, many, shown, without_folders
from ragindex_eval.report import tables
from ragindex_eval.report.sections.ablations import render_ablations
from ragindex_eval.report.sections.basis import render_caveats, render_reproduction
from ragindex_eval.report.sections.coverage import render_coverage
from ragindex_eval.report.sections.differences import render_agreement, render_enough, render_pairs
from ragindex_eval.report.sections.figures import render_figures
from ragindex_eval.report.sections.glossary import render_glossary
from ragindex_eval.report.sections.hops import render_hops
from ragindex_eval.report.sections.iterations import render_iterations
from ragindex_eval.report.sections.kinds import render_kinds, render_nothing
from ragindex_eval.report.sections.money import render_money
from ragindex_eval.report.sections.published import render_published
from ragindex_eval.report.sections.questions import render_questions
from ragindex_eval.report.sections.studies import render_overview, render_seeds
from ragindex_eval.results.model import UNKNOWN, Comparison, Study

_LONGEST_SENTENCE, _LONGEST_COMMAND = 1_500, 4_000  # characters
_PartSource = tuple[str, str, Callable[[Any], Any]]  # template, heading, and the function that computes its values
_BEFORE: Sequence[_PartSource] = (
    ("overview", "All results", render_overview),
    ("seeds", "Spread over seeds", render_seeds),
)
_GLOSSARY: Sequence[_PartSource] = (("glossary", "What the figures mean", render_glossary),)


@dataclass(frozen=True, slots=True)
class _Part:
    """Rendered part of a section."""

    anchor: str
    title: str
    html: Markup


@dataclass(frozen=True, slots=True)
class _Section:
    """Section of the page. A section of one part has no heading below its own, unless the part's differs."""

    anchor: str
    title: str
    parts: tuple[_Part, ...]


@dataclass(frozen=True, slots=True)
class _Chapter:
    """Chapter of one comparison: description, conclusion and sections."""

    anchor: str
    title: str
    about: str
    sentence: str
    judged: bool
    sections: tuple[_Section, ...]


def save_report(study: Study, path: Path) -> None:
    """Write the report of a study as one HTML file. Raises StoreError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable_files.write_file(path, render_report(study).encode())
    except OSError as error:
        raise StoreError(f"The report could not be written to {path}: {error.strerror or error}.") from error


def render_report(study: Study) -> str:
    """Render the report as HTML, which can always be encoded as UTF-8."""
    chapters = [_make_chapter(comparison, f"c{number}") for number, comparison in enumerate(study.comparisons, start=1)]
    before = _render_parts(_BEFORE, study)
    after = _render_parts(_GLOSSARY, study)
    page = _templates().get_template("page.html")
    return page.render(
        title=shown(study.name, 200),
        chapters=chapters,
        before=before,
        after=after,
        command=without_folders(study.command),
    )


def _make_chapter(comparison: Comparison, anchor: str) -> _Chapter:
    data = comparison.dataset
    counts = f"{count_known(data.documents, 'document')}, {many(data.questions, 'question')}"
    encoder = "" if comparison.encoder == UNKNOWN else f"encoder {comparison.encoder}, "
    about = f"{counts}, {encoder}seed {comparison.seed}"
    sections = [
        _Section(f"{anchor}-{name}", title, tuple(parts))
        for name, title, sources in _choose_sections(comparison)
        if (parts := _render_parts(sources, comparison, f"{anchor}-"))
    ]
    sentence = state_conclusion(comparison)
    return _Chapter(anchor, shown(data.name, 200), without_folders(about), sentence, bool(data.judged), tuple(sections))


def _choose_sections(comparison: Comparison) -> Sequence[tuple[str, str, Sequence[_PartSource]]]:
    """Return the six sections of a comparison in the order of the page: name, title and parts.

    The seventh, which all comparisons of a page share, is how to repeat and read it. Without gold, the questions come
    after the results, and the methods' agreement is the first of the differences.
    """
    judged = bool(comparison.dataset.judged)
    looked_at = "Where the methods disagree most" if judged else "What each method found"
    results = (
        ("table", "Results", tables.make_table),
        ("published", "Published figures", render_published),
        ("money", "What it costs", render_money),
    )
    plots = (("figures", "Plots", render_figures),)
    differences = (
        *([] if judged else [("agreement", "Agreement", render_agreement)]),
        ("pairs", "All pairs", render_pairs),
        ("enough", "Are the questions enough?", render_enough),
        ("ablations", "One parameter changed", render_ablations),
    )
    groups = (
        ("iterations", "By iteration", render_iterations),
        ("kinds", "By kind", render_kinds),
        ("hops", "Spread of recall by kind", render_hops),
        ("nothing", "Finds nothing", render_nothing),
        ("coverage", "What trees group together", render_coverage),
    )
    basis = (
        ("caveats", "Warnings", render_caveats),
        ("reproduction", "What the figures depend on", render_reproduction),
    )
    single = ("single", looked_at, (("questions", looked_at, render_questions),))
    return [
        ("results", "Results", results),
        *([] if judged else [single]),
        ("plots", "Plots", plots),
        ("differences", "Differences between methods", differences),
        ("groups", "Groups of questions", groups),
        *([single] if judged else []),
        ("basis", "Warnings and settings", basis),
    ]


def _render_parts(chosen: Sequence[_PartSource], value: object, prefix: str = "") -> list[_Part]:
    parts = []
    for name, title, render in chosen:
        values = render(value)
        if values is not None:
            # The template of the part has escaped this already, and the page must not escape it again.
            html = Markup(_templates().get_template(f"{name}.html").render(values=values))  # noqa: S704
            parts.append(_Part(f"{prefix}{name}", title, html))
    return parts


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "sections"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_limit_length,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"long": _format_sentence, "lines": _format_lines, "many": many}
    return environment


def _limit_length(value: object) -> object:
    """Limit the length of the value of every `{{ … }}` before it is escaped."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _format_sentence(text: str) -> Markup:
    """Format a sentence that may be longer than other texts."""
    return escape(shown(text, _LONGEST_SENTENCE))


def _format_lines(text: str) -> Markup:
    """Format a text of several lines, and keep its line breaks."""
    return escape(block(text, _LONGEST_COMMAND))
