"""A sealed holdout: questions that nobody has chosen by, asked once to confirm a choice, with each use written down."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ragindex._util.canonical import digest
from ragindex.errors import UsageError
from ragindex.interfaces import Scheme
from ragindex_eval.data import datasets
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.format import many
from ragindex_eval.metrics.score import list_judged
from ragindex_eval.results.holdout_result import HoldoutResult
from ragindex_eval.run.ask_scored import compare_scores
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.fingerprints import answers_fingerprint
from ragindex_eval.run.question_uses import HoldoutUse, Ledger, find_ledger, hash_question, record_use, refuse_use


def load_holdout(experiment: Experiment, file: Path | None) -> Experiment | None:
    """Return the experiment with the judged questions of the file; None without one.

    Raises UsageError if a choice by the experiment's own questions cannot be confirmed by these.
    """
    return None if file is None else replace(experiment, dataset=_read_sealed(experiment.dataset, file))


def require_usable(data: Dataset, file: Path | None, index: Path, methods: Collection[str], *, reuse: bool) -> None:
    """Refuse a holdout that would be refused after the choice between `methods`, before anything is built or asked.

    `index` is the folder of the index, which need not exist. A use that may be a repetition of an earlier one is let
    through. Raises UsageError as `load_holdout` and `use_holdout` do.
    """
    if file is None:
        return
    sealed, ledger = _read_sealed(data, file), find_ledger(file, data, index)
    questions = {hash_question(query.text) for query in sealed.queries}
    earlier = [use for use in ledger.uses() if not questions.isdisjoint(use.questions)]
    repeats = any({one.chosen, one.rival} <= set(methods) and questions == set(one.questions) for one in earlier)
    if earlier and not reuse and not repeats:
        raise refuse_use(earlier, questions, file.name, ledger)


def _read_sealed(chosen_by: Dataset, file: Path) -> Dataset:
    """Return the judged questions of the file over the same documents. Raises UsageError as `load_holdout` does."""
    if not list_judged(chosen_by):
        raise UsageError("--holdout confirms a choice by recall: the other questions need gold documents, too.")
    data = datasets.add_questions(chosen_by.corpus, file)
    queries = list_judged(data)
    if not queries:
        raise UsageError(f"--holdout {file} needs questions with gold documents (question,answer,documents).")
    seen = {hash_question(query.text) for query in chosen_by.queries}
    both = [query.text for query in queries if hash_question(query.text) in seen]
    if both:
        raise UsageError(
            f"--holdout {file} and the other questions share {many(len(both), 'question')}, such as {both[0][:80]!r}. "
            "A choice is not confirmed by the questions that it was made by: leave them out of one file."
        )
    return replace(data, queries=queries)


def use_holdout(
    experiment: Experiment,
    chosen: tuple[str, Scheme],
    rival: tuple[str, Scheme],
    metric: str,
    command: str,
    ledger: Ledger,
    *,
    reuse: bool,
) -> HoldoutResult:
    """Ask the chosen method and its rival the questions of the experiment, once, and write the use down before.

    Methods are pairs of label and scheme. The interval is that of the paired difference, at 95 %.

    Raises UsageError if a question was used before for anything else, unless `reuse` is set, and StoreError if the
    ledger cannot be read or written.
    """
    index, queries, gold = experiment.index, experiment.dataset.queries, experiment.dataset.gold
    use = HoldoutUse(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        file=experiment.dataset.questions_file,
        chosen=chosen[0],
        rival=rival[0],
        metric=metric,
        asked=digest([metric, *(answers_fingerprint(index, scheme, queries, gold) for _, scheme in (chosen, rival))]),
        questions=tuple(hash_question(query.text) for query in queries),
        reused=reuse,
    )
    earlier = record_use(ledger, use)
    score, rival_score, difference = compare_scores(experiment, chosen, rival, queries, metric)
    return HoldoutResult(
        file=use.file,
        questions=len(queries),
        metric=metric,
        chosen=use.chosen,
        rival=use.rival,
        score=score,
        rival_score=rival_score,
        difference=difference,
        used=use.when,
        earlier=tuple(one.describe() for one in earlier),
    )
