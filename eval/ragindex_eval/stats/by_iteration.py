"""What methods that go by iterations had found, and spent, after each of them: from their traces and the gold.

Such a method leaves a step IF_STOPPED for every iteration. A question that stopped keeps its last ranking in the later
iterations, so that every iteration is over the same questions.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragindex.retrieval.trace import IF_STOPPED, KEPT_IDS
from ragindex.types import Step
from ragindex_eval.metrics import retrieval
from ragindex_eval.metrics.score import judgements, twins
from ragindex_eval.results.model import Comparison, MethodAnswer, MethodResult
from ragindex_eval.stats.resampling import SampleArray

TOKENS_READ, TOKENS_WRITTEN, ASKED, MS = range(4)
"""The columns of `spent`."""


@dataclass(frozen=True, slots=True)
class Course:
    """A method by iterations; `number` is its place in the comparison.

    `answers` and `rankings` are by query id: rankings the ids that it would have given after iteration 1, 2, …;
    `left_out` is the number of answered questions whose trace does not hold them all.
    """

    number: int
    method: MethodResult
    answers: Mapping[str, MethodAnswer]
    rankings: Mapping[str, tuple[tuple[str, ...], ...]]
    left_out: int

    @property
    def iterations(self) -> int:
        """The most that any question took."""
        return max(map(len, self.rankings.values()))

    def took(self, n: int) -> int:
        """How many questions took iteration `n`."""
        return sum(len(found) >= n for found in self.rankings.values())


def courses(comparison: Comparison) -> list[Course]:
    """The methods whose traces say, for at least one question, what each iteration would have given."""
    found = (_course(number, method) for number, method in enumerate(comparison.methods))
    return [one for one in found if one is not None]


def _course(number: int, method: MethodResult) -> Course | None:
    """None also where a last ranking is not what the method gave: such steps are a base's, passed on by a reranker."""
    answered = {answer.query_id: answer for answer in method.final if answer.error is None}
    rankings = {id: found for id, answer in answered.items() if (found := _rankings(answer.trace))}
    kept = {id: answered[id] for id in rankings}
    if not rankings or not all(_gave(answer, rankings[id][-1]) for id, answer in kept.items()):
        return None
    return Course(number, method, kept, rankings, len(answered) - len(kept))


def _rankings(trace: Sequence[Step]) -> tuple[tuple[str, ...], ...]:
    """One an iteration, from the first to the last; () where one is missing or there twice."""
    stopped = [step for step in trace if step.index == IF_STOPPED]
    by_iteration = {step.iteration: step.ids for step in stopped}
    wanted = range(1, max((step.iteration for step in trace), default=0) + 1)
    whole = len(stopped) == len(by_iteration) and by_iteration.keys() == set(wanted)
    return tuple(by_iteration[n] for n in wanted) if whole else ()


def _gave(answer: MethodAnswer, ranking: Sequence[str]) -> bool:
    """Whether the hits are the ranking, as far as both go; a passage of it may be gone from the index."""
    hits = [hit.id for hit in answer.hits]
    among = set(hits)
    both = [id for id in ranking if id in among]
    return both == hits[: len(both)]


# ---------------------------------------------------------------- recall


def document(passage_id: str, documents: Container[str]) -> str:
    """The document of a passage: `DOC` where it was not cut, `DOC#3` where it was (ragindex.corpus.chunking)."""
    whole, mark, number = passage_id.rpartition("#")
    was_cut = bool(mark) and number.isdecimal() and passage_id not in documents
    return whole if was_cut else passage_id


def recalls(course: Course, comparison: Comparison, ks: Sequence[int]) -> tuple[SampleArray, dict[int, int]]:
    """Recall of every judged question, (questions, iterations, ks); and by k of how many too few ids were kept for it.

    A question that was not answered scores 0, as everywhere; one that is left out has no row.
    """
    known = {id for answer in course.answers.values() for hit in answer.hits for id in hit.doc_ids}
    failed = {answer.query_id for answer in course.method.final if answer.error is not None}
    rows, short = list[SampleArray](), dict.fromkeys(ks, 0)
    for query in comparison.queries:
        gold = judgements(comparison.gold, query.id)
        if gold and query.id in failed:
            rows.append(np.zeros((course.iterations, len(ks))))
        elif gold and query.id in course.rankings:
            equal = twins(comparison.gold, query.id)
            found = [_recall(ids, gold, equal, known, ks) for ids in course.rankings[query.id]]
            values = [row for row, _ in found]
            rows.append(np.array(values + values[-1:] * (course.iterations - len(values))))
            for k in ks:
                short[k] += any(k in missing for _, missing in found)
    return np.array(rows).reshape(len(rows), course.iterations, len(ks)), short


def _recall(
    ids: Sequence[str], gold: Mapping[str, int], equal: Mapping[str, str], known: set[str], ks: Sequence[int]
) -> tuple[list[float], list[int]]:
    """Recall at each k, and the ks for which ids that were not kept might have found more."""
    documents = [document(id, known | gold.keys() | equal.keys()) for id in ids]
    found = retrieval.score_hits([(id,) for id in documents], gold, ks, equal)
    values = [found[f"R@{k}"] for k in ks]
    held, cut = len(set(documents)), len(ids) >= KEPT_IDS
    return values, [k for k, value in zip(ks, values, strict=True) if cut and held < k and value < 1.0]


# ---------------------------------------------------------------- costs


def spent(course: Course) -> SampleArray:
    """What every answered question had spent after an iteration: (questions, iterations, 4).

    Tokens in, tokens out, steps in which a language model wrote, milliseconds. What is done after the last iteration
    counts with it; the rankings IF_STOPPED are no work of the method.
    """
    found = np.zeros((len(course.answers), course.iterations, 4))
    for question, answer in enumerate(course.answers.values()):
        for step in answer.trace:
            if step.index != IF_STOPPED:
                paid = (step.input_tokens, step.output_tokens, step.output_tokens > 0, step.ms)
                found[question, max(step.iteration, 1) - 1 :] += paid
    return found
