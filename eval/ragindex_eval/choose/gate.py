"""The gate of a release: is a method worse than its baseline by more than a margin? PASS, FAIL or UNDECIDED.

The 95 % interval of the paired difference in means decides (`ragindex_eval.stats.paired_tests`): PASS if its lower end
is not below -margin, FAIL if its upper end is below it. A method that finds the same hits for every question as in the
baseline passes: nothing has changed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias
from xml.etree import ElementTree

import numpy as np

from ragindex._util.text import many
from ragindex.corpus.chunking import split_passage_id
from ragindex.errors import DataError, UsageError
from ragindex_eval.conclusions.questions import FEWEST_DIFFERENCES
from ragindex_eval.format import percent, points, shown
from ragindex_eval.metrics.retrieval import equivalents, gold_ranks, judgements
from ragindex_eval.results.files import load_results
from ragindex_eval.results.model import UNKNOWN, Comparison, MethodResult
from ragindex_eval.stats.intervals import Interval, SampleArray
from ragindex_eval.stats.paired_tests import count_questions, paired_interval

GateVerdict = Literal["PASS", "FAIL", "UNDECIDED"]
_SHOWN_LOST, _LONGEST_QUESTION = 10, 80


QuestionKey: TypeAlias = tuple[str, tuple[str, ...]]
"""The text of a question, and its gold documents."""


@dataclass(frozen=True, slots=True)
class LostQuestion:
    """Question with a lower value of the metric than in the baseline, and the ranks of the first hits on its gold."""

    question: str
    gold: tuple[str, ...]
    new_value: float
    baseline_value: float
    new_ranks: Mapping[str, int]
    baseline_ranks: Mapping[str, int]

    def describe(self) -> str:
        """Return the question with both values, and where the gold was found."""
        return (
            f"{shown(self.question, _LONGEST_QUESTION)!r}: {percent(self.new_value)}, before "
            f"{percent(self.baseline_value)}; {_describe_ranks(self.new_ranks, self.gold)}, before "
            f"{_describe_ranks(self.baseline_ranks, self.gold)}"
        )


def _describe_ranks(ranks: Mapping[str, int], gold: Sequence[str]) -> str:
    if not ranks:
        return "gold not found"
    missing = len(gold) - len(ranks)
    return f"gold at rank {', '.join(map(str, sorted(ranks.values())))}{f', {missing} not found' if missing else ''}"


@dataclass(frozen=True, slots=True)
class Gate:
    """GateVerdict on `new` beside `baseline`: their means of the metric over the same questions, and the difference.

    `same_hits` says that a method finds what it found in the baseline for every question. `lost` are the questions
    with a lower value than in the baseline, the largest loss first; `won` counts those with a higher one. `needed` says
    how many questions in all would settle an undecided gate with 80 % power, if the differences stay; None if it is
    decided, and if no number would.
    """

    verdict: GateVerdict
    new: str
    baseline: str
    metric: str
    margin: float
    questions: int
    new_score: float
    baseline_score: float
    difference: Interval
    same_hits: bool
    encoder: str
    baseline_encoder: str
    lost: tuple[LostQuestion, ...]
    won: int
    needed: int | None

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON of `--json`."""
        return asdict(self)

    def describe(self) -> str:
        """Return the verdict in one sentence."""
        low, high = self.difference
        encoders = self._describe_encoders()
        if self.same_hits:
            return (
                f"{self.verdict}: {self.metric} of {self.new} is {percent(self.new_score)}, from the same hits as in "
                f"the baseline for each of {many(self.questions, 'question')}.{encoders}"
            )
        return (
            f"{self.verdict}: {self.metric} of {self.new} is {percent(self.new_score)}, of {self.baseline} "
            f"{percent(self.baseline_score)}; difference {points(low)} to {points(high)} points (95 %, "
            f"{many(self.questions, 'question')}), margin {percent(self.margin)}.{encoders}"
        )

    def _describe_encoders(self) -> str:
        """Return the encoders as a sentence, as far as they are known; of rankings in files they are not."""
        if self.encoder == self.baseline_encoder:
            return "" if self.encoder == UNKNOWN else f" Encoder {self.encoder}."
        if self.encoder == UNKNOWN:
            return f" Encoder of the baseline: {self.baseline_encoder}."
        other = "" if self.baseline_encoder == UNKNOWN else f", of the baseline {self.baseline_encoder}"
        of_new = "" if other else f" of {self.new}:"
        return f" Encoder{of_new} {self.encoder}{other}."

    def describe_lost(self) -> list[str]:
        """Return lines on the questions that are lost, the first of them by name; [] if the method passes."""
        if self.verdict == "PASS" or not self.lost:
            return []
        lines = [f"{many(len(self.lost), 'question')} lost, {self.won} won:"]
        lines += [f"  {question.describe()}" for question in self.lost[:_SHOWN_LOST]]
        more = len(self.lost) - _SHOWN_LOST
        return [*lines, f"  … and {more} more, in --json"] if more > 0 else lines


@dataclass(frozen=True, slots=True)
class QuestionScores:
    """Values of the metric and ids of the hits that it counts, by question and gold: only equal ones are compared.

    `ranks` are the ranks of the first hits on the gold documents. `encoder` is that of the comparison, whether or not
    the method uses it.
    """

    label: str
    values: Mapping[QuestionKey, float]
    hits: Mapping[QuestionKey, tuple[str, ...]]
    encoder: str
    ranks: Mapping[QuestionKey, Mapping[str, int]] = field(default_factory=dict)

    def follow(self, renames: Mapping[str, str]) -> "QuestionScores":
        """Return the same with the ids that gold documents have now, of those that had others in an index."""
        keys = {key: (key[0], tuple(sorted(renames.get(id, id) for id in key[1]))) for key in self.values}
        return replace(
            self,
            values={keys[key]: value for key, value in self.values.items()},
            hits={keys.get(key, key): tuple(_follow_hit(id, renames) for id in ids) for key, ids in self.hits.items()},
            ranks={
                keys.get(key, key): {renames.get(id, id): rank for id, rank in ranks.items()}
                for key, ranks in self.ranks.items()
            },
        )


def _follow_hit(id: str, renames: Mapping[str, str]) -> str:
    """Return the id of a passage of a document that may have another id now."""
    split = split_passage_id(id)
    document = id if split is None else split[0]
    return renames.get(document, document) + id.removeprefix(document)


def scores_of(comparison: Comparison, method: MethodResult, metric: str) -> QuestionScores:
    """Return the values of one method by question. Raises UsageError if the metric was not measured."""
    keys = {
        query.id: (query.text, tuple(sorted(judgements(comparison.gold, query.id)))) for query in comparison.queries
    }
    values = {keys[id]: item[metric] for id, item in method.per_query.items() if metric in item}
    counted = int(metric.rpartition("@")[2]) if "@" in metric else None
    hits = {keys[answer.query_id]: tuple(hit.id for hit in answer.hits[:counted]) for answer in method.final}
    ranks = {
        keys[item.query_id]: gold_ranks(
            (hit.doc_ids for hit in item.hits), keys[item.query_id][1], equivalents(comparison.gold, item.query_id)
        )
        for item in method.final
    }
    if not values:
        known = ", ".join(method.metrics)
        raise UsageError(f"--metric must be one of those measured: {known or 'none'}. Got {metric!r}.")
    return QuestionScores(method.label, values, hits, comparison.encoder, ranks)


def saved_scores(written: str, metric: str) -> QuestionScores | None:
    """Return the values of a method of saved results, written as FOLDER or FOLDER:LABEL.

    None if there is no such folder. Raises DataError if it holds several comparisons or methods and no label is given.
    """
    folder, _, label = written.partition(":")
    if not (Path(folder) / "study.json").is_file():
        return None
    comparisons = load_results(Path(folder)).comparisons
    methods = {method.label: method for method in comparisons[0].methods}
    if len(comparisons) != 1 or ((label or len(methods) != 1) and label not in methods):
        known = ", ".join(f"{folder}:{method}" for method in methods)
        expected = "results of one comparison, with the label of a method"
        raise DataError(expected, f"{written}; there are {known}", path=folder)
    return scores_of(comparisons[0], methods[label] if label else next(iter(methods.values())), metric)


def judge_gate(new: QuestionScores, baseline: QuestionScores, metric: str, margin: float) -> Gate:
    """Return the verdict on `new`. Raises UsageError unless both answered the same questions with the same gold."""
    if new.values.keys() != baseline.values.keys():
        shared = len(new.values.keys() & baseline.values.keys())
        counts = f"{many(len(new.values), 'judged question')} and {baseline.label} {len(baseline.values)}"
        raise UsageError(
            f"{new.label} has {counts}, of which {shared} are the same. A gate needs the same questions with the same "
            "gold: measure the baseline again."
        )
    order = sorted(new.values)
    scores = np.array([[new.values[key], baseline.values[key]] for key in order])
    differences = scores[:, 0] - scores[:, 1]
    low, high = paired_interval(differences)
    new_score, baseline_score = scores.mean(axis=0).tolist()
    same_hits = (new.label, new.hits, new.values) == (baseline.label, baseline.hits, baseline.values)
    verdict: GateVerdict = "PASS" if same_hits or low >= -margin else "FAIL" if high < -margin else "UNDECIDED"
    lost = [
        LostQuestion(*key, new.values[key], baseline.values[key], new.ranks.get(key, {}), baseline.ranks.get(key, {}))
        for key in new.values
        if new.values[key] < baseline.values[key]
    ]
    return Gate(
        verdict,
        new.label,
        baseline.label,
        metric,
        margin,
        len(order),
        new_score,
        baseline_score,
        (low, high),
        same_hits,
        new.encoder,
        baseline.encoder,
        tuple(sorted(lost, key=lambda question: question.new_value - question.baseline_value)),
        sum(new.values[key] > baseline.values[key] for key in order),
        _count_needed_questions(differences, margin) if verdict == "UNDECIDED" else None,
    )


def _count_needed_questions(differences: SampleArray, margin: float) -> int | None:
    """Return how many questions would pass or fail a method with such differences; None if no number would."""
    if len(differences) < FEWEST_DIFFERENCES:
        return None
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    needed = min(count_questions(mean, spread, margin=margin), count_questions(-mean, spread, margin=-margin))
    return None if math.isinf(needed) else max(int(needed), len(differences) + 1)


def write_junit(gate: Gate, path: Path) -> None:
    """Write the verdict as a JUnit test case. Raises OSError if the file cannot be written."""
    failed = gate.verdict != "PASS"
    suite = ElementTree.Element("testsuite", name="ragindex gate", tests="1", failures=str(int(failed)))
    name = f"{gate.metric} of {gate.new} against {gate.baseline}"
    case = ElementTree.SubElement(suite, "testcase", classname="ragindex.gate", name=name)
    if failed:
        failure = ElementTree.SubElement(case, "failure", type=gate.verdict, message=gate.describe())
        failure.text = "\n".join(gate.describe_lost())
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
