"""The function `audit`: what results by others can and cannot show, from what is published of them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ragindex.errors import UsageError
from ragindex_eval.auditing.claims import AuditedFigure, Claim, audit_claims, audit_figures, check_figures
from ragindex_eval.auditing.rankings import RankingAudit, audit_rankings
from ragindex_eval.auditing.tables import FigureTable, make_figures, read_figures

if TYPE_CHECKING:
    from ragindex_eval.auditing.questions import QuestionAudit

SCHEMA = 1
DEFAULT_METRIC = "R@10"
FilePath: TypeAlias = str | PathLike[str]
TableRows: TypeAlias = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Audit:
    """What was audited: figures and claims of a table, rankings, questions; None and () where nothing was given.

    `impossible` are sentences on figures that cannot be, `notes` on what was left out or assumed.
    """

    source: str
    figures: tuple[AuditedFigure, ...] = ()
    claims: tuple[Claim, ...] = ()
    impossible: tuple[str, ...] = ()
    rankings: RankingAudit | None = None
    questions: "QuestionAudit | None" = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON of `ragindex audit --json`."""
        return {
            "schema": SCHEMA,
            "source": self.source,
            "figures": [asdict(figure) for figure in self.figures],
            "claims": [claim.to_json() for claim in self.claims],
            "impossible": list(self.impossible),
            "rankings": None if self.rankings is None else self.rankings.to_json(),
            "questions": None if self.questions is None else self.questions.to_json(),
            "notes": list(self.notes),
        }


def audit(
    table: FilePath | TableRows | Sequence[float | str] | None = None,
    *,
    n: int | str | None = None,
    baseline: float | str | None = None,
    methods: Sequence[str] = (),
    metric: str | None = None,
    binary: bool | None = None,
    runs: Sequence[FilePath] = (),
    qrels: FilePath | None = None,
    documents: FilePath | None = None,
    questions: FilePath | None = None,
) -> Audit:
    """Audit a printed table, one or two printed values, ranking files, or questions; no index is needed.

    `table` is a file (.csv, .tsv, .md, .json, .yaml), a list of rows, or a list of one mean or of a mean and that of
    its baseline. `n` is the number of questions, or the name of a benchmark whose number is known. `baseline` names the
    row that others are compared with, or is the baseline of a single value; `methods` are the rows whose claims are
    meant. Without both, the best row is compared with the second best; without a baseline, `methods` with the best of
    the others. `binary` says that the values of single questions are 0 or 1, where the name of the `metric` does not.
    `runs` are ranking files, which `qrels` judge; `documents` is their corpus, or that of `questions`.

    Raises UsageError for what does not go together, and DataError for files that cannot be read.

    Example:
        from ragindex_eval import audit
        claim = audit(["40.5%", "36.4%"], n=1000, metric="EM").claims[0]
        print(claim.verdict, claim.disagreements)
    """
    if bool(runs) != (qrels is not None):
        raise UsageError("Rankings and their judgements go together: --run FILE --qrels FILE")
    if table is None and not runs and questions is None and documents is None:
        raise UsageError("Name a table, or --value, --run with --qrels, or --questions: there is nothing to audit.")
    row = "" if baseline is None else str(baseline)
    read, row = _read_figures(table, row, "" if n is None else str(n), metric or "", binary=binary)
    figures = () if read is None else read.figures
    asks = questions is not None or (documents is not None and not runs)
    return Audit(
        source=read.source if read is not None else str(next(iter(filter(None, (qrels, questions, documents))), "")),
        figures=audit_figures(figures),
        claims=audit_claims(figures, row, methods),
        impossible=tuple(check_figures(figures)),
        rankings=_audit_rankings(runs, qrels, metric or DEFAULT_METRIC, _path(documents)),
        questions=_audit_questions(_path(questions), _path(documents)) if asks else None,
        notes=() if read is None else read.notes,
    )


def _read_figures(
    table: FilePath | TableRows | Sequence[float | str] | None,
    baseline: str,
    n: str,
    metric: str,
    *,
    binary: bool | None,
) -> tuple[FigureTable | None, str]:
    """Return the figures, None without any, and the name of the row of their baseline."""
    if table is None:
        return None, ""
    if isinstance(table, str | PathLike):
        return read_figures(Path(table), n, metric, binary=binary), baseline
    rows = [row for row in table if isinstance(row, Mapping)]
    if rows or not table:
        return read_figures(rows, n, metric, binary=binary), baseline
    values = [str(value) for value in table]
    if len(values) == 1 and baseline:
        values.append(baseline)
    if len(values) > 2:
        raise UsageError(f"Give one value, or a value and its baseline. Got {len(values)}.")
    return make_figures(values, n, metric, binary=binary)


def _audit_rankings(
    runs: Sequence[FilePath], qrels: FilePath | None, metric: str, documents: Path | None
) -> RankingAudit | None:
    if qrels is None:
        return None
    ids = None
    if documents is not None:
        from ragindex.corpus import read_selected  # takes a second to import, which tables need not wait for

        read = read_selected(documents, format=None, skip_bad=True)
        ids = frozenset(document.id for document in read.documents)
    return audit_rankings([Path(run) for run in runs], Path(qrels), metric, ids)


def _audit_questions(questions: Path | None, documents: Path | None) -> "QuestionAudit":
    from ragindex_eval.auditing.questions import audit_questions  # takes a second to import

    return audit_questions(questions, documents)


def _path(given: FilePath | None) -> Path | None:
    return None if given is None else Path(given)
