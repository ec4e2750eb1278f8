"""Conclusions of a comparison: confidence intervals, tests, and notes on the data and the figures."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ragindex._util.canonical import digest
from ragindex._util.text import first_names
from ragindex.corpus import describe_encodings, describe_ignored, describe_left_out
from ragindex.corpus.judgements import question_id
from ragindex.corpus.local_files import READ_SHARE
from ragindex.errors import UsageError
from ragindex.index.index import Index
from ragindex.index.notes import describe_old_fit, format_part_notes, list_part_details
from ragindex.llm.answer_question import parse_choice
from ragindex.plugins import registry
from ragindex.plugins.base import walk_plugins
from ragindex.retrieval.trace import UNKNOWN_DOCUMENTS
from ragindex_eval.data import datasets, gold_classes
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold
from ragindex_eval.data.titles import find_naming
from ragindex_eval.format import many
from ragindex_eval.metrics import tree_coverage
from ragindex_eval.metrics.answers import select_shown
from ragindex_eval.metrics.score import list_judged
from ragindex_eval.results.model import Comparison, DatasetFacts, MethodAnswer, MethodResult, sort_methods
from ragindex_eval.results.reader_results import ReaderFacts
from ragindex_eval.run.answers_file import EarlierAnswers, note_of_earlier
from ragindex_eval.run.environment import environment
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.methods import Method
from ragindex_eval.run.near_gold import describe_near_gold, find_near_gold
from ragindex_eval.run.own_documents import describe_own_documents
from ragindex_eval.stats.enough import plan_questions
from ragindex_eval.stats.finds_nothing import FEWEST_OF_EACH, measure_finds_nothing
from ragindex_eval.stats.tests import compare_methods, with_intervals


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
    schemes = [method.scheme for method in asked]
    asks = reader is not None or any(index.asks_llm(method.scheme) for method in asked)
    identity = digest([dataset.fingerprint, list(ks), *sorted(one.fingerprint for one in (*results, *failed))])
    titles = _titles(dataset)
    naming = find_naming(dataset.queries, dataset.gold, titles)
    if len(naming) == 1:  # a single question is no group
        naming = frozenset()
    ranked = tuple(with_intervals(sort_methods(results, ks), dataset.gold, index.seed, naming))
    pairs = compare_methods(ranked, index.seed)
    bounds = with_intervals(bounds, dataset.gold, index.seed)
    near = find_near_gold(dataset, ranked, ks[0])
    concluded = Comparison(
        dataset=describe_dataset(index, dataset),
        encoder=registry.label(index.encoders.plugin),
        encoder_id=index.encoder_id,
        llm=index.llm_name if asks else "none",
        store=index.store_name,
        language=index.language,
        seed=index.seed,
        ks=ks,
        queries=dataset.queries,
        gold=dataset.gold,
        titles=titles,
        methods=ranked,
        pairs=pairs,
        near_gold=near,
        read_shares=_find_read_shares(dataset, titles),
        finds_nothing=measure_finds_nothing(ranked, dataset.gold),
        notes=(
            *describe_own_documents(dataset.gold),  # first, so that no list of notes is cut before it
            *filter(None, [note_of_earlier(earlier)]),
            *_price_notes(index, [*ranked, *failed], methods),
            *_naming_notes(len(naming), _count_judged(dataset)),
            *_fitted_notes(dataset, asked),
            *filter(None, [describe_old_fit(index, schemes, [query.text for query in dataset.queries])]),
            *_data_notes(dataset),
            *describe_near_gold(dataset, near, ks[0]),
            *_unanswerable_notes(dataset),
            *_search_notes(ranked),
            *unknown_documents_notes({one.label: one.final for one in (*ranked, *failed)}),
            *format_part_notes(index, schemes),
            *(_reading_notes(dataset, ranked, bounds) if reader else ()),
            *(f"Disambig-F1 is by the spans of {name}" for name in _qa_model(experiment)),
        ),
        details=(*_data_details(dataset), *list_part_details(index, schemes)),
        left_out=tuple(left_out),
        environment=environment(),
        fingerprint=identity if reader is None else digest([identity, reader.id, *_qa_model(experiment)]),
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
    return replace(concluded, enough=plan_questions(concluded))


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


def describe_naming(dataset: Dataset) -> str:
    """Return a sentence on how many questions name the title of a document that answers them; "" if none does."""
    naming = find_naming(dataset.queries, dataset.gold, _titles(dataset))
    return _count_naming(len(naming), _count_judged(dataset))


def _count_judged(dataset: Dataset) -> int:
    return sum(bool(one.doc_ids) for one in (dataset.gold or {}).values())


def _count_naming(naming: int, judged: int) -> str:
    name, them = ("names", "it") if naming == 1 else ("name", "them")
    said = f"{naming:,} of {many(judged, 'question')} {name} the title of a document that answers {them}"
    return said if naming else ""


def _titles(dataset: Dataset) -> Mapping[str, str]:
    """Return the titles of the gold documents by id."""
    wanted = {id for gold in (dataset.gold or {}).values() for id in gold.doc_ids}
    return {document.id: document.title for document in dataset.corpus.documents if document.id in wanted}


def _find_read_shares(dataset: Dataset, gold: Container[str]) -> dict[str, float]:
    """Return the share of its file's words that was read, of gold documents with too low a share."""
    shares = (
        (document.id, document.metadata.get(READ_SHARE)) for document in dataset.corpus.documents if document.id in gold
    )
    return {id: share for id, share in shares if isinstance(share, float)}


def _price_notes(index: Index, results: Sequence[MethodResult], methods: Sequence[Method]) -> list[str]:
    unknown = [result.label for result in results if _is_money_unknown(result)]
    if not unknown:
        return []
    reads = any(answer.reading is not None for result in results for answer in result.final)
    names = index.unpriced((method.scheme for method in methods if method.label in unknown), reads=reads)
    who = " and ".join(names) or "a model"
    advice = "set it in a price file named by RAGINDEX_PRICES; calls that are already made keep an unknown cost"
    return [f"no price of {who} is known, so the cost of {', '.join(unknown)} is unknown: {advice}"]


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


def unknown_documents_notes(answers: Mapping[str, Sequence[MethodAnswer]]) -> list[str]:
    """Return a note for each label whose answers had hits of no document of the corpus, which count as misses."""
    notes = list[str]()
    for label, of_method in answers.items():
        unknown = [step.ids for answer in of_method for step in answer.trace if step.index == UNKNOWN_DOCUMENTS]
        if unknown:
            ids = list(dict.fromkeys(id for ids in unknown for id in ids))
            named = first_names([repr(id[:80]) for id in ids])
            found = f"{many(sum(map(len, unknown)), 'hit')} on {len(unknown):,} of {many(len(of_method), 'question')}"
            notes.append(f"{label}: {found} name no document of the corpus, and count as misses: {named}")
    return notes


def list_file_notes(dataset: Dataset) -> list[str]:
    """Return notes on files that stand out, such as one with most of all text, and on what was left out and why."""
    return [*dataset.corpus.notes, *describe_left_out(dataset.skipped)]


def _data_notes(dataset: Dataset) -> tuple[str, ...]:
    """Return the notes of the dataset, and notes on what was not read and why."""
    twins = gold_classes.note(dataset.gold)
    return (
        *dataset.notes,
        *list_file_notes(dataset),
        *([twins] if twins else []),
        *describe_ignored(dataset.corpus.ignored, dataset.corpus.unread),
    )


def _unanswerable_notes(dataset: Dataset) -> list[str]:
    """Return a note if too few questions are marked as unanswerable to choose a threshold of the score."""
    count = sum(not one.answerable for one in (dataset.gold or {}).values())
    if not count or min(count, _count_judged(dataset)) >= FEWEST_OF_EACH:
        return []
    asked = f"{many(count, 'question')} of answerable=no and {_count_judged(dataset):,} with gold"
    return [f"{asked} are too few to measure who rightly finds nothing: {FEWEST_OF_EACH} of each are needed"]


def _data_details(dataset: Dataset) -> list[str]:
    """Return remarks on documents that were read otherwise than the rest, and on those that are there twice."""
    repeats = f"{dataset.corpus.repeats} repeated documents are kept once"
    return [*describe_encodings(dataset.corpus.encodings), *([repeats] if dataset.corpus.repeats else [])]


def _fitted_notes(dataset: Dataset, methods: Sequence[Method]) -> Iterator[str]:
    """Yield a note for each method of which a parameter was fitted to questions of the dataset."""
    ids = {question_id(query.text) for query in dataset.queries}
    for method in methods:
        known = ids.intersection(id for plugin in walk_plugins(method.scheme) for id in plugin.fitted_to())
        if known:
            yield (
                f"{method.label} was fitted to {len(known):,} of these {many(len(ids), 'question')}, where its figures "
                "are too high: see those out of fold, of ragindex tune"
            )


def _naming_notes(naming: int, judged: int) -> list[str]:
    """Return a note that questions name titles of their gold documents; [] if none does."""
    said = _count_naming(naming, judged)
    if not said:
        return []
    if naming == judged:
        return [f"{said}: questions without it may rank the methods otherwise"]
    return [f"{said}: compare the figures of both groups of questions, because their mean hides the difference"]


def _qa_model(experiment: Experiment) -> list[str]:
    """Return the name of the model for extractive QA, if it measures anything."""
    ambiguous = any(one.sub_questions for one in (experiment.dataset.gold or {}).values())
    return [experiment.qa_model] if experiment.qa_model and ambiguous else []


def _reading_notes(dataset: Dataset, methods: Sequence[MethodResult], bounds: Sequence[MethodResult]) -> Iterator[str]:
    """Yield notes on questions without accepted answers, on answers that name no option, and on answers not read."""
    asked, answerable = len(dataset.queries), len(bounds[0].final) if bounds else 0
    measured = _join_names(bounds[0].metrics) if bounds else ""
    if not answerable:
        yield "no question has accepted answers: answers were read, and not measured"
    elif answerable < asked:
        yield f"{measured} are over {answerable:,} of {many(asked, 'question')}: the others have no accepted answers"
    for method in (*methods, *bounds):
        reasons = [one.reading.error for one in method.final if one.reading and one.reading.error]
        if reasons:
            score = "scores" if len(reasons) == 1 else "score"
            missing = f"{many(len(reasons), 'answer')} could not be read and {score} 0 at {measured}"
            yield f"{method.label}: {missing}: {reasons[0]}"
        if unnamed := _count_unnamed(method, dataset.gold or {}):
            yield f"{method.label}: {many(unnamed, 'answer')} named no option and count as wrong"


def _join_names(metrics: Iterable[str]) -> str:
    return " and ".join(select_shown(list(metrics)))


def _count_unnamed(method: MethodResult, gold: Mapping[str, Gold]) -> int:
    """Return how many answers to multiple-choice questions were read, and name no option."""
    options = {id: one.options for id, one in gold.items() if one.options and one.answers}
    read = [(one.reading, options[one.query_id]) for one in method.final if one.query_id in options]
    return sum(
        reading is not None and reading.error is None and parse_choice(reading.answer, among) is None
        for reading, among in read
    )
