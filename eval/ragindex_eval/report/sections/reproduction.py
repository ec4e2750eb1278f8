"""Report section with everything that the figures depend on, except the name and the folders of the machine."""

import json
from dataclasses import dataclass

from ragindex.llm.offline import display_name
from ragindex_eval.format import many, shown, without_folders
from ragindex_eval.results.model import UNKNOWN, Comparison

_PARAMETERS = 400  # characters


@dataclass(frozen=True, slots=True)
class Made:
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
    methods: tuple[Made, ...]


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
    read = f"at most {comparison.reader.tokens:,} tokens ({how}) of what was found, prompt {comparison.reader.prompt}"
    return {"reader": f"{display_name(comparison.reader.llm)}, from {read}"}


def _describe_method(comparison: Comparison, at: int) -> Made:
    method = comparison.methods[at]
    params = json.dumps(dict(method.params), ensure_ascii=False, sort_keys=True, default=str)
    searches = {name: f" ({figures.search})" if figures.search else "" for name, figures in method.parts.items()}
    parts = ", ".join(f"{name}{search}" for name, search in searches.items())
    return Made(
        method.label,
        method.name,
        shown(without_folders(params), _PARAMETERS),
        shown(without_folders(parts), _PARAMETERS),
        method.fingerprint,
    )
