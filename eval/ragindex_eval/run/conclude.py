"""Conclusions: the result of each method, and of the comparison with its intervals and tests."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from ragindex._util.canonical import digest
from ragindex.accounting import ledger
from ragindex.corpus import describe_encodings
from ragindex.corpus.local_files import READ_SHARE
from ragindex.errors import QuestionError, UsageError
from ragindex.index.index import Index
from ragindex.index.notes import list_part_details
from ragindex.plugins import registry
from ragindex_eval.conclusions.differences import compare_methods, with_intervals
from ragindex_eval.conclusions.published import compare_published, list_measured_conditions
from ragindex_eval.conclusions.questions import measure_finds_nothing, plan_questions
from ragindex_eval.data import datasets, gold_classes
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.metrics import retrieval
from ragindex_eval.metrics.evidence import TokensToRecall
from ragindex_eval.metrics.long_answers import add_disambiguated_rouge
from ragindex_eval.metrics.retrieval import list_judged
from ragindex_eval.results.model import (
    ComparedMethods,
    Comparison,
    DatasetFacts,
    MethodResult,
    describe_failed,
    sort_methods,
)
from ragindex_eval.results.records import NO_USAGE, HoldoutResult, ReaderFacts
from ragindex_eval.run import tree_coverage
from ragindex_eval.run.environment import environment
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.functions import FunctionMethod
from ragindex_eval.run.latency import MethodTimes
from ragindex_eval.run.notes import find_naming_questions, find_near_gold, list_notes, list_qa_models, list_titles
from ragindex_eval.run.plan import Plan
from ragindex_eval.run.read_answers import AnswerReader
from ragindex_eval.run.scores import ScoredMethod, Scores, count_tokens_to_recall
from ragindex_eval.run.settings import MeasureSettings


def require_compared(scores: Scores) -> None:
    """Check that a method can be compared. Raises QuestionError if all failed, and UsageError if there is none."""
    if scores.compared:
        return
    if scores.failed:
        raise QuestionError(
            f"No method answered any question. {describe_failed(list(map(make_result, scores.failed)))}"
        )
    raise UsageError("No method could be made. " + " ".join(map(str, scores.left_out)))


def make_results(experiment: Experiment, scores: Scores, times: Sequence[MethodTimes]) -> list[MethodResult]:
    """Return the results of the compared methods, best first, without intervals, which need all of them."""
    gold, seed = experiment.dataset.gold, experiment.index.seed
    results = [
        make_result(method, timed, count_tokens_to_recall(method.answers.final, gold, seed))
        for method, timed in zip(scores.compared, times, strict=True)
    ]
    return sort_methods(results, experiment.ks)


def make_result(
    method: ScoredMethod, times: MethodTimes | None = None, tokens: Mapping[str, TokensToRecall] | None = None
) -> MethodResult:
    """Return the result of a method, with its times and the tokens to recall if it was timed."""
    answers, timed = method.answers, times or MethodTimes()
    described = registry.describe(answers.scheme)
    tallies = [answers.paid, *timed.paid]
    return MethodResult(
        name=answers.scheme.name if isinstance(answers.scheme, FunctionMethod) else described["name"],
        label=method.label,
        params=described["params"],
        fingerprint=answers.fingerprint,
        answers=answers.by_k,
        per_query={} if method.fails else method.metrics,
        metrics={} if method.fails else add_disambiguated_rouge(retrieval.means(list(method.metrics.values()))),
        latency=timed.latency,
        parts=answers.parts,
        spent=replace(sum((tally.spent for tally in tallies), NO_USAGE), seconds=answers.seconds),
        stages=_add_stages(tallies),
        tokens_to_recall=tokens or {},
        built=not isinstance(answers.scheme, FunctionMethod),
    )


def _add_stages(tallies: Sequence[ledger.Tally]) -> dict[str, Counter[str]]:
    """Add up how LLM outputs were parsed, by task, over all tallies."""
    total: dict[str, Counter[str]] = {}
    for tally in tallies:
        for task, counts in tally.stages.items():
            total.setdefault(task, Counter()).update(counts)
    return total


def conclude(
    experiment: Experiment,
    plan: Plan,
    scores: Scores,
    results: Sequence[MethodResult],
    bounds: Sequence[MethodResult],
    holdout: HoldoutResult | None,
    settings: MeasureSettings,
    paid: ledger.Tally,
) -> Comparison:
    """Build the comparison of `results`, which `make_results` returns, with intervals and tests.

    `bounds` are the results of the reader's bounds, `holdout` confirms the choice by questions kept apart, and `paid`
    is what the run has paid.
    """
    index, dataset, reader, ks = experiment.index, experiment.dataset, experiment.reader, experiment.ks
    order = tuple(method.label for method in scores.compared)
    schemes = {label: scheme for label, scheme in plan.schemes.items() if label in order}
    reads = reader is not None and reader.plugin == index.model.plugin
    asks = reads or any(index.asks_llm(scheme) for scheme in schemes.values())
    failed = tuple(map(make_result, scores.failed))
    identity = digest([dataset.fingerprint, list(ks), *sorted(result.fingerprint for result in (*results, *failed))])
    titles, naming = list_titles(dataset), find_naming_questions(dataset)
    ranked = tuple(with_intervals(results, dataset.gold, index.seed, naming))
    bounds = with_intervals(bounds, dataset.gold, index.seed)
    near = find_near_gold(dataset, ranked, ks[0])
    earlier = {method.label: method.answers.earlier for method in (*scores.compared, *scores.failed)}
    counted = {label: answers for label, answers in earlier.items() if answers is not None}
    notes = list_notes(experiment, plan.methods, ranked, failed, bounds, near, counted)
    if settings.published is not None and settings.published_data is None:
        names = ", ".join(settings.published.data)
        advice = f"name this data set with --published-data ({names})"
        notes.append(f"the figures of {settings.published.source} are left out: {advice}")
    compared = ComparedMethods(ks=ks, methods=ranked, pairs=compare_methods(ranked, index.seed))
    facts = describe_dataset(index, dataset)
    encoder, llm = registry.label(index.encoders.plugin), index.llm_name if asks else "none"
    coverage = tree_coverage.measure_coverage(
        index,
        schemes,
        (gold.doc_ids for gold in (dataset.gold or {}).values()),
        gold_classes.same(dataset.gold),
        (gold.candidates for gold in (dataset.gold or {}).values()),
    )
    pools = {} if coverage is None else coverage.pools
    published = None
    if settings.published is not None and settings.published_data is not None:
        read_by = "none" if reader is None else reader.name
        conditions = list_measured_conditions(facts, ks[-1], encoder=encoder, llm=llm, reader=read_by)
        named = settings.published_data
        published = compare_published(settings.published, named, compared, conditions, bounds, pools)
    return Comparison(
        dataset=facts,
        encoder=encoder,
        encoder_id=index.encoder_id,
        llm=llm,
        store=index.store_name,
        language=index.language,
        seed=index.seed,
        ks=ks,
        queries=dataset.queries,
        gold=dataset.gold,
        titles=titles,
        methods=compared.methods,
        pairs=compared.pairs,
        near_gold=near,
        read_shares=_find_read_shares(dataset, titles),
        finds_nothing=measure_finds_nothing(ranked, dataset.gold),
        notes=(*notes, *filter(None, [ledger.describe_lost(paid)])),
        details=(*_data_details(dataset), *list_part_details(index, list(schemes.values()))),
        left_out=tuple(map(str, (*plan.left_out, *scores.left_out))),
        environment=environment(),
        fingerprint=identity if reader is None else digest([identity, reader.id, *list_qa_models(experiment)]),
        asked=order,
        failed=failed,
        reader=None if reader is None else _describe_reader(reader),
        bounds=tuple(bounds),
        coverage=coverage,
        enough=plan_questions(compared, facts.judged),
        holdout=holdout,
        published=published,
        paid=paid.spent,
        possibly_charged=paid.possibly_charged,
        retries=paid.retries,
    )


def _describe_reader(reader: AnswerReader) -> ReaderFacts:
    limits = reader.limits
    return ReaderFacts(
        llm=reader.name,
        tokens=limits.tokens,
        estimated=reader.estimated,
        prompt=reader.prompt,
        passages=limits.passages,
        input="notes" if limits.notes else "passages",
    )


def describe_dataset(index: Index, dataset: Dataset) -> DatasetFacts:
    """Return the size and identity of a dataset that is in an index."""
    counts = index.counts()
    return DatasetFacts(
        name=dataset.name,
        format=dataset.corpus.format,
        documents=counts.documents,
        passages=counts.passages,
        questions=len(dataset.queries),
        judged=len(list_judged(dataset)),
        fingerprint=dataset.fingerprint,
        skipped=len(dataset.skipped),
        **datasets.describe_content(dataset),
    )


def _find_read_shares(dataset: Dataset, gold: Container[str]) -> dict[str, float]:
    """Return the share of its file's words that was read, of gold documents with too low a share."""
    shares = (
        (document.id, document.metadata.get(READ_SHARE)) for document in dataset.corpus.documents if document.id in gold
    )
    return {id: share for id, share in shares if isinstance(share, float)}


def _data_details(dataset: Dataset) -> list[str]:
    """Return remarks on documents that were read otherwise than the rest, and on those that are there twice."""
    repeats = f"{dataset.corpus.repeats} repeated documents are kept once"
    return [*describe_encodings(dataset.corpus.encodings), *([repeats] if dataset.corpus.repeats else [])]
