"""Report section with warnings about failures and about weak figures."""

from collections import Counter
from collections.abc import Iterable

from ragindex_eval.conclusions.leaders import FEW
from ragindex_eval.format import many, shown, without_folders
from ragindex_eval.results.model import Comparison, MethodResult, describe_failed

_MAX_SENTENCES = 20
_MAX_REASONS = 5


def render_caveats(comparison: Comparison) -> tuple[str, ...] | None:
    """Return one sentence per warning, the most serious first; None if there are no warnings."""
    sentences = [
        *(shown(without_folders(describe_failed([method])), 500) for method in comparison.failed),
        *(
            _describe_unanswered(method, comparison.dataset.questions)
            for method in comparison.methods
            if method.failures
        ),
        *(comparison.holdout.describe() if comparison.holdout else ()),
        *_describe_gold(comparison),
        *_limit_number(f"left out: {reason}" for reason in comparison.left_out),
        *map(without_folders, comparison.notes),
        *_limit_number(comparison.details),
        *_describe_untimed(comparison),
    ]
    return tuple(sentences) or None


def _describe_unanswered(method: MethodResult, questions: int) -> str:
    failed = len(method.failures)
    many_of = f"{questions - failed:,} of {many(questions, 'question')}"
    counts = Counter(without_folders(reason) for reason in method.failures.values()).most_common()
    reasons = "; ".join(f"{shown(reason, 300)} ({many(count, 'time')})" for reason, count in counts[:_MAX_REASONS])
    more = f"; and {len(counts) - _MAX_REASONS} other reasons" if len(counts) > _MAX_REASONS else ""
    return f"{shown(method.label, 120)} answered {many_of}; the others score 0: {reasons}{more}"


def _describe_gold(comparison: Comparison) -> list[str]:
    judged, questions = comparison.dataset.judged, comparison.dataset.questions
    if not judged:
        return ["No question has gold documents: no quality was measured."]
    sentences = []
    if judged < questions:
        sentences.append(f"{judged:,} of {many(questions, 'question')} have gold documents; the means are over these.")
    if judged < FEW:
        sentences.append(
            f"{many(judged, 'judged question')}: with fewer than {FEW}, intervals are wide and themselves unsure. "
            "Ask more questions before you act."
        )
    return sentences


def _limit_number(texts: Iterable[str]) -> list[str]:
    every = [without_folders(text) for text in texts]
    more = [f"… and {len(every) - _MAX_SENTENCES:,} more of this kind"] if len(every) > _MAX_SENTENCES else []
    return [*every[:_MAX_SENTENCES], *more]


def _describe_untimed(comparison: Comparison) -> list[str]:
    labels = [shown(method.label, 120) for method in comparison.methods if method.latency.total.p50 is None]
    return [f"no latency was measured of {', '.join(labels)}"] if labels else []
