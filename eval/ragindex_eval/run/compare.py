"""The comparison of methods over one dataset: build, ask, measure. Gold is read here and in the metrics, nowhere else.

The figures of a method depend on what `Workspace.result_fingerprint` names and on the questions; answers and latency
are kept under that name in the workspace's folder `runs`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import regex

from ragindex import canonical
from ragindex.accounting import ledger
from ragindex.corpus import Corpus
from ragindex.errors import ContractError, MissingExtraError, QuestionError, RagindexError, UsageError
from ragindex.interfaces import Retriever, Scheme
from ragindex.llm.answer_question import DEFAULT_TOKENS
from ragindex.llm.budget import Budget, parse_budget
from ragindex.llm.settings import LLMSettings
from ragindex.mlflow_tracing import traced_where_on
from ragindex.plugins import code_fingerprint, registry
from ragindex.plugins.registry import Written
from ragindex.types import Query
from ragindex.workspace import imported_files
from ragindex.workspace.part_keys import broken, tasks_of
from ragindex.workspace.settings import require_apart
from ragindex.workspace.workspace import PartFigures, Workspace
from ragindex_eval.data import datasets, gold_classes
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.files import write
from ragindex_eval.metrics import retrieval
from ragindex_eval.metrics.score import scores
from ragindex_eval.mlflow_tracking import track
from ragindex_eval.results.model import NOT_TIMED, Answer, Comparison, MethodResult, Study, said_of_failed
from ragindex_eval.run import latency, read_answers
from ragindex_eval.run.ask import BATCH, MISTAKES, ReadBack, answer_all, failure, read_back, told
from ragindex_eval.run.assemble import assembled
from ragindex_eval.run.grid import variants
from ragindex_eval.run.latency import OpenedLater, Timing
from ragindex_eval.run.methods import Method, chosen, twinned
from ragindex_eval.run.read_answers import Reader


def compare(
    data: str | Path | Dataset | None = None,
    methods: Sequence[Written] | None = None,
    *,
    questions: Path | str | None = None,
    format: str | None = None,
    skip_bad: bool = False,
    language: str | None = None,
    encoder: Written = "lsa",
    llm: Written | None = None,
    store: Written = "lancedb",
    ks: Sequence[int] = (5, 10, 20),
    limit: int | None = None,
    seed: int = 0,
    workspace: Path | str | Workspace | None = None,
    strict: bool = False,
    grid: Sequence[str] = (),
    with_rerank: Written | bool = False,
    budget: float | Budget | None = None,
    keep_calls: bool = True,
    triples: Path | str | None = None,
    read: bool = False,
    reader_tokens: int = DEFAULT_TOKENS,
    out: Path | str | None = None,
    fresh: bool = False,
    tracking: bool = True,
) -> Comparison:
    """Build `methods` (by default every one that can be made) over `data`, ask its questions and measure.

    `workspace` is a folder (default: ragindex-workspaces/NAME) or an open workspace, whose own encoder, store,
    language, seed, language model, budget and call cache count then. Without `data`, the documents that the workspace
    holds are searched. `grid` makes variants of methods, as ["hybrid:rrf_k=10,60"]. `with_rerank` adds each method's
    twin, reranked by the default reranker (True) or the one named. `out` is a folder for the report, the rankings and
    the figures. With `tracking`, the comparison is recorded in MLflow. `llm` is a language model, as openai:MODEL;
    `budget` the most that its calls may cost, in dollars, or one Budget for several comparisons; without `keep_calls`
    no answer of it is kept. `triples` is a file of published extractions (HippoRAG's OpenIE format), used in place of
    asking. With `read`, the language model (or the rules) answers each question from `reader_tokens` tokens of what
    each method found, and EM and F1 are measured. With `fresh`, questions that an earlier run answered and
    timed are asked again; answers of language models still come from the call cache, if there is one.

    Raises UsageError, DataError, WorkspaceError, StoreError, ServiceError, BudgetError: what is wrong with settings, a
    service or the engine says nothing of a method. An answer that no retriever may give raises ContractError. A
    question on which a method raises anything else is counted as unanswered and scores 0; with `strict` it raises
    QuestionError. A method that fails on every question is not compared: it stands in `failed`; where that is every
    method, QuestionError is raised. A method that was not asked for by name, and is broken, is left out.
    """
    cutoffs, (asked, left_out) = _cutoffs(ks), chosen(methods)
    asked = twinned(variants(asked, grid), with_rerank)
    if triples is not None:
        imported_files.require_reader(method.scheme for method in asked)
    loading = {"questions": questions, "format": format, "skip_bad": skip_bad, "limit": limit, "seed": seed}
    dataset = None if data is None else _loaded(data, loading)
    setting = LLMSettings(budget=parse_budget(budget))
    settings: dict[str, Any] = {"encoder": encoder, "llm": llm, "store": store, "language": language, "seed": seed}
    settings |= {"asking": setting, "keep_calls": keep_calls}
    with _opened(workspace, dataset, settings) as opened:
        if dataset is None:
            dataset = _held(opened, loading)
        else:
            opened.replace(dataset.corpus)
            dataset = datasets.held(dataset, opened)
        _require_questions(dataset)
        if triples is not None:
            opened.import_part(imported_files.TRIPLES, Path(triples))
        opened.require_prices([method.scheme for method in asked], reads=read)
        reads = read_answers.opened(opened, reader_tokens) if read else None
        asking = Asking(cutoffs, strict, reads, fresh)
        found = [_measured(opened, method, dataset, asking, left_out) for method in asked]
        measured = [one for one in found if one]
        failed = _failed(measured)
        results = _timed(opened, [one for one in measured if not _fails(one[0])], dataset, cutoffs[-1])
        comparison = assembled(opened, dataset, cutoffs, results, left_out, asked, failed)
        if reads is not None:
            comparison = read_answers.with_bounds(comparison, opened, dataset, reads, fresh=fresh)
        said = told(asking.read_back)
        comparison = replace(comparison, notes=(said, *comparison.notes)) if said else comparison
    study = Study(comparison.dataset.name, (comparison,))
    if out is not None:
        write.write(study, Path(out))
    if tracking:
        track(study)
    return comparison


def default_workspace(dataset: str) -> Path:
    """Where the workspace of a dataset is when none is named: ragindex-workspaces/NAME."""
    return Path("ragindex-workspaces", folder_name(dataset))


def folder_name(name: str) -> str:
    """A name as that of a folder."""
    return str(regex.sub(r"[^\w.+-]", "-", name)).strip(".") or "data"


# ---------------------------------------------------------------- what is compared


def _cutoffs(ks: Sequence[int]) -> tuple[int, ...]:
    for k in ks:
        if type(k) is not int or k < 1:
            raise UsageError(f"The 'ks' of compare must be ints in the range [1, inf). Got {k!r} instead.")
    if not ks:
        raise UsageError("The 'ks' of compare must name at least one k, as --k 5,10,20.")
    return tuple(sorted(set(ks)))


def _loaded(data: str | Path | Dataset, loading: Mapping[str, Any]) -> Dataset:
    if not isinstance(data, Dataset):
        return datasets.load(data, **loading)
    given = [name for name in ("questions", "format", "limit") if loading[name] is not None]
    if given:
        raise UsageError(f"compare takes {given[0]!r} with a path, not with a Dataset, which is read already.")
    if data.gold is None:
        return data
    return replace(data, gold=gold_classes.in_classes(data.corpus.documents, data.gold))


def _held(workspace: Workspace, loading: Mapping[str, Any]) -> Dataset:
    """The documents of the workspace with questions from a file."""
    if loading["questions"] is None:
        raise UsageError("compare needs DATA, or --questions FILE beside --index.")
    documents = tuple(sorted(workspace.documents, key=lambda document: document.id))
    corpus = Corpus(workspace.folder.name, "workspace", documents, 0, (), workspace.chunking is None)
    asking = {name: loading[name] for name in ("questions", "skip_bad", "limit", "seed")}
    return datasets.ask(corpus, **asking)


def _require_questions(dataset: Dataset) -> None:
    if not dataset.queries:
        raise UsageError(
            f"The dataset {dataset.name} has no questions. Give some: --questions FILE.csv (question,answer,documents) "
            "or FILE.txt (one a line)."
        )


@contextmanager
def _opened(
    workspace: Path | str | Workspace | None, dataset: Dataset | None, settings: Mapping[str, Any]
) -> Iterator[Workspace]:
    if workspace is None and dataset is None:
        raise UsageError("compare needs DATA, or --index with documents and --questions FILE.")
    folder = _folder(workspace, dataset)
    if dataset is not None:
        require_apart(folder, dataset.source, dataset.corpus)
    if isinstance(workspace, Workspace):
        yield workspace
        return
    with Workspace.open(
        folder, chunking="default" if dataset is None else dataset.corpus.chunking, **settings
    ) as opened:
        yield opened


def _folder(workspace: Path | str | Workspace | None, dataset: Dataset | None) -> Path:
    if isinstance(workspace, Workspace):
        return workspace.folder
    return Path(workspace) if workspace is not None else default_workspace(dataset.name if dataset else "")


# ---------------------------------------------------------------- one method


@dataclass(frozen=True, slots=True)
class Asking:
    """How questions are asked: for how many documents, whether a failure ends everything, who reads what is found.

    With `fresh`, all are asked again. `read_back` is what was not asked, by label; `asked` the files of this run.
    """

    ks: tuple[int, ...]
    strict: bool
    reader: Reader | None = None
    fresh: bool = False
    read_back: dict[str, ReadBack] = field(default_factory=dict)
    asked: set[Path] = field(default_factory=set)

    def begun(self, kept: Path, label: str, queries: Sequence[Query]) -> bool:
        """Whether the file is to be asked for again; notes what is read from it. Equal methods have one file."""
        again = self.fresh and kept not in self.asked
        held = None if again else read_back(kept, queries)
        if held is not None and kept not in self.asked:
            self.read_back[label] = held
        self.asked.add(kept)
        return again


def _measured(
    workspace: Workspace, method: Method, dataset: Dataset, asking: Asking, left_out: list[str]
) -> tuple[MethodResult, Timing] | None:
    """The figures of one method, but for its latency, and how to take that.

    None where nobody asked for the method, and it is left out: an extra is missing, or somebody's plugin is broken.
    """
    try:
        with ledger.attribute_calls(method=method.label), ledger.record_calls() as paid:
            workspace.sync([method.scheme])
            measured, timing = _asked(workspace, method, dataset, asking)
        timing.tallies.append(paid)
        return measured, timing
    except (MissingExtraError, ContractError) as error:
        _leave_out(method, error, left_out)
    except MISTAKES as error:
        if code_fingerprint.of(type(method.scheme)) is None or isinstance(error, OSError):
            raise
        _leave_out(method, broken(method.label, error), left_out)
    finally:
        workspace.close()  # each method has the whole memory budget
    return None


def _leave_out(method: Method, reason: RagindexError, left_out: list[str]) -> None:
    """One that nobody asked for by name is left out, and why is said. Raises the reason for one that was asked for."""
    if method.asked_for:
        raise reason
    left_out.append(f"{method.label}: {reason}")


def _asked(workspace: Workspace, method: Method, dataset: Dataset, asking: Asking) -> tuple[MethodResult, Timing]:
    scheme, queries, ks = method.scheme, dataset.queries, asking.ks
    retriever = OpenedLater(scheme, workspace)
    fingerprint = canonical.digest([workspace.result_fingerprint(scheme), questions_fingerprint(queries)])
    folder = workspace.folder / "runs" / fingerprint
    traced = traced_where_on(retriever, method.label)  # what is timed is without it
    answers = _answers(traced, method, dataset, asking, folder)
    failed = {answer.query_id for answer in answers[ks[-1]] if answer.error is not None}
    kept = folder / latency.file_name(ks[-1])
    timing = Timing(method.label, OpenedLater(scheme, workspace), kept, failed, retriever.searches())
    per_query = scores(answers, dataset.gold, ks)
    if asking.reader is not None:
        per_query = read_answers.with_scores(per_query, answers[ks[-1]], dataset.gold)
    described = registry.describe(scheme)
    measured = MethodResult(
        described["name"],
        method.label,
        described["params"],
        fingerprint if asking.reader is None else canonical.digest([fingerprint, asking.reader.id]),
        answers,
        per_query,
        retrieval.means(list(per_query.values())),
        NOT_TIMED,
        _parts(workspace, scheme),
    )
    return measured, timing


def _fails(result: MethodResult) -> bool:
    """Whether a method failed on every question that counts, at some k: its figures say nothing of what it finds."""
    every = result.per_query.keys()
    asked = [[one for one in answers if not every or one.query_id in every] for answers in result.answers.values()]
    return any(all(failure(one) is not None for one in answers) for answers in asked)


def _failed(measured: Sequence[tuple[MethodResult, Timing]]) -> list[MethodResult]:
    """The methods that failed on every question, without metrics. Raises QuestionError where these are all."""
    failed = [
        replace(result, per_query={}, metrics={}, spent=timing.spent, stages=timing.stages)
        for result, timing in measured
        if _fails(result)
    ]
    if failed and len(failed) == len(measured):
        raise QuestionError(f"No method answered any question. {said_of_failed(failed)}")
    return failed


def _timed(
    workspace: Workspace, found: Sequence[tuple[MethodResult, Timing]], dataset: Dataset, k: int
) -> list[MethodResult]:
    """The results with their latency, and all that was paid."""
    latency.measure([timing for _, timing in found], latency.sample(dataset.queries, workspace.seed), k)
    return [
        replace(result, latency=timing.latency, spent=timing.spent, stages=timing.stages) for result, timing in found
    ]


def _answers(
    retriever: Retriever, method: Method, dataset: Dataset, asking: Asking, folder: Path
) -> dict[int, tuple[Answer, ...]]:
    """By k: at the largest alone, unless the method reads k. What is found at the largest is read."""
    largest, found, queries = asking.ks[-1], {}, dataset.queries
    known = {document.id for document in dataset.corpus.documents}
    for k in asking.ks if method.scheme.depends_on_k(largest) else (largest,):
        reads = asking.reader if k == largest else None
        kept = folder / (f"answers-{k}.jsonl" if reads is None else f"answers-{k}-{reads.id}.jsonl")
        again = asking.begun(kept, method.label, queries)
        if again:
            (folder / latency.file_name(k)).unlink(missing_ok=True)
        found[k] = answer_all(
            retriever,
            queries,
            k,
            kept,
            method.label,
            strict=asking.strict,
            size=1 if tasks_of(method.scheme) else BATCH,
            reader=None if reads is None else reads.read,
            known=known,
            fresh=again,
        )
    return found


def questions_fingerprint(queries: Sequence[Query]) -> str:
    """A hash of the questions, in order, with their ids and filters."""
    return canonical.digest([[query.id, query.text, repr(query.filter)] for query in queries])


def _parts(workspace: Workspace, scheme: Scheme) -> Mapping[str, PartFigures]:
    """The figures of all parts by name (by their full description where two share one), and of the encoder's fit."""
    parts = workspace.all_parts(scheme)
    figures = [workspace.figures(part) for part in parts]
    names = [one.name for one in figures]
    labels = [registry.label(part) if names.count(name) > 1 else name for part, name in zip(parts, names, strict=True)]
    fit = workspace.fit_figures() if any("encoder" in part.uses for part in parts) else None
    return dict(zip(labels, figures, strict=True)) | ({fit.name: fit} if fit else {})
