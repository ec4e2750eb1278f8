"""What building each candidate will cost, from a build on a sample, and which ones cannot meet the constraints."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from ragindex.accounting import ledger
from ragindex.corpus import Corpus
from ragindex.estimate import estimate
from ragindex.llm.settings import LLMSettings
from ragindex.plugins import registry
from ragindex.types import Document
from ragindex.workspace.encoder import vector_cache_path
from ragindex.workspace.workspace import Workspace
from ragindex_eval.format import short
from ragindex_eval.recommend.rules import RecommendRules
from ragindex_eval.recommend.values import Candidate, Costs
from ragindex_eval.run.pipeline import part_figures
from ragindex_eval.run.settings import CompareSettings

PRICED_DOCUMENTS = 60
"""Documents of the sample that prices are measured on."""
_SMALL = 5 * PRICED_DOCUMENTS
"""Building over no more documents takes no longer than finding out what it would take."""
_SLACK = 2.0
"""An estimate must exceed a limit by this factor before a candidate is dropped unbuilt: small samples mislead."""


def price_candidates(
    candidates: Sequence[Candidate], corpus: Corpus, settings: CompareSettings, index_folder: Path | None = None
) -> tuple[list[Candidate], float]:
    """Return the candidates with estimated costs of building them over the whole corpus, and the seconds of all.

    Parts that several candidates share count once among the seconds of all. Vectors that the index in `index_folder`
    has cached are not made again; they count with what they first took.

    All are built on the same sample of documents, without a language model, and seconds and bytes are scaled by the
    length of the documents. Dollars are those of `ragindex estimate`, which asks nothing. A small corpus is not
    sampled: its costs are those of building it. Raises as `Workspace.sync` does.
    """
    if len(corpus.documents) <= _SMALL and settings.llm in (None, "offline"):
        return list(candidates), 0.0
    seed = settings.seed or 0
    documents = Random(seed).sample(corpus.documents, min(PRICED_DOCUMENTS, len(corpus.documents)))  # noqa: S311  # no secret
    factor = _count_characters(corpus.documents) / max(_count_characters(documents), 1)
    cached = None if index_folder is None else vector_cache_path(index_folder)
    priced, seconds = list[Candidate](), dict[str, float]()
    with (
        tempfile.TemporaryDirectory() as folder,
        Workspace.open(
            Path(folder),
            encoder=settings.encoder,
            language=settings.language,
            chunking=corpus.chunking,
            vectors=cached if cached and cached.exists() else None,
        ) as index,
        ledger.record_calls(),
    ):
        index.add(documents)
        for one in candidates:
            index.sync([one.scheme])
            parts = part_figures(index, one.scheme)
            seconds |= {label: factor * part.seconds for label, part in parts.items()}
            costs = Costs(
                index_seconds=factor * sum(part.seconds for part in parts.values()),
                index_bytes=factor * sum(part.bytes for part in parts.values()),
                index_dollars=_estimate_dollars(one, corpus, settings),
                estimated=True,
            )
            priced.append(replace(one, costs=costs))
    return priced, sum(seconds.values())


def _count_characters(documents: Iterable[Document]) -> int:
    return sum(len(document.text) for document in documents)


def _estimate_dollars(one: Candidate, corpus: Corpus, settings: CompareSettings) -> float | None:
    """Return the dollars that building asks of the language model; None if they are unknown."""
    if settings.llm in (None, "offline"):
        return 0.0
    model = registry.llm(settings.llm)
    found = estimate(corpus, [one.scheme], model, LLMSettings(), language=settings.language)
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
