"""The report of a study as one HTML file that needs nothing else: no request, no script.

All text from the data is escaped by the templates, and bounded before it reaches them, whatever a section does: a
megabyte in a title does not make a megabyte of page.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ragindex import durable_files
from ragindex.errors import StoreError
from ragindex_eval.format import block, many, shown, without_folders
from ragindex_eval.report.sections import (
    ablations,
    agreement,
    caveats,
    coverage,
    figures,
    glossary,
    hops,
    iterations,
    overview,
    pairs,
    questions,
    reproduction,
    seeds,
    table,
)
from ragindex_eval.results.model import Comparison, Study
from ragindex_eval.stats import conclusions

_SENTENCE, _COMMAND = 1_500, 4_000  # characters
_Section = tuple[str, str, Callable[[Any], Any]]  # its template, its heading, and what gives its values
_BEFORE: Sequence[_Section] = (
    ("overview", "All results", overview.render_overview),
    ("seeds", "Spread over seeds", seeds.render_seeds),
)
_AFTER: Sequence[_Section] = (("glossary", "What the figures mean", glossary.render_glossary),)


@dataclass(frozen=True, slots=True)
class _Part:
    """A section ready for the page."""

    anchor: str
    title: str
    html: Markup


@dataclass(frozen=True, slots=True)
class _Chapter:
    """One comparison: what it is of, what it says, and its sections."""

    anchor: str
    title: str
    about: str
    sentence: str
    judged: bool
    parts: tuple[_Part, ...]


def save_report(study: Study, path: Path) -> None:
    """Write the report of a study as one HTML file. Raises StoreError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable_files.write_file(path, render_report(study).encode())
    except OSError as error:
        raise StoreError(f"The report could not be written to {path}: {error.strerror or error}.") from error


def render_report(study: Study) -> str:
    """The report as HTML. It can be written as UTF-8, whatever the data hold."""
    chapters = [_chapter(one, f"c{number}") for number, one in enumerate(study.comparisons, start=1)]
    before = _parts(_BEFORE, study)
    after = _parts(_AFTER, study)
    page = _templates().get_template("page.html")
    return page.render(
        title=shown(study.name, 200),
        chapters=chapters,
        before=before,
        after=after,
        command=without_folders(study.command),
    )


def _chapter(comparison: Comparison, anchor: str) -> _Chapter:
    data = comparison.dataset
    asked = many(data.questions, "question")
    about = f"{many(data.documents, 'document')}, {asked}, encoder {comparison.encoder}, seed {comparison.seed}"
    parts = _parts(_chosen(comparison), comparison, f"{anchor}-")
    sentence = conclusions.sentence(comparison)
    return _Chapter(anchor, shown(data.name, 200), without_folders(about), sentence, bool(data.judged), tuple(parts))


def _chosen(comparison: Comparison) -> Sequence[_Section]:
    """Template, heading and values of every section, in the order of the page."""
    judged = bool(comparison.dataset.judged)
    looked_at = "Where the methods disagree most" if judged else "What each method found"
    asked = ("questions", looked_at, questions.render_questions)
    middle = [] if judged else [asked, ("agreement", "Agreement", agreement.render_agreement)]
    end = [asked] if judged else []
    return [
        ("table", "Results", table.render_table),
        *middle,
        ("figures", "Plots", figures.render_figures),
        ("pairs", "Differences between methods", pairs.render_pairs),
        ("ablations", "One parameter changed", ablations.render_ablations),
        ("iterations", "By iteration", iterations.render_iterations),
        ("hops", "By kind of question", hops.render_hops),
        ("coverage", "What trees group together", coverage.render_coverage),
        *end,
        ("caveats", "Warnings", caveats.render_caveats),
        ("reproduction", "What the figures depend on", reproduction.render_reproduction),
    ]


def _parts(chosen: Sequence[_Section], value: object, prefix: str = "") -> list[_Part]:
    found = []
    for name, title, section in chosen:
        values = section(value)
        if values is not None:
            # Made by a template that escapes; the page must not do it again.
            html = Markup(_templates().get_template(f"{name}.html").render(values=values))  # noqa: S704
            found.append(_Part(f"{prefix}{name}", title, html))
    return found


@cache
def _templates() -> Environment:
    found = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "sections"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_bounded,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"long": _long, "lines": _lines}
    return found


def _bounded(value: object) -> object:
    """What every `{{ … }}` goes through before it is escaped."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _long(text: str) -> Markup:
    """A sentence that may be longer than a text from the data."""
    return escape(shown(text, _SENTENCE))


def _lines(text: str) -> Markup:
    """Several lines that are kept."""
    return escape(block(text, _COMMAND))
