"""What building each candidate will cost, from a build on a sample, and which ones cannot meet the constraints."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ragindex.corpus import Corpus
from ragindex.estimate import estimate
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm.budget import Budget
from ragindex.plugins import registry
from ragindex_eval.format import short
from ragindex_eval.recommend.rules import RecommendRules
from ragindex_eval.recommend.values import Candidate, Costs
from ragindex_eval.run.build_costs import BuildCosts, estimate_building, is_small
from ragindex_eval.run.settings import CompareSettings

_SLACK = 2.0
"""An estimate must exceed a limit by this factor before a candidate is dropped unbuilt: small samples mislead."""


def price_candidates(
    candidates: Sequence[Candidate],
    corpus: Corpus,
    settings: CompareSettings,
    index_folder: Path | None = None,
    budget: Budget | None = None,
) -> tuple[list[Candidate], BuildCosts | None]:
    """Return the candidates with estimated costs of building them over the whole corpus, and the estimate.

    Seconds and bytes are those of `estimate_building`, within the budget, and dollars those of `ragindex estimate`.
    There is none for a small corpus without a language model: it is built as fast. Raises as `Index.build` does.
    """
    if is_small(corpus.documents) and settings.llm in (None, "offline"):
        return list(candidates), None
    schemes = {candidate.label: candidate.scheme for candidate in candidates}
    building = estimate_building(schemes, corpus.documents, corpus.chunking, settings, index_folder, budget)
    return [
        replace(candidate, costs=_price(candidate, building, corpus, settings)) for candidate in candidates
    ], building


def _price(candidate: Candidate, building: BuildCosts, corpus: Corpus, settings: CompareSettings) -> Costs:
    parts = building.of(candidate.label)
    return Costs(
        index_seconds=sum(part.seconds for part in parts),
        index_bytes=sum(part.bytes for part in parts),
        index_dollars=_estimate_dollars(candidate, corpus, settings),
        estimated=not all(part.built for part in parts),
    )


def _estimate_dollars(candidate: Candidate, corpus: Corpus, settings: CompareSettings) -> float | None:
    """Return the dollars that building asks of the language model; None if they are unknown."""
    if settings.llm in (None, "offline"):
        return 0.0
    model = registry.llm(settings.llm)
    found = estimate(corpus, [candidate.scheme], model, LLMSettings(), language=settings.language)
    return None if any(each.money is None for each in found) else sum(each.money or 0.0 for each in found)


def broken_constraint(costs: Costs, rules: RecommendRules) -> str | None:
    """Return which constraint the costs break, and by how much; None if they break none for certain.

    Estimated costs must exceed a limit twice over, dollars excepted, which are counted.
    """
    slack = _SLACK if costs.estimated else 1.0
    minutes = None if costs.index_seconds is None else costs.index_seconds / 60
    megabytes = None if costs.index_bytes is None else costs.index_bytes / 1e6
    checks = (
        ("--max-index-minutes", minutes, rules.max_index_minutes, slack, "minutes to index"),
        ("--max-mb", megabytes, rules.max_mb, slack, "MB"),
        ("--max-index-dollars", costs.index_dollars, rules.max_index_dollars, 1.0, "dollars to index"),
        (
            "--max-dollars-per-1000",
            costs.dollars_per_1000,
            rules.max_dollars_per_1000,
            1.0,
            "dollars per 1,000 questions",
        ),
    )
    for flag, value, limit, tolerated, unit in checks:
        if limit is not None and value is not None and value > tolerated * limit:
            about = "about " if costs.estimated else ""
            return f"{flag} {limit:g}: {about}{short(value)} {unit}"
    return None
