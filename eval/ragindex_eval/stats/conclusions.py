"""What a comparison says, in words that follow the figures: nothing is better inside the noise.

Direction, size and certainty of what is said are those of one statistic, the value of a `Pair`; and nothing is said
that the figures shown beside it do not say too.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from ragindex_eval.format import points_form
from ragindex_eval.metrics.retrieval import ranking
from ragindex_eval.results.model import COSTS, LATENCY, Comparison, MethodAnswer, MethodResult, describe_failed
from ragindex_eval.stats.resampling import LEVEL

DRIFT = 2.0  # equal methods were seen to differ by nearly as much on a busy machine
_HOW = "(geometric mean)"
_LOWER_IS_BETTER = (LATENCY, *COSTS)
FEW = 30  # questions; with fewer, intervals are wide and the bootstrap is itself unsure


def differ(comparison: Comparison, a: str, b: str, metric: str) -> bool:
    """Whether two methods differ significantly by a metric: one of them is `better`."""
    return better(comparison, a, b, metric) or better(comparison, b, a, metric)


def better(comparison: Comparison, a: str, b: str, metric: str) -> bool:
    """Whether `a` is significantly better than `b`: higher by a metric of quality, lower by a cost.

    The pair's value must say so at a corrected p under 0.05, and the figures that are shown must not say otherwise.
    Faster is besides only who is DRIFT times as fast, by the pair's value and by p50: methods that do not fit into
    memory together are timed one after the other, and a machine that is busy in one block and idle in the next is
    certain, question by question, of what is not so.
    """
    try:
        pair = comparison.pair(a, b, metric)
    except KeyError:
        return False
    ahead = pair.excess < 0 if metric in _LOWER_IS_BETTER else pair.excess > 0
    return ahead and pair.p_holm < LEVEL and _shown_too(comparison.method(a), comparison.method(b), metric, pair.value)


def _shown_too(a: MethodResult, b: MethodResult, metric: str, value: float) -> bool:
    """Whether the figures shown of two methods agree with `a` being better."""
    if metric == LATENCY:
        one, other = a.latency.total, b.latency.total
        if one.p50 is None or one.p95 is None or other.p50 is None or other.p95 is None:
            return False
        return max(value, one.p50 / other.p50 if other.p50 else 1.0) <= 1 / DRIFT and one.p95 <= other.p95
    if metric in COSTS:
        spent, others = getattr(a.query_usage, metric), getattr(b.query_usage, metric)
        return spent is not None and others is not None and bool(spent < others)
    return a.metrics[metric] > b.metrics[metric]


def leaders(comparison: Comparison, metric: str) -> tuple[str, ...]:
    """The method with the highest mean and those not significantly different from it, best first.

    For `latency_ms` the one with the lowest p50. Empty where nothing was measured.
    """
    ranked = _ranked(comparison, metric)
    return tuple(label for label in ranked if not better(comparison, ranked[0], label, metric))


def sentence(comparison: Comparison) -> str:
    """What a person can act on: who leads at the smallest k, by how much, and what is faster; and who failed."""
    return " ".join(filter(None, (_sentence(comparison), describe_failed(comparison.failed))))


def _sentence(comparison: Comparison) -> str:
    if not comparison.dataset.judged:
        return _without_gold(comparison)
    metric, methods = f"R@{comparison.ks[0]}", comparison.methods
    if len(methods) == 1:
        only = methods[0]
        return f"{only.label} reaches {_percent(only, metric)} at {metric}; there is nothing to compare it with."
    ahead = leaders(comparison, metric)
    if len(_ranked(comparison, metric)) < len(methods):
        return f"{metric} was not measured of every method."
    said = _alone(comparison, ahead[0], metric) if len(ahead) == 1 else _together(comparison, ahead, metric)
    return f"{said}.{_hint(comparison)}"


def overlap(one: MethodAnswer, other: MethodAnswer, k: int) -> float | None:
    """How far two answers agree: the share of their first k documents that both have (Jaccard); None if one failed."""
    if one.error is not None or other.error is not None:
        return None
    a, b = (set(ranking(hit.doc_ids for hit in answer.hits)[:k]) for answer in (one, other))
    return len(a & b) / len(a | b) if a | b else 1.0


def agreement(comparison: Comparison, k: int) -> Mapping[tuple[str, str], float]:
    """The mean overlap of every pair of methods over the questions that both answered."""
    found = {}
    for one, other in combinations(comparison.methods, 2):
        shared = [overlap(a, b, k) for a, b in zip(one.final, other.final, strict=True)]
        known = [value for value in shared if value is not None]
        if known:
            found[one.label, other.label] = sum(known) / len(known)
    return found


# ---------------------------------------------------------------- parts of the sentence


def _ranked(comparison: Comparison, metric: str) -> list[str]:
    """The labels by their means, best first; of equals, in the order of the table."""
    if metric == LATENCY:
        timed = [(method.latency.total.p50, method.label) for method in comparison.methods]
        known = [(value, label) for value, label in timed if value is not None]
        return [label for _, label in sorted(known, key=lambda pair: pair[0])]
    measured = [method for method in comparison.methods if metric in method.metrics]
    return [method.label for method in sorted(measured, key=lambda method: -method.metrics[metric])]


def _alone(comparison: Comparison, best: str, metric: str) -> str:
    """One method leads: how far, and whether a faster one is as good at a larger k."""
    second = _ranked(comparison, metric)[1]
    pair = comparison.pair(best, second, metric)
    ahead_by = _bounds(pair.value, pair.ci95)
    said = f"{best} is best at {metric} ({_percent(comparison.method(best), metric)}; {ahead_by} over {second})"
    for k in comparison.ks[1:]:
        for label in _faster(comparison, best):
            if not differ(comparison, best, label, f"R@{k}"):
                times = _times(comparison, label, best)
                return f"{said}; {label} is {times} faster {_HOW} and not significantly different at R@{k}"
    return said


def _together(comparison: Comparison, ahead: Sequence[str], metric: str) -> str:
    """Several lead: who they are, and which of them is fastest."""
    judged = comparison.dataset.judged
    asked = f"n = {judged:,}"
    percents = f"{_percent(comparison.method(ahead[0]), metric)}"
    if not any(pair.metric == metric and pair.p_holm < LEVEL for pair in comparison.pairs):
        equal = len({method.metrics[metric] for method in comparison.methods}) == 1
        lowest = _percent(comparison.method(_ranked(comparison, metric)[-1]), metric)
        told = f"all {len(ahead)} score {percents}" if equal else f"they score {lowest} to {percents}"
        said = f"No significant difference in {metric} ({asked}): {told}"
    else:
        are = "is" if len(ahead) == 2 else "are"
        others = f"{_listed(ahead[1:])} {are} not significantly different ({asked})"
        said = f"{ahead[0]} leads at {metric} ({percents}), and {others}"
    fastest = next((label for label in ahead if _fastest(comparison, label, ahead)), None)
    if fastest is None:
        return said
    slowest = max(ahead, key=lambda label: comparison.method(label).latency.total.p50 or 0.0)
    times = _times(comparison, fastest, slowest)
    return f"{said}; {fastest} is the fastest of them, {times} faster than {slowest} {_HOW}"


def _without_gold(comparison: Comparison) -> str:
    """No quality: who is fastest, and how far they agree."""
    said = "No quality was measured: the questions have no gold documents"
    ranked = _ranked(comparison, LATENCY)
    if len(ranked) > 1 and _fastest(comparison, ranked[0], ranked):
        said += f". {ranked[0]} is fastest, {_times(comparison, ranked[0], ranked[-1])} faster than {ranked[-1]} {_HOW}"
    agreed = agreement(comparison, comparison.ks[0])
    if agreed:
        (a, b), least = min(agreed.items(), key=lambda item: item[1])
        said += f". {a} and {b} agree least: {least:.0%} of their first {comparison.ks[0]} documents are the same"
    return f"{said}."


def _hint(comparison: Comparison) -> str:
    judged = comparison.dataset.judged
    if judged >= FEW:
        return ""
    return f" With {'one judged question' if judged == 1 else f'{judged} judged questions'} this is a hint, no more."


def _fastest(comparison: Comparison, label: str, of: Sequence[str]) -> bool:
    return all(better(comparison, label, other, LATENCY) for other in of if other != label)


def _faster(comparison: Comparison, than: str) -> list[str]:
    return [label for label in _ranked(comparison, LATENCY) if better(comparison, label, than, LATENCY)]


def _times(comparison: Comparison, fast: str, slow: str) -> str:
    """How many times as long the slower takes: the value that was tested."""
    ratio = comparison.pair(slow, fast, LATENCY).value
    return f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.1f} times"


def _percent(method: MethodResult, metric: str) -> str:
    return f"{100 * method.metrics[metric]:.1f}"


def _bounds(difference: float, bounds: tuple[float, float] | None) -> str:
    said = f"{100 * difference:+{points_form(difference)}}"
    return said if bounds is None else f"{said}, {100 * bounds[0]:.1f} to {100 * bounds[1]:.1f},"


def _listed(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"
