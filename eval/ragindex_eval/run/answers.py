"""The answers of each method: it is built, asked all questions, and released before the next one.

Answers and latency are saved in the folder `runs` of the index, under a hash of the questions and of
`Index.result_fingerprint`, which covers everything else that the figures depend on. `ragindex compare`, `recommend` and
`judge` share these files, so each reuses what another has asked, and what was asked with fewer questions.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragindex._util import canonical
from ragindex.accounting import ledger
from ragindex.errors import BrokenPluginError, ContractError, MissingExtraError, RagindexError
from ragindex.index.index import Index
from ragindex.index.parts import broken_plugin
from ragindex.interfaces import Retriever, Scheme
from ragindex.mlflow_tracing import trace_if_enabled
from ragindex.plugins import code_fingerprint, registry
from ragindex.plugins.plugin_errors import is_of_plugin
from ragindex.types import PartFigures, Query
from ragindex_eval.results.model import UNKNOWN_USAGE, MethodAnswer
from ragindex_eval.run import latency
from ragindex_eval.run.answers_file import (
    EarlierAnswers,
    answer_keys,
    answers_fingerprint,
    answers_folder,
    earlier_answers,
)
from ragindex_eval.run.ask import Asking, answer_all, batching_for, without_own_documents
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.functions import FunctionMethod
from ragindex_eval.run.latency import LazyRetriever, Timing
from ragindex_eval.run.plan import LeftOutMethod, Method
from ragindex_eval.run.read_answers import AnswerReader


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a built method by k; only at the largest k, unless its first hits depend on k.

    `folder` holds its times, and `files` are the answer files. `earlier` counts the answers reused from an
    earlier run. `searches` is how its parts are searched when nothing else is in memory. `paid` is the cost of building
    and asking, which took `seconds` in this run.
    """

    label: str
    scheme: Scheme
    fingerprint: str
    folder: Path
    by_k: Mapping[int, tuple[MethodAnswer, ...]]
    parts: Mapping[str, PartFigures]
    files: frozenset[Path]
    earlier: EarlierAnswers | None
    searches: tuple[str, ...]
    paid: ledger.Tally
    seconds: float

    @property
    def final(self) -> tuple[MethodAnswer, ...]:
        """The answers at the largest k, in the order of the questions."""
        return self.by_k[max(self.by_k)]

    def timing(self, index: Index, k: int) -> Timing:
        """Return the method as it is timed at k: on the questions that it has answered."""
        return Timing(
            self.label,
            LazyRetriever(self.scheme, index),
            self.folder / latency.latency_file_name(k),
            {answer.query_id for answer in self.by_k[k] if answer.error is not None},
            self.searches,
        )


def answer_methods(experiment: Experiment, methods: Sequence[Method]) -> Iterator[Answers | LeftOutMethod]:
    """Yield the answers of each method as soon as it has answered, or why it is left out."""
    done = frozenset[Path]()
    for method in methods:
        outcome = _try_method(experiment, method, done)
        if isinstance(outcome, Answers):
            done |= outcome.files
        yield outcome


def _try_method(experiment: Experiment, method: Method, done: frozenset[Path]) -> Answers | LeftOutMethod:
    """Build and ask a method alone, so that it can use the whole memory budget; return why if it is left out.

    A method that was not named explicitly is left out if an extra is missing or its plugin is broken.
    """
    try:
        return _answer_method(experiment, method, done)
    except (MissingExtraError, BrokenPluginError, ContractError) as error:
        return _leave_out(method, error)
    except Exception as error:
        ours = code_fingerprint.of(type(method.scheme)) is None
        if ours or isinstance(error, OSError) or not is_of_plugin(error, method.scheme):
            raise
        return _leave_out(method, broken_plugin(method.label, error, method.scheme))
    finally:
        experiment.index.close()


def _leave_out(method: Method, reason: RagindexError) -> LeftOutMethod:
    """Return a method as left out. Raises `reason` if it was named explicitly."""
    if method.asked_for:
        raise reason
    return LeftOutMethod(method.label, reason)


def _answer_method(experiment: Experiment, method: Method, done: frozenset[Path]) -> Answers:
    """Build a method and ask it all questions; an equal method of this comparison has filled the files in `done`."""
    index, scheme, dataset, ks = experiment.index, method.scheme, experiment.dataset, experiment.ks
    queries, start = dataset.queries, time.perf_counter()
    with ledger.attribute_calls(method=method.label), ledger.record_calls() as paid:
        index.build(scheme)
        fingerprint = answers_fingerprint(index, scheme, queries, dataset.gold)
        keys = answer_keys(queries, dataset.gold)
        asked_at = ks if scheme.depends_on_k(ks[-1]) else ks[-1:]
        readers = {k: experiment.reader if k == ks[-1] else None for k in asked_at}
        files = {k: answers_folder(index, scheme) / answers_name(k, reader) for k, reader in readers.items()}
        renewed = experiment.fresh or isinstance(scheme, FunctionMethod)  # nothing says what a function depends on
        again = {k for k, path in files.items() if renewed and path not in done}
        earlier = [earlier_answers(path, keys) for k, path in files.items() if k not in again and path not in done]
        retriever, folder = LazyRetriever(scheme, index), index.folder / "runs" / fingerprint
        for k in again:  # latencies of earlier runs are not reused either
            (folder / latency.latency_file_name(k)).unlink(missing_ok=True)
        traced = trace_if_enabled(retriever, method.label)  # latency is measured without tracing
        answers = {
            k: ask_method(experiment, method.label, scheme, queries, k, traced, reader, fresh=k in again)
            for k, reader in readers.items()
        }
        if isinstance(scheme, FunctionMethod):
            answers = {k: tuple(replace(answer, usage=UNKNOWN_USAGE) for answer in of_k) for k, of_k in answers.items()}
    return Answers(
        method.label,
        scheme,
        fingerprint if experiment.reader is None else canonical.digest([fingerprint, experiment.reader.id]),
        folder,
        answers,
        part_figures(index, scheme),
        frozenset(files.values()),
        next((counted for counted in reversed(earlier) if counted), None),
        tuple(retriever.searches()),
        paid,
        time.perf_counter() - start,
    )


def ask_method(
    experiment: Experiment,
    label: str,
    scheme: Scheme,
    queries: Sequence[Query],
    k: int,
    retriever: Retriever | None = None,
    reader: AnswerReader | None = None,
    *,
    fresh: bool = False,
) -> tuple[MethodAnswer, ...]:
    """Ask a built method some questions at k; answers that are saved are used again, unless `fresh` is set.

    `retriever` is an open one of the method. With a `reader`, it answers the questions from the hits.
    """
    index, gold = experiment.index, experiment.dataset.gold
    return answer_all(
        without_own_documents(retriever or LazyRetriever(scheme, index), gold),
        queries,
        k,
        answers_folder(index, scheme) / answers_name(k, reader),
        Asking(
            label,
            batching_for(index, scheme),
            experiment.strict,
            None if reader is None else reader.read,
            {document.id for document in experiment.dataset.corpus.documents},
            index.positions(scheme),
        ),
        keys=answer_keys(queries, gold),
        fresh=fresh,
    )


def answers_name(k: int, reader: AnswerReader | None) -> str:
    """Return the name of the file of a method's answers at k, which a reader has read."""
    return f"answers-{k}.jsonl" if reader is None else f"answers-{k}-{reader.id}.jsonl"


def part_figures(index: Index, scheme: Scheme) -> Mapping[str, PartFigures]:
    """Return the figures of all parts by name, and of the fit of the encoder.

    Parts that share a name are listed by their labels.
    """
    parts = index.all_parts(scheme)
    figures = [index.figures(part) for part in parts]
    names = [figure.name for figure in figures]
    labels = [registry.label(part) if names.count(name) > 1 else name for part, name in zip(parts, names, strict=True)]
    fit = index.fit_figures() if any("encoder" in part.uses for part in parts) else None
    return dict(zip(labels, figures, strict=True)) | ({fit.name: fit} if fit else {})
