"""Studies: the same methods over several corpora, with several encoders and seeds, as one result.

All seeds ask the same questions: those that the first one draws, where there is a limit. So what differs between
seeds is what is random in the methods.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ragindex.cli.console import resolve_seed
from ragindex.errors import UsageError
from ragindex.llm.answer_question import DEFAULT_TOKENS
from ragindex.llm.budget import Budget, parse_budget
from ragindex.workspace.settings import checked_seed
from ragindex_eval.data import datasets
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.metrics import answers
from ragindex_eval.results.model import Comparison, Study
from ragindex_eval.run import compare
from ragindex_eval.run.grid import require_methods, threshold, variants
from ragindex_eval.run.methods import chosen, twinned
from ragindex_eval.run.settings import CorpusSettings, Settings

DEFAULT_KS = (5, 10, 20)


def run(settings: Settings, command: str = "") -> Study:
    """Every comparison that the settings ask for, one after the other, all of one budget.

    What can be checked before any work, is: names, labels, grids, thresholds and corpora. Raises as `evaluator.compare`
    does.
    """
    _check(settings)
    corpora = settings.each_corpus()
    seeds = _seeds(settings)
    budget, found = parse_budget(settings.budget), list[Comparison]()
    for corpus in corpora:
        dataset = None if corpus is None else _dataset(corpus, settings, seeds[0])
        found += _over(dataset, corpus, settings, seeds, budget, several=len(corpora) > 1)
    names = list(dict.fromkeys(comparison.dataset.name for comparison in found))
    return Study(settings.name or ", ".join(names), tuple(found), command)


def _check(settings: Settings) -> None:
    methods, _ = chosen(settings.written_methods())
    labels = [method.label for method in twinned(variants(methods, settings.grid or []), settings.twins())]
    ks = settings.cutoffs() or DEFAULT_KS
    thresholds = [threshold(written, ks) for written in settings.fail_below or []]
    require_methods(thresholds, labels)
    for one in thresholds:
        if one.metric in answers.NAMES and not settings.read:
            raise UsageError(f"--fail-below names {one.metric}, which is measured of answers. Add --read.")
    _require_different(settings)
    for seed in (*(settings.seeds or ()), settings.seed or 0):
        checked_seed(seed)
    if settings.seeds is not None and len(set(settings.seeds)) < len(settings.seeds):
        raise UsageError(f"'seeds' must be different. Got {settings.seeds}.")


def _require_different(settings: Settings) -> None:
    """Raises UsageError where a corpus comes twice with the same questions."""
    seen: dict[object, str] = {}
    for corpus in filter(None, settings.each_corpus()):
        questions = corpus.questions or settings.questions
        asked = datasets.origin(corpus.data), questions and datasets.origin(questions)
        if asked in seen:
            raise UsageError(
                f"'corpora' must be different. Got {seen[asked]!r} and {corpus.data!r}, which are the same documents "
                "with the same questions. Leave one of them out."
            )
        seen[asked] = corpus.data


def _seeds(settings: Settings) -> list[int]:
    """Where a workspace's own documents are searched, its seed counts, as for `search`."""
    if settings.seeds is not None:
        return settings.seeds
    if settings.each_corpus() == [None] and settings.workspace is not None:
        return [resolve_seed(settings.workspace, settings.seed)]
    return [settings.seed or 0]


def _dataset(corpus: CorpusSettings, settings: Settings, seed: int) -> Dataset:
    return datasets.load(
        corpus.data,
        questions=corpus.questions or settings.questions,
        format=corpus.format or settings.format,
        skip_bad=bool(settings.skip_bad),
        limit=corpus.limit or settings.limit,
        seed=seed,
    )


def _over(
    dataset: Dataset | None,
    corpus: CorpusSettings | None,
    settings: Settings,
    seeds: Sequence[int],
    budget: Budget | None,
    *,
    several: bool,
) -> Iterator[Comparison]:
    """The comparisons over one corpus: every encoder with every seed."""
    asking = {} if dataset is not None else {"questions": settings.questions, "limit": settings.limit}
    for encoder in settings.each_encoder():
        for seed in seeds:
            yield compare.compare(
                dataset,
                settings.written_methods(),
                with_rerank=settings.twins(),
                **asking,  # type: ignore[arg-type]  # a question file and a limit
                skip_bad=bool(settings.skip_bad),
                language=(corpus and corpus.language) or settings.language,
                encoder=encoder,
                store=settings.store or "lancedb",
                ks=settings.cutoffs() or DEFAULT_KS,
                seed=seed,
                workspace=_workspace(settings.workspace, dataset, several=several),
                strict=bool(settings.strict),
                fresh=bool(settings.fresh),
                grid=settings.grid or [],
                llm=settings.llm,
                budget=budget,
                keep_calls=not settings.no_cache,
                triples=settings.triples,
                read=bool(settings.read),
                reader_tokens=settings.reader_tokens or DEFAULT_TOKENS,
                tracking=False,
            )


def _workspace(folder: Path | None, dataset: Dataset | None, *, several: bool) -> Path | None:
    """A folder inside the one asked for, where there are several corpora."""
    if folder is None or dataset is None or not several:
        return folder
    return folder / compare.folder_name(dataset.name)
