"""A sealed holdout: questions that nobody has chosen by, asked once to confirm a choice, with each use written down.

The ledger of uses, which also has the questions of races, is a file of JSON lines beside the questions, because they
stay used whatever index is asked. A use is written before the first question is asked, so a crash cannot hide it. It
holds hashes of single questions, so a file with one question more is no new file.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock

from ragindex._util import durable_files
from ragindex._util.canonical import digest
from ragindex.errors import StoreError, UsageError
from ragindex.interfaces import Scheme
from ragindex_eval.data import datasets
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.format import many
from ragindex_eval.metrics.retrieval import list_judged
from ragindex_eval.results.model import MethodResult
from ragindex_eval.results.records import HoldoutResult
from ragindex_eval.run.answers_file import answers_fingerprint
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.scores import compare_scores

LEDGER = "holdout-uses.jsonl"
"""The name of a ledger."""


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


@dataclass(frozen=True, slots=True)
class RacedQuestions:
    """Questions of a file that methods were raced on from then on: their hashes, in the order of the race."""

    when: str
    file: str
    raced: tuple[str, ...]


_Entry: TypeAlias = HoldoutUse | RacedQuestions


@dataclass(frozen=True, slots=True)
class Ledger:
    """The file that uses are written to, and others in which uses of the same questions may stand."""

    path: Path
    others: tuple[Path, ...] = ()

    def uses(self) -> list[HoldoutUse]:
        """Return the confirmations, oldest first. Raises StoreError if a file is damaged."""
        return [entry for entry in self.entries() if isinstance(entry, HoldoutUse)]

    def raced(self) -> list[str]:
        """Return the hashes of the questions that were raced on, in their order. Raises StoreError as `uses` does."""
        races = (entry.raced for entry in self.entries() if isinstance(entry, RacedQuestions))
        return list(dict.fromkeys(hash for raced in races for hash in raced))

    def entries(self) -> list[_Entry]:
        """Return all entries, those of `path` first. Raises StoreError as `uses` does."""
        return [entry for path in dict.fromkeys((self.path, *self.others)) for entry in _read(path)]


def find_ledger(file: Path | None, dataset: Dataset, index: Path) -> Ledger:
    """Return the ledger of the questions in a file, or of those that come with the dataset.

    It lies beside the file, or beside the dataset. Among the documents of a folder it would be read as one, so it lies
    beside that folder then. For questions in no file (world:1k), or where nothing can be written, it lies beside the
    folder of the index.
    """
    beside_index = index.absolute().parent / LEDGER
    source = Path(dataset.source) if dataset.source else None
    place = file or source
    if place is None or not place.exists():
        return Ledger(beside_index)
    folder = place.resolve().parent
    if source is not None and source.is_dir() and folder.is_relative_to(source.resolve()):
        folder = source.resolve().parent
    beside = folder / LEDGER
    writable = os.access(folder, os.W_OK) and (not beside.exists() or os.access(beside, os.W_OK))
    return Ledger(beside, (beside_index,)) if writable else Ledger(beside_index, (beside,))


def hash_question(text: str) -> str:
    """Return the hash of a question, whatever its case and white space."""
    return digest(" ".join(text.casefold().split()))


def record_use(ledger: Ledger, use: HoldoutUse, *, counts: bool = False) -> list[HoldoutUse]:
    """Append a use to the ledger durably, and return the earlier ones of any of its questions.

    A repetition of an earlier use is not written again. Raises UsageError, which names the first use, if there are
    earlier ones and neither `use.reused` is set nor `counts`, for a caller that counts them; and StoreError.
    """

    with _locked_entries(ledger) as known:
        uses = [entry for entry in known if isinstance(entry, HoldoutUse)]
        place = next((place for place, entry in enumerate(uses) if entry.asked == use.asked), len(uses))
        repeats = place < len(uses)
        earlier = [entry for entry in uses[:place] if not set(entry.questions).isdisjoint(use.questions)]
        if earlier and not (use.reused or counts or repeats):
            raise refuse_use(earlier, set(use.questions), use.file, ledger)
        if not repeats:
            _append(ledger.path, use)
        return earlier


def record_race(ledger: Ledger, race: RacedQuestions) -> None:
    """Append those questions of a race to the ledger that are not in it. Raises StoreError."""

    with _locked_entries(ledger) as known:
        before = {hash for entry in known if isinstance(entry, RacedQuestions) for hash in entry.raced}
        new = tuple(hash for hash in race.raced if hash not in before)
        if new:
            _append(ledger.path, replace(race, raced=new))


def refuse_use(earlier: Sequence[HoldoutUse], questions: Collection[str], file: str, ledger: Ledger) -> UsageError:
    """Return the error of a holdout that was used before."""
    shared = len({id for use in earlier for id in use.questions} & set(questions))
    return UsageError(
        f"{shared:,} of {many(len(questions), 'question')} of the holdout {file} were used before, first "
        f"{earlier[0].describe()}. A second look is no confirmation. Take new questions, or add --reuse-holdout, and "
        f"the report says so. Without --holdout the same command shows the table. The uses: {ledger.path}"
    )


@contextmanager
def _locked_entries(ledger: Ledger) -> Iterator[list[_Entry]]:
    """Lock a ledger and yield its entries. Raises StoreError if it cannot be written."""
    try:
        ledger.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(ledger.path.with_name(f".{ledger.path.name}.lock")):
            yield ledger.entries()
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(f"The uses of questions in {ledger.path} cannot be written: {reason}.") from error


def _read(path: Path) -> list[_Entry]:
    """Return the entries of a file; [] if there is none.

    A last line that a crash has cut short is no use: no question had been asked. Raises StoreError for other damage.
    """
    if not path.exists():
        return []
    *lines, last = path.read_bytes().split(b"\n")
    del last  # empty, or cut short
    entries = [_parse(line) for line in lines]
    if None in entries:
        raise StoreError(
            f"{path}, line {entries.index(None) + 1}, is damaged: nobody can say which questions were used."
        )
    return [entry for entry in entries if entry is not None]


def _parse(line: bytes) -> _Entry | None:
    text = durable_files.verify_line(line)
    if text is None:
        return None
    value: dict[str, Any] = json.loads(text)
    if "raced" in value:
        return RacedQuestions(**{**value, "raced": tuple(value["raced"])})
    return HoldoutUse(**{**value, "questions": tuple(value["questions"])})


def _append(path: Path, entry: _Entry) -> None:
    content = path.read_bytes() if path.exists() else b""
    complete_lines = content[: content.rfind(b"\n") + 1]
    line = durable_files.hash_line(json.dumps(asdict(entry), ensure_ascii=False))
    durable_files.write_file(path, complete_lines + line)


# ---------------------------------------------------------------- confirming a choice


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
    repeats = any({use.chosen, use.rival} <= set(methods) and questions == set(use.questions) for use in earlier)
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
        earlier=tuple(before.describe() for before in earlier),
    )


def confirm_best(
    results: Sequence[MethodResult],
    schemes: Mapping[str, Scheme],
    sealed: Experiment | None,
    experiment: Experiment,
    file: Path | None,
    *,
    reuse: bool,
) -> HoldoutResult | None:
    """Confirm the best method against the next by the first metric on the holdout, if there are two, else None."""
    if sealed is None or len(results) < 2:
        return None
    best, rival = ((result.label, schemes[result.label]) for result in results[:2])
    uses = find_ledger(file, experiment.dataset, experiment.index.folder)
    return use_holdout(sealed, best, rival, f"R@{experiment.ks[0]}", "compare", uses, reuse=reuse)
