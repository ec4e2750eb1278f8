"""Putting a comparison together: what the methods reached, what may be said of it, and what a reader should know."""

from collections.abc import Mapping, Sequence

from ragindex import canonical
from ragindex.errors import UsageError
from ragindex.plugins import registry
from ragindex.workspace.notes import said_of_parts
from ragindex.workspace.workspace import Workspace
from ragindex_eval.data import gold_classes
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.metrics import tree_coverage
from ragindex_eval.metrics.score import judgements
from ragindex_eval.results.model import Comparison, DatasetFacts, MethodResult, best_first
from ragindex_eval.run.environment import environment
from ragindex_eval.run.methods import Method
from ragindex_eval.stats.tests import pairs, with_intervals


def assembled(
    workspace: Workspace,
    dataset: Dataset,
    ks: tuple[int, ...],
    results: list[MethodResult],
    left_out: list[str],
    methods: Sequence[Method],
    failed: Sequence[MethodResult] = (),
) -> Comparison:
    """The comparison of `results`, with intervals and tests. Raises UsageError where there are none.

    `methods` may hold more than could be made; `left_out` says why. `failed` failed on every question.
    """
    asked = [method for method in methods if method.label in {result.label for result in results}]
    if not results:
        raise UsageError("No method could be made. " + " ".join(left_out))
    counts, corpus = workspace.counts(), dataset.corpus
    judged = sum(bool(judgements(dataset.gold, query.id)) for query in dataset.queries)
    order = tuple(result.label for result in results)
    identity = [dataset.fingerprint, list(ks), *(result.fingerprint for result in results)]
    results = with_intervals(best_first(results, ks), dataset.gold, workspace.seed)
    return Comparison(
        dataset=DatasetFacts(
            dataset.name,
            corpus.format,
            counts.documents,
            counts.passages,
            len(dataset.queries),
            judged,
            dataset.fingerprint,
        ),
        encoder=registry.label(workspace.encoders.plugin),
        encoder_id=workspace.encoder_id,
        llm=workspace.llm_name if any(workspace.asks(method.scheme) for method in asked) else "none",
        store=workspace.store_name,
        language=workspace.language,
        seed=workspace.seed,
        ks=ks,
        queries=dataset.queries,
        gold=dataset.gold,
        titles=_titles(dataset),
        methods=tuple(results),
        pairs=pairs(results, workspace.seed),
        notes=(
            *(*_unpriced(workspace, [*results, *failed], methods), *_notes(dataset), *_approximate(results)),
            *said_of_parts(workspace, [method.scheme for method in asked]),
        ),
        left_out=tuple(left_out),
        environment=environment(),
        fingerprint=canonical.digest(identity),
        asked=order,
        failed=tuple(failed),
        coverage=tree_coverage.measured(
            workspace,
            {method.label: method.scheme for method in asked},
            (gold.doc_ids for gold in (dataset.gold or {}).values()),
            gold_classes.same(dataset.gold),
        ),
    )


def _titles(dataset: Dataset) -> Mapping[str, str]:
    """Those of the gold documents."""
    wanted = {id for gold in (dataset.gold or {}).values() for id in gold.doc_ids}
    return {document.id: document.title for document in dataset.corpus.documents if document.id in wanted}


def _unpriced(workspace: Workspace, results: Sequence[MethodResult], methods: Sequence[Method]) -> list[str]:
    unknown = [result.label for result in results if _unknown(result)]
    if not unknown:
        return []
    reads = any(answer.reading is not None for result in results for answer in result.final)
    names = workspace.unpriced((method.scheme for method in methods if method.label in unknown), reads=reads)
    who = " and ".join(names) or "a model that was asked"
    has = "have" if len(names) > 1 else "has"
    advice = "name one in a file, and it in RAGINDEX_PRICES; what was indexed without a price stays unknown"
    return [f"{who} {has} no price, so money is not known of {', '.join(unknown)}: {advice}"]


def _unknown(result: MethodResult) -> bool:
    usages = [result.index_usage, result.query_usage, result.spent]
    return any(usage.money is None for usage in usages)


def _approximate(results: Sequence[MethodResult]) -> list[str]:
    """Which rankings are not exact, and why."""
    return [
        f"{result.label}: {name} is searched {figures.search}"
        for result in results
        for name, figures in result.parts.items()
        if figures.search.startswith("approximate")
    ]


def _notes(dataset: Dataset) -> tuple[str, ...]:
    """What was not read, and why, and what the dataset has to say."""
    corpus = dataset.corpus
    ignored = ", ".join(f"{count} {suffix}" for suffix, count in sorted(corpus.ignored.items()))
    repeats = f"{corpus.repeats} repeated documents are kept once"
    twins = gold_classes.note(dataset.gold)
    return (
        *(f"skipped: {sentence}" for sentence in dataset.skipped),
        *dataset.notes,
        *([repeats] if corpus.repeats else []),
        *([twins] if twins else []),
        *([f"files that no reader takes: {ignored}"] if ignored else []),
    )
