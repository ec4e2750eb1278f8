"""Conclusions of a comparison in sentences: a method is called better only if the difference is significant.

Direction, size and significance all come from one statistic, the value of a `MethodPair`. A sentence never contradicts
the figures that are shown beside it.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from ragindex_eval.format import points_form
from ragindex_eval.metrics.retrieval import ranking
from ragindex_eval.results.model import COSTS, LATENCY, Comparison, MethodAnswer, MethodResult, describe_failed
from ragindex_eval.stats.resampling import LEVEL

DRIFT = 2.0  # on a busy machine, equal methods were observed to differ by nearly this factor
_HOW = "(geometric mean)"
_LOWER_IS_BETTER = (LATENCY, *COSTS)
FEW = 30  # questions; with fewer, intervals are wide and the bootstrap itself is unreliable


def differ(comparison: Comparison, a: str, b: str, metric: str) -> bool:
    """Return whether one of two methods is significantly better than the other by a metric (see `better`)."""
    return better(comparison, a, b, metric) or better(comparison, b, a, metric)


def better(comparison: Comparison, a: str, b: str, metric: str) -> bool:
    """Return whether `a` is significantly better than `b`: higher in a quality metric, or lower in a cost.

    The pair's value must be significant (Holm-corrected p under 0.05), and the figures shown must agree with it. For
    latency, `a` must also be at least DRIFT times as fast, both by the pair's value and by p50: methods that do not fit
    into memory together are timed one after the other, and if the load of the machine changes in between, every single
    question shows a difference that is not there. Returns False if the metric was not measured for both methods.
    """
    try:
        pair = comparison.pair(a, b, metric)
    except KeyError:
        return False
    ahead = pair.excess < 0 if metric in _LOWER_IS_BETTER else pair.excess > 0
    return (
        ahead
        and pair.p_adjusted < LEVEL
        and _figures_agree(comparison.method(a), comparison.method(b), metric, pair.value)
    )


def _figures_agree(a: MethodResult, b: MethodResult, metric: str, value: float) -> bool:
    """Return whether the figures shown for two methods agree that `a` is better."""
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
    """Return the method with the highest mean and those not significantly worse, best first.

    For `latency_ms`, the first is the method with the lowest p50. Returns () if the metric was not measured.
    """
    ranked = _rank_methods(comparison, metric)
    return tuple(label for label in ranked if not better(comparison, ranked[0], label, metric))


def sentence(comparison: Comparison) -> str:
    """Return the main conclusion: which methods lead at the smallest k, by how much, what is faster, what failed."""
    return " ".join(filter(None, (_main_sentence(comparison), describe_failed(comparison.failed))))


def _main_sentence(comparison: Comparison) -> str:
    if not comparison.dataset.judged:
        return _describe_without_gold(comparison)
    metric, methods = f"R@{comparison.ks[0]}", comparison.methods
    if len(methods) == 1:
        only = methods[0]
        return f"{only.label} reaches {_format_percent(only, metric)} at {metric}; there is nothing to compare it with."
    ahead = leaders(comparison, metric)
    if len(_rank_methods(comparison, metric)) < len(methods):
        return f"{metric} was not measured of every method."
    said = (
        _describe_leader(comparison, ahead[0], metric)
        if len(ahead) == 1
        else _describe_leaders(comparison, ahead, metric)
    )
    return f"{said}.{_few_questions_note(comparison)}"


def overlap(one: MethodAnswer, other: MethodAnswer, k: int) -> float | None:
    """Return the Jaccard overlap of the first k documents of two answers; None if one of them failed."""
    if one.error is not None or other.error is not None:
        return None
    a, b = (set(ranking(hit.doc_ids for hit in answer.hits)[:k]) for answer in (one, other))
    return len(a & b) / len(a | b) if a | b else 1.0


def agreement(comparison: Comparison, k: int) -> Mapping[tuple[str, str], float]:
    """Return the mean overlap of every pair of methods over the questions that both answered."""
    found = {}
    for one, other in combinations(comparison.methods, 2):
        shared = [overlap(a, b, k) for a, b in zip(one.final, other.final, strict=True)]
        known = [value for value in shared if value is not None]
        if known:
            found[one.label, other.label] = sum(known) / len(known)
    return found


# ---------------------------------------------------------------- parts of the sentence


def _rank_methods(comparison: Comparison, metric: str) -> list[str]:
    """Sort the labels by mean, or by p50 for latency, best first; ties keep the order of the table."""
    if metric == LATENCY:
        timed = [(method.latency.total.p50, method.label) for method in comparison.methods]
        known = [(value, label) for value, label in timed if value is not None]
        return [label for _, label in sorted(known, key=lambda pair: pair[0])]
    measured = [method for method in comparison.methods if metric in method.metrics]
    return [method.label for method in sorted(measured, key=lambda method: -method.metrics[metric])]


def _describe_leader(comparison: Comparison, best: str, metric: str) -> str:
    """Describe a single leader: its margin, and whether a faster method is as good at a larger k."""
    second = _rank_methods(comparison, metric)[1]
    pair = comparison.pair(best, second, metric)
    ahead_by = _format_difference(pair.value, pair.ci95)
    said = f"{best} is best at {metric} ({_format_percent(comparison.method(best), metric)}; {ahead_by} over {second})"
    for k in comparison.ks[1:]:
        for label in _find_faster(comparison, best):
            if not differ(comparison, best, label, f"R@{k}"):
                times = _times(comparison, label, best)
                return f"{said}; {label} is {times} faster {_HOW} and not significantly different at R@{k}"
    return said


def _describe_leaders(comparison: Comparison, ahead: Sequence[str], metric: str) -> str:
    """Describe several leaders: their labels, and which of them is fastest."""
    judged = comparison.dataset.judged
    asked = f"n = {judged:,}"
    percents = f"{_format_percent(comparison.method(ahead[0]), metric)}"
    if not any(pair.metric == metric and pair.p_adjusted < LEVEL for pair in comparison.pairs):
        equal = len({method.metrics[metric] for method in comparison.methods}) == 1
        lowest = _format_percent(comparison.method(_rank_methods(comparison, metric)[-1]), metric)
        told = f"all {len(ahead)} score {percents}" if equal else f"they score {lowest} to {percents}"
        said = f"No significant difference in {metric} ({asked}): {told}"
    else:
        are = "is" if len(ahead) == 2 else "are"
        others = f"{_join_labels(ahead[1:])} {are} not significantly different ({asked})"
        said = f"{ahead[0]} leads at {metric} ({percents}), and {others}"
    fastest = next((label for label in ahead if _is_fastest(comparison, label, ahead)), None)
    if fastest is None:
        return said
    slowest = max(ahead, key=lambda label: comparison.method(label).latency.total.p50 or 0.0)
    times = _times(comparison, fastest, slowest)
    return f"{said}; {fastest} is the fastest of them, {times} faster than {slowest} {_HOW}"


def _describe_without_gold(comparison: Comparison) -> str:
    """Describe a comparison without gold: which method is fastest, and which two agree least."""
    said = "No quality was measured: the questions have no gold documents"
    ranked = _rank_methods(comparison, LATENCY)
    if len(ranked) > 1 and _is_fastest(comparison, ranked[0], ranked):
        said += f". {ranked[0]} is fastest, {_times(comparison, ranked[0], ranked[-1])} faster than {ranked[-1]} {_HOW}"
    agreed = agreement(comparison, comparison.ks[0])
    if agreed:
        (a, b), least = min(agreed.items(), key=lambda item: item[1])
        said += f". {a} and {b} agree least: {least:.0%} of their first {comparison.ks[0]} documents are the same"
    return f"{said}."


def _few_questions_note(comparison: Comparison) -> str:
    judged = comparison.dataset.judged
    if judged >= FEW:
        return ""
    return f" With {'one judged question' if judged == 1 else f'{judged} judged questions'} this is a hint, no more."


def _is_fastest(comparison: Comparison, label: str, of: Sequence[str]) -> bool:
    return all(better(comparison, label, other, LATENCY) for other in of if other != label)


def _find_faster(comparison: Comparison, than: str) -> list[str]:
    return [label for label in _rank_methods(comparison, LATENCY) if better(comparison, label, than, LATENCY)]


def _times(comparison: Comparison, fast: str, slow: str) -> str:
    """Format how many times as long the slower method takes: the ratio that was tested."""
    ratio = comparison.pair(slow, fast, LATENCY).value
    return f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.1f} times"


def _format_percent(method: MethodResult, metric: str) -> str:
    return f"{100 * method.metrics[metric]:.1f}"


def _format_difference(difference: float, bounds: tuple[float, float] | None) -> str:
    said = f"{100 * difference:+{points_form(difference)}}"
    return said if bounds is None else f"{said}, {100 * bounds[0]:.1f} to {100 * bounds[1]:.1f},"


def _join_labels(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"
