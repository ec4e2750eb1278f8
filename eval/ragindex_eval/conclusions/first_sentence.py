"""The conclusion of a comparison in a few sentences: who may be the best, by how much, at what cost, and how sure."""

from collections.abc import Iterator, Sequence

from ragindex.types import Usage
from ragindex_eval.conclusions.leaders import FEW, agreement, better, leaders, middle_k, rank_methods
from ragindex_eval.conclusions.questions import describe_more_questions, list_differences
from ragindex_eval.format import join_names, percent, points, short
from ragindex_eval.metrics.answers import select_shown
from ragindex_eval.results.model import LATENCY, Comparison, MethodResult, describe_failed


def state_conclusion(comparison: Comparison) -> str:
    """Return the main conclusion.

    It names the methods that cannot be excluded as the best at the smallest k, the difference with its interval, which
    of them have higher means by other metrics, what is faster, costs, how many more questions would settle it, and what
    failed. By the other metrics nothing is tested here: that would be more tests, of which more are wrong.
    """
    return " ".join([*_main_sentences(comparison), *filter(None, [describe_failed(comparison.failed)])])


def _main_sentences(comparison: Comparison) -> Iterator[str]:
    metric, methods = f"R@{comparison.ks[0]}", comparison.methods
    if not comparison.dataset.judged:
        yield _describe_without_gold(comparison)
        return
    if len(methods) == 1:
        only = methods[0]
        yield f"{only.label} reaches {percent(only.metrics[metric])} at {metric}; there is nothing to compare it with."
        return
    if len(rank_methods(comparison, metric)) < len(methods):
        yield f"{metric} was not measured of every method."
        return
    ahead = leaders(comparison, metric)
    yield f"{_describe_best(comparison, ahead, metric)}."
    yield from _describe_higher_means(comparison, ahead)
    yield from _describe_costs(comparison, ahead)
    yield from filter(None, [_describe_more_questions(comparison, ahead, metric)])
    yield from _describe_few_questions(comparison)


def list_close_leaders(comparison: Comparison) -> list[str]:
    """Return the leaders at the smallest k that may be the best by the other metrics of the table, too.

    The first is always among them, if anything was measured.
    """
    first, *rivals = leaders(comparison, f"R@{comparison.ks[0]}") or ("",)
    others = [ahead for name in _list_other_metrics(comparison) if (ahead := leaders(comparison, name))]
    return [*filter(None, [first]), *(label for label in rivals if all(label in ahead for ahead in others))]


# ---------------------------------------------------------------- quality


def _describe_best(comparison: Comparison, ahead: Sequence[str], metric: str) -> str:
    """Name the methods that cannot be excluded as the best, with the difference of the leader to the next."""
    ranked, judged = rank_methods(comparison, metric), f"n = {comparison.dataset.judged:,}"
    best, last = ranked[0], ranked[-1]
    highest, lowest = (percent(comparison.method(label).metrics[metric]) for label in (best, last))
    if len(ahead) == len(ranked):
        start = f"No method can be excluded as the best at {metric} ({judged}): "
        if len({method.metrics[metric] for method in comparison.methods}) == 1:
            return f"{start}all {len(ahead)} score {highest}"
        return f"{start}{best} scores {highest}, {last} {lowest} ({_difference(comparison, best, last, metric)})"
    over = f"{_difference(comparison, best, ranked[1], metric)}, over {ranked[1]}"
    if len(ahead) == 1:
        return f"{best} is best at {metric} ({highest}; {over})"
    others = f"{join_names(ahead[1:])} cannot be excluded as the best ({judged})"
    return f"{best} leads at {metric} ({highest}; {over}), and {others}"


def _list_other_metrics(comparison: Comparison) -> list[str]:
    """Return the metrics of the table but recall at the smallest k: nDCG at one k, recall, and those of answers."""
    of_answers = select_shown({name for method in comparison.methods for name in method.metrics})
    return [f"nDCG@{middle_k(comparison.ks)}", *(f"R@{k}" for k in comparison.ks[1:]), *of_answers]


def _describe_higher_means(comparison: Comparison, ahead: Sequence[str]) -> Iterator[str]:
    """Yield which of the leaders have the highest mean by other metrics of the table, where the first has not."""
    best, *rivals = ahead
    higher: dict[tuple[str, ...], list[str]] = {}
    for name in _list_other_metrics(comparison):
        ranked = rank_methods(comparison, name)
        if best not in ranked or ranked[0] not in rivals:
            continue
        most = comparison.method(ranked[0]).metrics[name]
        if most > comparison.method(best).metrics[name]:
            highest = tuple(label for label in ranked if comparison.method(label).metrics[name] == most)
            higher.setdefault(highest, []).append(name)
    if higher:
        clauses = (
            f"{join_names(labels)} {'have' if len(labels) > 1 else 'has'} the highest {join_names(names)}"
            for labels, names in higher.items()
        )
        yield f"{'; '.join(clauses)}."


def _describe_without_gold(comparison: Comparison) -> str:
    """Describe a comparison without gold: which method is fastest, and which two agree least."""
    sentences = "No quality was measured: the questions have no gold documents."
    ranked = rank_methods(comparison, LATENCY)
    if len(ranked) > 1 and (fastest := _describe_fastest(comparison, ranked)):
        sentences += f" {fastest}"
    agreed = agreement(comparison, comparison.ks[0])
    if agreed:
        (a, b), least = min(agreed.items(), key=lambda item: item[1])
        pair = f"{a} and {b} agree least: " if len(agreed) > 1 else f"Of {a} and {b}, "
        sentences += f" {pair}{least:.0%} of the documents of their first {comparison.ks[0]} hits are the same."
    return sentences


# ---------------------------------------------------------------- costs


def _describe_costs(comparison: Comparison, ahead: Sequence[str]) -> Iterator[str]:
    """Yield which of the close leaders is fastest, and what the first costs beside another method.

    The other one is the fastest of those, or else the next best.
    """
    close = list_close_leaders(comparison)
    if len(close) > 1 and (sentence := _describe_fastest(comparison, close)):
        yield sentence
    best, second = rank_methods(comparison, f"R@{comparison.ks[0]}")[:2]
    fastest = _find_fastest(comparison, close)
    other = fastest if fastest not in (None, best) else next((label for label in ahead if label != best), second)
    if comparison.method(best).latency.total.p50 is not None:
        costs = (f"{label} takes {_format_costs(comparison.method(label))}" for label in (best, str(other)))
        yield f"{'; '.join(costs)}."


def _find_fastest(comparison: Comparison, of: Sequence[str]) -> str | None:
    """Return the method that is significantly faster than all others; None if there is none."""
    return next(
        (label for label in of if all(better(comparison, label, other, LATENCY) for other in of if other != label)),
        None,
    )


def _describe_fastest(comparison: Comparison, of: Sequence[str]) -> str:
    """Say which of several methods is fastest, with its ratio to the slowest; "" if none is."""
    fastest = _find_fastest(comparison, of)
    if fastest is None:
        return ""
    slowest = max(of, key=lambda label: comparison.method(label).latency.total.p50 or 0.0)
    pair = comparison.pair(slowest, fastest, LATENCY)
    low, high = map(short, pair.ci95 or (pair.value, pair.value))
    among = join_names(of) if len(of) < len(comparison.methods) or len(of) == 2 else f"all {len(of)}"
    times = f"{short(pair.value)} times as fast as {slowest} ({low} to {high}, geometric mean)"
    return f"Of {among}, {fastest} is fastest: {times}."


def _format_costs(method: MethodResult) -> str:
    """Format what a question costs, and the index."""
    p50 = method.latency.total.p50
    per_question = [*([] if p50 is None else [f"{short(p50)} ms"]), *_format_usage(method.query_usage, ".5f")]
    if method.index_bytes is None:
        return join_names(per_question) if p50 is None else f"{short(p50)} ms a question, and an unknown sum"
    built = [f"{short(method.index_bytes / 1e6)} MB", *_format_usage(method.index_usage, ".4f")]
    return (
        f"{join_names(per_question)} a question, and {join_names(built)} for its index"
        if per_question
        else f"{join_names(built)} for its index"
    )


def _format_usage(usage: Usage, form: str) -> Iterator[str]:
    """Yield tokens and money, the money in the format of its column in the table."""
    tokens = usage.input_tokens + usage.output_tokens
    if tokens:
        yield f"{tokens:,.0f} tokens"
    if usage.money is None:
        yield "an unknown sum"
    elif usage.money:
        yield f"${usage.money:{form}}"


# ---------------------------------------------------------------- more questions


def _describe_more_questions(comparison: Comparison, ahead: Sequence[str], metric: str) -> str:
    best, *others = ahead
    rivals = {rival: list_differences(comparison, best, rival, metric) for rival in others}
    return describe_more_questions(best, rivals, len(comparison.methods))


def _describe_few_questions(comparison: Comparison) -> Iterator[str]:
    judged = comparison.dataset.judged
    if judged < FEW:
        yield f"With {'one judged question' if judged == 1 else f'{judged} judged questions'} this is a hint, no more."


# ---------------------------------------------------------------- figures


def _difference(comparison: Comparison, a: str, b: str, metric: str) -> str:
    """Format the difference of two methods in percentage points, with its interval, as the table of pairs has them."""
    pair = comparison.pair(a, b, metric)
    return points(pair.value) if pair.ci95 is None else f"{points(pair.value)}, {' to '.join(map(points, pair.ci95))}"
