"""Report sections on what the figures rest on: warnings, data, settings and machine."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ragindex.llm.offline import display_name
from ragindex_eval.conclusions.leaders import FEW
from ragindex_eval.format import many, shown, without_folders
from ragindex_eval.results.model import UNKNOWN, Comparison, MethodResult, describe_failed

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


# ---------------------------------------------------------------- how to repeat it

_PARAMETERS = 400  # characters


@dataclass(frozen=True, slots=True)
class MethodRecipe:
    """Method with its parameters, parts and fingerprint."""

    label: str
    name: str
    params: str
    parts: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Names and values of all facts that the figures depend on, and the methods."""

    facts: tuple[tuple[str, str], ...]
    methods: tuple[MethodRecipe, ...]


def render_reproduction(comparison: Comparison) -> Reproduction:
    """Collect the facts of a comparison and its methods."""
    data = comparison.dataset
    judged = "" if data.judged == data.questions else f", {data.judged:,} with gold"
    timed = max((method.latency.questions for method in comparison.methods), default=0)
    facts = {
        "data": f"{data.name} ({data.format}): {data.describe_size()}",
        "questions": f"{data.questions:,}{judged}",
        "k": ", ".join(map(str, comparison.ks)),
        "encoder": comparison.encoder,
        "encoder identity": comparison.encoder_id or "none was used",
        "language model": display_name(comparison.llm),
        **_describe_reader(comparison),
        "store": comparison.store,
        "language of the texts": comparison.language,
        "seed": str(comparison.seed),
        "latency": f"at k = {comparison.ks[-1]} over {many(timed, 'question')}, one by one, after a warm-up"
        + _timing_note(comparison),
        "made with": ", ".join(f"{name} {value}" for name, value in comparison.environment.items()),
        "fingerprint of the data": data.fingerprint,
        "fingerprint of all": comparison.fingerprint,
    }
    if comparison.encoder == UNKNOWN:  # rankings come from files, which say nothing of these
        unknown = {"encoder", "encoder identity", "language model", "store", "language of the texts", "latency"}
        facts = {name: value for name, value in facts.items() if name not in unknown}
    named = tuple((name, shown(without_folders(value), _PARAMETERS)) for name, value in facts.items())
    return Reproduction(named, tuple(_describe_method(comparison, at) for at in range(len(comparison.methods))))


def _timing_note(comparison: Comparison) -> str:
    moment = next((method.latency.taken for method in comparison.methods if method.latency.taken), "")
    return f", taken {moment[:16].replace('T', ' ')} UTC" if moment else ""


def _describe_reader(comparison: Comparison) -> dict[str, str]:
    if comparison.reader is None:
        return {}
    how = "estimated" if comparison.reader.estimated else "by the model's own vocabulary"
    given = comparison.reader.describe_input("at most ", f" ({how})")
    return {"reader": f"{display_name(comparison.reader.llm)}, from {given}, prompt {comparison.reader.prompt}"}


def _describe_method(comparison: Comparison, at: int) -> MethodRecipe:
    method = comparison.methods[at]
    params = json.dumps(dict(method.params), ensure_ascii=False, sort_keys=True, default=str)
    searches = {name: f" ({figures.search})" if figures.search else "" for name, figures in method.parts.items()}
    parts = ", ".join(f"{name}{search}" for name, search in searches.items())
    return MethodRecipe(
        method.label,
        method.name,
        shown(without_folders(params), _PARAMETERS),
        shown(without_folders(parts), _PARAMETERS),
        method.fingerprint,
    )
