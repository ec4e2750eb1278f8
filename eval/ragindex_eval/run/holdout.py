"""A sealed holdout: questions that nobody has chosen by, asked once to confirm a choice, with each use written down.

The ledger is a file of JSON lines in the folder of the index. A use is written before the first question is asked, so
a crash cannot hide it. The ledger holds hashes of questions, so a file with one question more is no new holdout.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from ragindex import durable_files
from ragindex.canonical import digest
from ragindex.errors import StoreError, UsageError
from ragindex.interfaces import Scheme
from ragindex_eval.data import datasets
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.format import many
from ragindex_eval.metrics.score import list_judged
from ragindex_eval.results.holdout_result import HoldoutResult
from ragindex_eval.run.ask_scored import compare_scores
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.fingerprints import answers_fingerprint

LEDGER = "holdout-uses.jsonl"
"""The ledger's name in the folder of an index."""


@dataclass(frozen=True, slots=True)
class HoldoutUse:
    """A use: when, by which command, of which file, for which methods and metric, and the hashes of its questions.

    Two uses with equal `asked` ask the same questions of the same methods over the same index: a repetition.
    """

    when: str
    command: str
    file: str
    chosen: str
    rival: str
    metric: str
    asked: str
    questions: tuple[str, ...]
    reused: bool

    def describe(self) -> str:
        """Return what was asked, and when."""
        return f"{self.when} by {self.command}: {self.metric} of {self.chosen} against {self.rival} ({self.file})"


def load_holdout(experiment: Experiment, file: Path | None) -> Experiment | None:
    """Return the experiment with the judged questions of the file; None without one.

    Raises UsageError if a choice by the experiment's own questions cannot be confirmed by these.
    """
    return None if file is None else replace(experiment, dataset=_read_sealed(experiment.dataset, file))


def require_usable(data: Dataset, file: Path | None, ledger: Path, methods: Collection[str], *, reuse: bool) -> None:
    """Refuse a holdout that would be refused after the choice between `methods`, before anything is built or asked.

    A use that may be a repetition of an earlier one is let through. Raises UsageError as `load_holdout` and
    `use_holdout` do.
    """
    if file is None:
        return
    sealed = _read_sealed(data, file)
    questions = {digest(_normalize(query.text)) for query in sealed.queries}
    earlier = [one for one in read_uses(ledger) if not questions.isdisjoint(one.questions)]
    repeats = any({one.chosen, one.rival} <= set(methods) and questions == set(one.questions) for one in earlier)
    if earlier and not reuse and not repeats:
        raise _refuse(earlier, questions, file.name, ledger)


def _read_sealed(chosen_by: Dataset, file: Path) -> Dataset:
    """Return the judged questions of the file over the same documents. Raises UsageError as `load_holdout` does."""
    if not list_judged(chosen_by):
        raise UsageError("--holdout confirms a choice by recall: the other questions need gold documents, too.")
    data = datasets.add_questions(chosen_by.corpus, file)
    queries = list_judged(data)
    if not queries:
        raise UsageError(f"--holdout {file} needs questions with gold documents (question,answer,documents).")
    seen = {_normalize(query.text) for query in chosen_by.queries}
    both = [query.text for query in queries if _normalize(query.text) in seen]
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
    *,
    reuse: bool,
) -> HoldoutResult:
    """Ask the chosen method and its rival the questions of the experiment, once, and write the use down before.

    Methods are pairs of label and scheme. The interval is a 95 % bootstrap of the paired difference.

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
        questions=tuple(digest(_normalize(query.text)) for query in queries),
        reused=reuse,
    )
    earlier = record_use(index.folder / LEDGER, use)
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


def record_use(ledger: Path, use: HoldoutUse) -> list[HoldoutUse]:
    """Append a use to the ledger durably, and return the earlier ones of any of its questions.

    A repetition of an earlier use is not written again. Raises UsageError, which names the first use, if there are
    earlier ones and `use.reused` is not set, and StoreError.
    """
    try:
        with FileLock(f"{ledger}.lock"):
            known = read_uses(ledger)
            place = next((place for place, one in enumerate(known) if one.asked == use.asked), len(known))
            repeats = place < len(known)
            earlier = [one for one in known[:place] if not set(one.questions).isdisjoint(use.questions)]
            if earlier and not use.reused and not repeats:
                raise _refuse(earlier, set(use.questions), use.file, ledger)
            if not repeats:
                _append(ledger, use)
            return earlier
    except OSError as error:
        raise StoreError(f"The uses of holdouts in {ledger} cannot be written: {error.strerror or error}.") from error


def _refuse(earlier: Sequence[HoldoutUse], questions: Collection[str], file: str, ledger: Path) -> UsageError:
    shared = len({id for one in earlier for id in one.questions} & set(questions))
    return UsageError(
        f"{shared:,} of {many(len(questions), 'question')} of the holdout {file} were used before, first "
        f"{earlier[0].describe()}. A second look is no confirmation. Take new questions, or add --reuse-holdout, and "
        f"the report says so. Without --holdout the same command shows the table. The uses: {ledger}"
    )


def read_uses(ledger: Path) -> list[HoldoutUse]:
    """Return the uses in a ledger, oldest first; [] if there is no file.

    A last line that a crash has cut short is no use: no question had been asked. Raises StoreError for other damage.
    """
    if not ledger.exists():
        return []
    *lines, last = ledger.read_bytes().split(b"\n")
    del last  # empty, or cut short
    uses = [_parse(line) for line in lines]
    if None in uses:
        raise StoreError(
            f"{ledger}, line {uses.index(None) + 1}, is damaged: nobody can say which questions were used."
        )
    return [one for one in uses if one is not None]


def _parse(line: bytes) -> HoldoutUse | None:
    text = durable_files.verify_line(line)
    if text is None:
        return None
    value: dict[str, Any] = json.loads(text)
    return HoldoutUse(**{**value, "questions": tuple(value["questions"])})


def _append(ledger: Path, use: HoldoutUse) -> None:
    content = ledger.read_bytes() if ledger.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    durable_files.write_file(ledger, whole + durable_files.hash_line(json.dumps(asdict(use), ensure_ascii=False)))


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split())
