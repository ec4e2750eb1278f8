"""Conclusions of a comparison: confidence intervals, tests, and notes on the data and the figures."""

from collections.abc import Iterator, Mapping, Sequence

from ragindex.canonical import digest
from ragindex.errors import UsageError
from ragindex.plugins import registry
from ragindex.workspace.notes import format_part_notes
from ragindex.workspace.workspace import Workspace
from ragindex_eval.data import gold_classes
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.format import many
from ragindex_eval.metrics import tree_coverage
from ragindex_eval.metrics.score import judgements
from ragindex_eval.results.model import Comparison, DatasetFacts, MethodResult, sort_methods
from ragindex_eval.results.reader_results import ReaderFacts
from ragindex_eval.run.answers_file import EarlierAnswers, note_of_earlier
from ragindex_eval.run.environment import environment
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.methods import Method
from ragindex_eval.stats.tests import pairs, with_intervals


def conclude(
    experiment: Experiment,
    methods: Sequence[Method],
    results: Sequence[MethodResult],
    failed: Sequence[MethodResult],
    bounds: Sequence[MethodResult],
    earlier: Mapping[str, EarlierAnswers],
    left_out: Sequence[str],
) -> Comparison:
    """Build the comparison of `results`, with intervals and tests. Raises UsageError if there are no results.

    `methods` are all planned methods, also those without results; `left_out` says why methods are missing. `failed`
    are the results of methods that failed on every question, `bounds` those of the reader's bounds. `earlier` counts
    the answers reused from an earlier run, by label.
    """
    if not results:
        raise UsageError("No method could be made. " + " ".join(left_out))
    index, dataset, reader, ks = experiment.index, experiment.dataset, experiment.reader, experiment.ks
    order = tuple(result.label for result in results)
    asked = [method for method in methods if method.label in order]
    asks = reader is not None or any(index.asks(method.scheme) for method in asked)
    identity = digest([dataset.fingerprint, list(ks), *(result.fingerprint for result in results)])
    ranked = with_intervals(sort_methods(results, ks), dataset.gold, index.seed)
    bounds = with_intervals(bounds, dataset.gold, index.seed)
    return Comparison(
        dataset=_facts(index, dataset),
        encoder=registry.label(index.encoders.plugin),
        encoder_id=index.encoder_id,
        llm=index.llm_name if asks else "none",
        store=index.store_name,
        language=index.language,
        seed=index.seed,
        ks=ks,
        queries=dataset.queries,
        gold=dataset.gold,
        titles=_titles(dataset),
        methods=tuple(ranked),
        pairs=pairs(ranked, index.seed),
        notes=(
            *filter(None, [note_of_earlier(earlier)]),
            *_price_notes(index, [*ranked, *failed], methods),
            *_data_notes(dataset),
            *_search_notes(ranked),
            *format_part_notes(index, [method.scheme for method in asked]),
            *(_reading_notes(dataset, ranked, bounds) if reader else ()),
        ),
        left_out=tuple(left_out),
        environment=environment(),
        fingerprint=identity if reader is None else digest([identity, reader.id]),
        asked=order,
        failed=tuple(failed),
        reader=None if reader is None else ReaderFacts(index.llm_name, reader.tokens, reader.estimated, reader.prompt),
        bounds=tuple(bounds),
        coverage=tree_coverage.measure_coverage(
            index,
            {method.label: method.scheme for method in asked},
            (gold.doc_ids for gold in (dataset.gold or {}).values()),
            gold_classes.same(dataset.gold),
            (gold.candidates for gold in (dataset.gold or {}).values()),
        ),
    )


def _facts(index: Workspace, dataset: Dataset) -> DatasetFacts:
    counts = index.counts()
    return DatasetFacts(
        name=dataset.name,
        format=dataset.corpus.format,
        documents=counts.documents,
        passages=counts.passages,
        questions=len(dataset.queries),
        judged=sum(bool(judgements(dataset.gold, query.id)) for query in dataset.queries),
        fingerprint=dataset.fingerprint,
    )


def _titles(dataset: Dataset) -> Mapping[str, str]:
    """Return the titles of the gold documents by id."""
    wanted = {id for gold in (dataset.gold or {}).values() for id in gold.doc_ids}
    return {document.id: document.title for document in dataset.corpus.documents if document.id in wanted}


def _price_notes(index: Workspace, results: Sequence[MethodResult], methods: Sequence[Method]) -> list[str]:
    unknown = [result.label for result in results if _is_money_unknown(result)]
    if not unknown:
        return []
    reads = any(answer.reading is not None for result in results for answer in result.final)
    names = index.unpriced((method.scheme for method in methods if method.label in unknown), reads=reads)
    who = " and ".join(names) or "a model that was asked"
    has = "have" if len(names) > 1 else "has"
    advice = "name one in a file, and it in RAGINDEX_PRICES; what was indexed without a price stays unknown"
    return [f"{who} {has} no price, so money is not known of {', '.join(unknown)}: {advice}"]


def _is_money_unknown(result: MethodResult) -> bool:
    usages = [result.index_usage, result.query_usage, result.spent]
    return any(usage.money is None for usage in usages)


def _search_notes(results: Sequence[MethodResult]) -> list[str]:
    """Return notes on parts of the index whose search is approximate."""
    return [
        f"{result.label}: {name} is searched {figures.search}"
        for result in results
        for name, figures in result.parts.items()
        if figures.search.startswith("approximate")
    ]


def _data_notes(dataset: Dataset) -> tuple[str, ...]:
    """Return notes on what was not read and why, and the notes of the dataset."""
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


def _reading_notes(dataset: Dataset, methods: Sequence[MethodResult], bounds: Sequence[MethodResult]) -> Iterator[str]:
    """Yield notes on questions without accepted answers, and on answers that the reader could not give."""
    asked, answerable = len(dataset.queries), len(bounds[0].final) if bounds else 0
    if not answerable:
        yield "no question has accepted answers: answers were read, and not measured"
    elif answerable < asked:
        yield f"EM and F1 are over {answerable:,} of {many(asked, 'question')}: the others have no accepted answers"
    for method in (*methods, *bounds):
        reasons = [one.reading.error for one in method.final if one.reading and one.reading.error]
        if reasons:
            score = "scores" if len(reasons) == 1 else "score"
            missing = f"{many(len(reasons), 'answer')} could not be read and {score} 0 at EM and F1"
            yield f"{method.label}: {missing}: {reasons[0]}"
