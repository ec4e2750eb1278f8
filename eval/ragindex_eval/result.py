"""The result of `ragindex.compare`, which can be printed, inspected and saved."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ragindex._util.distribution import require_module
from ragindex._util.text import many
from ragindex.errors import UnknownNameError, UsageError
from ragindex.export.export_retriever import Export
from ragindex.index.index import Index
from ragindex_eval.export_compared import ComparedMethod, export_compared
from ragindex_eval.report.page import save_report
from ragindex_eval.report.terminal import render_comparison
from ragindex_eval.results.files import save_results
from ragindex_eval.results.model import Comparison, MethodResult, Study
from ragindex_eval.results.questions import QuestionResult, find_question_result, list_question_results

if TYPE_CHECKING:
    from pandas import DataFrame

_WIDTH = 160  # columns of the printed table


class Figures(Mapping[str, float | None]):
    """Figures of one method by name: `R@5`, `latency_ms_p50`, `index_bytes`, …; a value is None if it is unknown."""

    def __init__(
        self, method: MethodResult, compared: ComparedMethod | None = None, index: Index | Path | None = None
    ) -> None:
        self.label, self.result = method.label, method
        self._compared, self._index = compared, index
        self._values = _figures(method)

    def __getitem__(self, name: str) -> float | None:
        """Return one figure. Raises UnknownNameError, which lists the available figures, if there is none."""
        value: float | None = _look_up(self._values, name, f"{self.label} has no figure")
        return value

    def export(self, out: Path | str, *, pack: bool = False) -> Export:
        """Export the method from the index of the comparison, with its figures as evidence, for `ragindex.load`.

        `out` is a folder, which refers to the index; with `pack`, one file that needs none. Raises UsageError if the
        index has changed since the comparison, and the errors of `ragindex.Index.export`.
        """
        if self._compared is None or self._index is None:
            raise UsageError("These figures belong to no index. Run: ragindex export --index DIR --results DIR")
        return export_compared(self._compared, self._index, out, pack=pack)

    @property
    def groups(self) -> Mapping[tuple[str, str], Mapping[str, float]]:
        """The metrics of each group of questions, as in `groups["kind", "single"]["R@5"]`."""
        return {(group.by, group.value): group.metrics for group in self.result.breakdown}

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<figures of {self.label}: {', '.join(self._values)}>"


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """Result of a comparison of methods over one corpus.

    `print(result)` shows the table, `result["bm25"]["R@5"]` is one figure, and `for method in result` iterates over
    the methods, best first. `questions` are the hits and metrics by question. `comparison` holds everything else:
    answers, rankings, intervals and paired tests.
    """

    comparison: Comparison
    index: Index | Path | None = None
    """The index that was searched: the open one that was given, or its folder."""

    def __getitem__(self, label: str) -> Figures:
        """Return the figures of a method. Raises UnknownNameError, which lists the methods, if there is none."""
        by_label = {method.label: method for method in self.comparison.methods}
        return self._figures(_look_up(by_label, label, "There is no method"))

    def __iter__(self) -> Iterator[Figures]:
        return map(self._figures, self.comparison.methods)

    @property
    def questions(self) -> tuple[QuestionResult, ...]:
        """What each method found for each question, in the order of the questions."""
        return list_question_results(self.comparison)

    def question(self, written: str) -> QuestionResult:
        """Return what each method found for one question, given by id or text. Raises UnknownNameError."""
        return find_question_result(self.comparison, written)

    def _figures(self, method: MethodResult) -> Figures:
        return Figures(method, ComparedMethod(self.comparison, method), self.index)

    def __len__(self) -> int:
        return len(self.comparison.methods)

    def __contains__(self, label: object) -> bool:
        return label in [method.label for method in self.comparison.methods]

    def __repr__(self) -> str:
        data, labels = self.comparison.dataset, [method.label for method in self.comparison.methods]
        return f"<comparison of {', '.join(labels)} on {data.name}: {many(data.questions, 'question')}>"

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self._printed().export_text().splitlines())

    def _repr_html_(self) -> str:
        """Return the table as HTML for a notebook."""
        return self._printed().export_html(inline_styles=True, code_format="<pre>{code}</pre>")

    def _printed(self) -> Console:
        """Return a console that has recorded the table."""
        console = Console(file=StringIO(), width=_WIDTH, record=True, highlight=False, emoji=False)
        console.print(render_comparison(self.comparison))
        return console

    def to_frame(self) -> "DataFrame":
        """Return a DataFrame with a row per method, indexed by label, and a column per figure.

        Raises MissingExtraError if pandas is not installed.
        """
        pandas = require_module("pandas", "pandas", "to_frame")
        rows = {figures.label: dict(figures) for figures in self}
        frame: DataFrame = pandas.DataFrame.from_dict(rows, orient="index")
        return frame

    def save(self, folder: Path | str) -> None:
        """Write rankings, figures and the report into a folder, as `ragindex compare --out` does.

        Raises StoreError if the files cannot be written.
        """
        save_results(self.study, Path(folder))
        self.report(Path(folder) / "report.html")

    def report(self, path: Path | str) -> None:
        """Write the report as one HTML file. Raises StoreError if it cannot be written."""
        save_report(self.study, Path(path))

    @property
    def study(self) -> Study:
        """Return a study that holds only this comparison."""
        return Study(self.comparison.dataset.name, (self.comparison,))


def _figures(method: MethodResult) -> dict[str, float | None]:
    usage = method.query_usage
    return {
        **method.metrics,
        **{name: count.tokens for name, count in method.tokens_to_recall.items()},
        "latency_ms_p50": method.latency.total.p50,
        "latency_ms_p95": method.latency.total.p95,
        "index_seconds": method.index_seconds,
        "index_bytes": method.index_bytes,
        "index_money": method.index_usage.money,
        "query_input_tokens": usage.input_tokens if method.built else None,
        "query_output_tokens": usage.output_tokens if method.built else None,
        "query_money": usage.money,
        "query_calls": method.calls,
        "unanswered": len(method.failures),
    }


def _look_up(values: Mapping[str, Any], name: str, missing: str) -> Any:
    if name not in values:
        raise UnknownNameError(f"{missing} {name!r}. Available: {_join_names(values)}.")
    return values[name]


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names)
